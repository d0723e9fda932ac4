# SPDX-License-Identifier: GPL-2.0
"""Read lines of text files in the forms in which they are exchanged: compressed, whatever the
file's name; joined from several files; or saved by a spreadsheet, with a byte order mark, in
UTF-16, with CR or CR LF at the ends of lines, or with an old end-of-file mark."""

import bz2
import codecs
import gzip
import io
import lzma
import zlib

# The first bytes of a file, and the function that opens it.
COMPRESSED = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open))
# Archives may hold several files, so they are refused.
ARCHIVES = ((b"PK\x03\x04", "a ZIP archive or a workbook of a spreadsheet: unpack it, or save it as "
             "CSV"), (b"7z\xbc\xaf", "a 7z archive: unpack it"),
            (b"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it with zstd -d"))
WIDE = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
END = b"\x1a"           # CP/M's end of file, as some editors and spreadsheets still write it
HEAD = 8
CHUNK = 1 << 20

DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError)


def _plain(stream, head):
    """Return @stream in UTF-8, without a leading byte order mark."""
    for mark, name in WIDE:
        if head.startswith(mark):
            stream.read(len(mark))
            return codecs.EncodedFile(stream, "utf-8", name)
    if head.startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))
    return stream


def _split(stream):
    """Yield lines without their ends: LF, CR LF or CR."""
    rest = b""
    while chunk := stream.read(CHUNK):
        parts = (rest + chunk).split(b"\n")
        rest = parts.pop()
        for part in parts:
            yield from part.removesuffix(b"\r").split(b"\r")
        if b"\r" in rest[:-1]:
            *lines, rest = rest.split(b"\r")
            yield from lines
    if rest:
        yield from rest.removesuffix(b"\r").split(b"\r")


def lines(raw):
    """Yield (number, line) of the binary file @raw, which is at its start; numbers begin with 1.

    Byte order marks at the start, or where files were joined, are removed, and so is an end-of-file
    mark after the last line.  Raises ValueError with a few words for a file that is no text, and
    one of DAMAGED for a compressed file that is incomplete.
    """
    raw = io.BufferedReader(raw) if isinstance(raw, io.RawIOBase) else raw
    head = raw.peek(HEAD)[:HEAD]
    for magic, what in ARCHIVES:
        if head.startswith(magic):
            raise ValueError(f"the file is {what}")
    stream = next((way(raw) for magic, way in COMPRESSED if head.startswith(magic)), raw)
    stream = _plain(stream, stream.peek(HEAD)[:HEAD])
    ended = 0
    for number, line in enumerate(_split(stream), 1):
        line = line.removeprefix(codecs.BOM_UTF8)
        if ended and line.strip():
            raise ValueError(f"line {ended} ends with the byte 0x1a, and more lines follow")
        if line.endswith(END):
            line, ended = line.rstrip(END), number
        yield number, line


def columns(line):
    """Return the fields of a line, separated by commas, or by semicolons or tabs, as spreadsheets
    write them where the comma is the decimal point; quotes around a field are removed."""
    comma = line.count(b",")
    mark = b"," if comma else max((b";", b"\t"), key=line.count)
    return [field.strip().removeprefix(b'"').removesuffix(b'"').strip()
            for field in line.split(mark)]
