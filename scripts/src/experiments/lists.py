# SPDX-License-Identifier: GPL-2.0
"""Parse option values that are lists with commas.  A duplicate counts once, because it would count
one measurement twice.  Errors are a ValueError with one sentence."""

import re


def names(text, known, what):
    """Return the names in the order of @text; each must be in @known."""
    out = list(dict.fromkeys(text.split(",")))
    for word in out:
        if word not in known:
            raise ValueError(f"{what} '{word}' is none of {', '.join(known)}")
    return out


U64_MAX = 2 ** 64 - 1


def numbers(text, least, what):
    """Return the numbers, which must be from @least to what 64 bits hold."""
    out = text.split(",")
    for word in out:
        if not re.fullmatch(r"[0-9]+", word) or int(word) < least:
            raise ValueError(f"{what} '{word}' is no number from {least} on")
        if int(word) > U64_MAX:
            raise ValueError(f"{what} '{word}' is more than {U64_MAX}")
    return list(dict.fromkeys(map(int, out)))
