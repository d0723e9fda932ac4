# SPDX-License-Identifier: GPL-2.0
"""Lists in the options of experiments."""


import pytest


from experiments import lists


def test_repeated_values_count_once():
    """Values that an option repeats count once. Otherwise two guests would write the same file
    at a time, and one run would count as several in the statistics over seeds."""
    assert lists.numbers("3,1,3,03", 0, "--seeds:") == [3, 1]
    assert lists.names("seq,plain,seq", ("plain", "seq", "3phase"), "scheme") == ["seq", "plain"]


@pytest.mark.parametrize("text,sentence", (
    ("seq,best", "scheme 'best' is none of plain, seq"), ("", "scheme '' is none of plain, seq"),
    ("seq,", "scheme '' is none of plain, seq")))
def test_unknown_names(text, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        lists.names(text, ("plain", "seq"), "scheme")


@pytest.mark.parametrize("text,word", (("1,x", "x"), ("3,0", "0"), ("", ""), ("-1", "-1"), ("1,2.5", "2.5")))
def test_invalid_numbers(text, word):
    with pytest.raises(ValueError, match=f"^--sizes: '{word}' is no number from 1 on$"):
        lists.numbers(text, 1, "--sizes:")


def test_largest_number_is_64_bits():
    """The largest number is that of 64 bits, which the programs accept."""
    assert lists.numbers(f"{2 ** 64 - 1}", 0, "--seeds:") == [2 ** 64 - 1]
    with pytest.raises(ValueError, match=f"^--seeds: '{2 ** 64}' is more than {2 ** 64 - 1}$"):
        lists.numbers(f"1,{2 ** 64}", 0, "--seeds:")
