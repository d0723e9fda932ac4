# SPDX-License-Identifier: GPL-2.0
"""Find, unpack and parse files in DiskSim's format, without guessing."""

import lzma
import re

MOST = 1e12         # limit for all values; in ms three decades, which fit into 64 bits of ns


class Problem(Exception):
    """The reason why a drive cannot be compared."""


class Folder:
    """Files of a directory, plain or compressed, by their plain name."""

    def __init__(self, path):
        self.path = path
        self.names = sorted({p.name[:-3] if p.suffix == ".xz" else p.name
                             for p in path.iterdir() if p.is_file()})

    def __contains__(self, name):
        return name in self.names

    def ending(self, suffix):
        return [n for n in self.names if n.endswith(suffix)]

    def read(self, name):
        plain, packed, texts = self.path / name, self.path / f"{name}.xz", set()
        if plain.is_file():
            texts.add(plain.read_bytes())
        if packed.is_file():
            try:
                texts.add(lzma.decompress(packed.read_bytes()))
            except lzma.LZMAError as error:
                raise Problem(f"{packed.name} cannot be unpacked: {error}") from None
        if len(texts) != 1:
            raise Problem(f"{name} is not there" if not texts else
                          f"{name} and {packed.name} differ; nothing says which")
        return texts.pop().decode("latin-1")

    def parameters(self, name):
        return re.sub(r"#.*", "", self.read(name))


ASKED: set[str] = set()       # labels that were read while parsing the current drive


def labels(text):
    """Return every label that a description sets, without those of a queue's scheduler."""
    text = re.sub(r"disksim_ioqueue\s*{[^{}]*}", "", text)
    return set(re.findall(r"(?:^|[{,\n])[ \t]*([A-Za-z][^=,{}\[\]\n]*?)\s*=", text))


def word(text, label, default=None):
    ASKED.add(label)
    found = {value.strip() for value in re.findall(
        rf"(?:^|[{{,\n])\s*{re.escape(label)}\s*=\s*([^,\n\]}}]+)", text)}
    if len(found) > 1:
        raise Problem(f"'{label}' is there more than once: {', '.join(sorted(found))}")
    if found:
        return found.pop()
    if default is None:
        raise Problem(f"'{label}' is missing in the description")
    return default


def bounded(value, what):
    """Return @value; raise Problem if it is too large for any drive, or nan."""
    if not abs(value) <= MOST:
        raise Problem(f"{what} {value:g}, which no drive has")
    return value


def number(text, label, default=None):
    value = word(text, label, None if default is None else str(default))
    try:
        value = float(value)
    except ValueError:
        raise Problem(f"'{label}' is '{value}', not a number") from None
    return bounded(value, f"'{label}' is")


def above_zero(value, label):
    if value <= 0:
        raise Problem(f"'{label}' is {value:g}; it must be above 0")
    return value


def integer(text, label, default=None):
    value = number(text, label, default)
    if not value.is_integer():
        raise Problem(f"'{label}' is {value:g}, not a whole number")
    return int(value)


def numbers(text, label):
    ASKED.add(label)
    found = re.search(re.escape(label) + r"\s*=\s*\[(.*?)\]", text, re.S)
    if not found:
        raise Problem(f"'{label}' is missing in the description")
    try:
        values = [float(x) for x in found[1].split(",") if x.strip()]
    except ValueError:
        raise Problem(f"'{label}' are not all numbers") from None
    return [bounded(value, f"'{label}' has") for value in values]


def blocks_of(text, kind):
    """Return names and bodies of 'kind NAME {...}'."""
    out = {}
    for found in re.finditer(rf"\b{kind}\s+([\w.-]+)\s*{{", text):
        depth, at = 1, found.end()
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        out[found[1]] = text[found.end():at - 1]
    return out
