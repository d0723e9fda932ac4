# SPDX-License-Identifier: GPL-2.0
"""Lists with commas in the words of the shows.  What is said twice counts once: it would be one
measurement taken for two.  ValueError is one sentence."""

import re


def names(text, known, what):
    """Of those that are @known, in the order of @text."""
    out = list(dict.fromkeys(text.split(",")))
    for word in out:
        if word not in known:
            raise ValueError(f"{what} '{word}' is none of {', '.join(known)}")
    return out


U64_MAX = 2 ** 64 - 1


def numbers(text, least, what):
    """From @least on, as far as our programs count."""
    out = text.split(",")
    for word in out:
        if not re.fullmatch(r"[0-9]+", word) or int(word) < least:
            raise ValueError(f"{what} '{word}' is no number from {least} on")
        if int(word) > U64_MAX:
            raise ValueError(f"{what} '{word}' is more than {U64_MAX}")
    return list(dict.fromkeys(map(int, out)))
