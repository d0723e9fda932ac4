/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Platters, for the side that knows nothing but what they say of themselves.
 */
#ifndef WINDOWS_CHECK_MEDIUM_H
#define WINDOWS_CHECK_MEDIUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEDIA	3

typedef uint32_t (*medium_random)(uint32_t below);
typedef int (*medium_destroyed)(void *ctx, uint64_t block, uint32_t n);

/**
 * medium_draw() - make a platter
 * @nr: which one, below MEDIA
 * @random: a number from 0 to below its argument
 * @interlaced: with bottoms and tops, else shingled
 * @reply: result, what the target answers to `geometry'
 * @size: of @reply
 *
 * Returns its blocks.
 */
uint64_t medium_draw(int nr, medium_random random, bool interlaced, char *reply,
		     size_t size);

/**
 * medium_profile() - make platter 0 one of the named drives, at its full size
 * @name: of the profile
 * @reply: result, as of medium_draw()
 * @size: of @reply
 *
 * Returns whether there is one.
 */
bool medium_profile(const char *name, char *reply, size_t size);

/**
 * medium_write() - what a write leaves destroyed on a platter
 * @nr: which one
 * @block: first block written
 * @n: how many
 * @fn: told of every range; what it returns but 0 ends the walk
 * @ctx: handed to @fn
 *
 * A block that the write covers first and writes then is not destroyed.
 *
 * Return: 0, or the result of @fn that is not 0.
 */
int medium_write(int nr, uint64_t block, uint64_t n, medium_destroyed fn, void *ctx);

#endif /* WINDOWS_CHECK_MEDIUM_H */
