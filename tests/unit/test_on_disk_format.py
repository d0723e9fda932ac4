# SPDX-License-Identifier: GPL-2.0
"""Compare on-disk-format.rst with core/lib/format/format.h and the engines, byte by byte."""

import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
DOCUMENT = (TOP / "Documentation/on-disk-format.rst").read_text(encoding="utf-8")
HEADER = (TOP / "core/lib/format/format.h").read_text(encoding="utf-8")
RULE = re.compile(r"^=+(  +=+)+$")


def fields(struct):
    """Return the names of a packed struct's members in format.h, in order."""
    body = re.search(rf"^struct {struct} {{\n(.*?)^}} __packed;", HEADER, re.M | re.S)[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return re.findall(r"(\w+)(?:\[\w+\])?;", body)


def tables(heads):
    """Return every table of the document with these column heads, as lists of rows with
    continuation lines joined."""
    found, lines = [], DOCUMENT.splitlines()
    for i, line in enumerate(lines):
        if not RULE.match(line) or lines[i + 1].split() != heads or not RULE.match(lines[i + 2]):
            continue
        starts = [m.start() for m in re.finditer(r"=+", line)]
        cut = [slice(a, b) for a, b in zip(starts, [*starts[1:], None])]
        rows = []
        for text in lines[i + 3:]:
            if RULE.match(text):
                break
            cells = [text[c].strip() for c in cut]
            if cells[0]:
                rows.append(cells)
            else:
                rows[-1] = [" ".join(filter(None, pair)) for pair in zip(rows[-1], cells)]
        found.append(rows)
    return found


# In the order of the document.
STRUCTS = ("shingle_header", "shingle_sb", "shingle_disk_group", "shingle_disk_medium",
           "shingle_disk_zone", "shingle_disk_conv", "shingle_disk_settings", "shingle_member",
           "shingle_journal_block", "shingle_record", "shingle_chunk", "shingle_footer")
LAYOUTS = tables(["offset", "bytes", "meaning"])


# The file of each engine's records and their prefix, in the order of the document.
RECORDS = {
    "stl-set": ("dm-stl/set/engine.h", "STL_SET_"),
    "stl-full": ("dm-stl/full/engine.h", "STL_FULL_"),
    "stl-log": ("dm-stl/log/engine.h", "STL_LOG_"),
    "imr": ("dm-imr/imr-engine.h", "IMR_"),
    "tiler": ("dm-tiler/tiler-engine.h", "TILER_REC_"),
    "dualbuffer": ("dm-dualbuffer/dual/engine.h", "DUAL_REC_"),
    "rmwf": ("dm-dualbuffer/rmwf/engine.h", "RMWF_REC_"),
}


def records(engine):
    """Return the names of an engine's records, from the enum that begins where core's records end.
    """
    file, prefix = RECORDS[engine]
    enum = re.search(r"^enum {\n[^}]*= SHINGLE_REC_ENGINE,[^}]*}",
                     (TOP / file).read_text(encoding="utf-8"), re.M)
    return re.findall(rf"^\t({prefix}\w+)(?: =.*?)?,", enum[0], re.M)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Compile format.h. Return offset and size of every member, and the constants that the document
    repeats."""
    where = tmp_path_factory.mktemp("format")
    lines = []
    for struct in STRUCTS:
        lines += [f'printf("{struct}.{name} %zu %zu\\n", offsetof(struct {struct}, {name}), '
                  f"sizeof(((struct {struct} *)0)->{name}));" for name in fields(struct)]
        lines.append(f'printf("{struct} 0 %zu\\n", sizeof(struct {struct}));')
    for number in ("SHINGLE_VERSION", "SHINGLE_MAX_GROUPS", "SHINGLE_JOURNAL_RECORDS",
                   "SHINGLE_CHUNK_BYTES", "SHINGLE_MAX_BAD", "SHINGLE_MAX_LENGTHS", "SHINGLE_MAGIC_SB",
                   "SHINGLE_MAGIC_JOURNAL", "SHINGLE_MAGIC_CHUNK", "SHINGLE_MAGIC_FOOTER",
                   "SHINGLE_MAGIC_PAGE", "SHINGLE_SETTINGS_VERSION", "SHINGLE_SETTINGS_BYTES",
                   "SHINGLE_REC_BAD", "SHINGLE_REC_GOOD"):
        lines.append(f'printf("{number} 0 %lld\\n", (long long){number});')
    for engine in RECORDS:
        lines += [f'printf("{name} 0 %d\\n", {name});' for name in records(engine)]
    source = where / "format.c"
    source.write_text('#include "format/codec.h"\n#include "engine/badlist.h"\n#include "geometry/tracks.h"\n' + "".join(
        f'#include "{file}"\n' for file, _ in RECORDS.values()) +
        "int main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
    subprocess.run(["gcc", "-std=gnu11", "-o", where / "format", source] +
                   [f"-I{TOP}/{d}" for d in ("userspace/include", "core/lib", "dm-stl", "dm-dualbuffer", ".")],
                   check=True)
    out = subprocess.run([where / "format"], check=True, capture_output=True, text=True).stdout
    return {name: (int(offset), int(size)) for name, offset, size in
            (line.split() for line in out.splitlines())}


def test_every_layout_is_described():
    assert len(LAYOUTS) == len(STRUCTS)


@pytest.mark.parametrize("struct", STRUCTS)
def test_offsets_and_sizes(struct, compiled):
    told = [(int(offset), int(size)) for offset, size, _ in LAYOUTS[STRUCTS.index(struct)]]
    real = [compiled[f"{struct}.{name}"] for name in fields(struct)]
    assert told == real
    assert sum(size for _, size in told) == compiled[struct][1]


@pytest.mark.parametrize("number, sentence", [
    ("SHINGLE_VERSION", r"version of this format: (\d+)"),
    ("SHINGLE_MAX_GROUPS", r"entries used in the group table, at most (\d+)"),
    ("SHINGLE_MAX_GROUPS", r"group table: (\d+) entries of 40 bytes"),
    ("SHINGLE_MAX_LENGTHS", r"length more than (\d+)"),
    ("SHINGLE_JOURNAL_RECORDS", r"records used below, at most (\d+)"),
    ("SHINGLE_JOURNAL_RECORDS", r"(\d+) records of 24 bytes"),
    ("SHINGLE_CHUNK_BYTES", r"bytes used below, at most (\d+)"),
    ("SHINGLE_MAX_BAD", r"^- (\d+) unreadable blocks"),
    ("SHINGLE_SETTINGS_VERSION", r"version of the settings: (\d+)"),
    ("SHINGLE_SETTINGS_BYTES", r"bytes used below, 1 to (\d+)"),
])
def test_numbers_of_the_document(number, sentence, compiled):
    assert int(re.search(sentence, DOCUMENT, re.M)[1]) == compiled[number][1]


@pytest.mark.parametrize("kind, words", [
    ("SB", "superblock"), ("JOURNAL", "journal block"), ("CHUNK", "checkpoint chunk"),
    ("FOOTER", "checkpoint footer"), ("PAGE", "page of a map")])
def test_magic_numbers(kind, words, compiled):
    letters = compiled[f"SHINGLE_MAGIC_{kind}"][1].to_bytes(4, "little").decode()
    assert f"``{letters}`` {words}" in " ".join(LAYOUTS[0][0][2].split())


def test_records_of_core(compiled):
    told = {f"SHINGLE_REC_{name}": int(number, 0)
            for number, name, _ in tables(["type", "name", "meaning"])[0]}
    assert told == {name: compiled[name][1] for name in ("SHINGLE_REC_BAD", "SHINGLE_REC_GOOD")}


@pytest.mark.parametrize("engine", RECORDS)
def test_records_of_an_engine(engine, compiled):
    table = tables(["type", "name", "fields", "meaning"])[list(RECORDS).index(engine)]
    told = {RECORDS[engine][1] + name: int(number, 0) for number, name, *_ in table}
    assert told == {name: compiled[name][1] for name in records(engine)}
