# SPDX-License-Identifier: GPL-2.0
"""Compares the tables of the documentation with those of the code: options and counters."""

import os
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
ENGINES = {"stl-set": "dm-stl/set/engine", "stl-full": "dm-stl/full/engine",
           "stl-log": "dm-stl/log/engine",
           "imr": "dm-imr/imr-engine", "tiler": "dm-tiler/tiler-engine",
           "dualbuffer": "dm-dualbuffer/dual/engine", "rmwf": "dm-dualbuffer/rmwf/engine"}
RULE = re.compile(r"^=+(  *=+)+$")

PROGRAM = r"""
static void text(const struct shingle_option *o, u32 value)
{
	if (o->kind == SHINGLE_OPTION_WORD)
		printf("%s", o->words[value]);
	else if (o->words && value > o->max)
		printf("%s", o->words[value - o->max - 1]);
	else
		printf("%u", value);
}

static void options(const char *of, const struct shingle_option *o)
{
	unsigned int i;

	for (; o->name; o++) {
		printf("option|%s|%s|%u|%u|%u|%u|", of, o->name, o->kind, o->when, o->min, o->max);
		if (o->from)
			printf("%s", o->from);
		else if (!o->find_initial)
			text(o, o->initial);
		printf("|");
		for (i = 0; o->words && o->words[i]; i++)
			printf(" %s", o->words[i]);
		printf("|%s|%s|%s\n", o->help, o->range ?: "", o->busy ?: "");
	}
}

static inline void records(const char *of, const struct shingle_record_kind *k)
{
	for (; k && k->name; k++)
		printf("record|%s|0x%04x|%s|%s%s%s%s\n", of, k->type, k->name, k->n ? " n" : "",
		       k->a ? " a" : "", k->b ? " b" : "", k->c ? " c" : "");
}

static inline void counters(const char *of, const struct shingle_counter *c)
{
	for (; c->name; c++)
		printf("counter|%s|%s\n", of, c->name);
}
"""


def files_of(name):
    """Return the sources in a list of sources.mk."""
    done = subprocess.run(["make", "-s", "-f", "-", "list"], cwd=TOP, check=True, text=True,
                          capture_output=True, env={**os.environ, "MAKEFLAGS": ""},
                          input=f"include sources.mk\nlist: ; @echo $({name})\n")
    return done.stdout.split()


def said(where, name, headers, main, files):
    """Link a program with these files, run it, and return its output as rows of fields."""
    source = where / f"{name}.c"
    headers = [*headers, "engine/counters.h", "engine/records.h"]
    source.write_text("".join(f'#include "{file}"\n' for file in headers) + PROGRAM +
                      "int main(void)\n{\n" + "\n".join(main) + "\nreturn 0;\n}\n")
    subprocess.run(["gcc", "-std=gnu11", "-o", where / name, source,
                    *(TOP / file for file in files)] +
                   [f"-I{TOP}/{d}" for d in ("userspace/include", "core/lib", "dm-stl", "dm-dualbuffer")], check=True)
    out = subprocess.run([where / name], check=True, capture_output=True, text=True).stdout
    return [line.split("|") for line in out.splitlines()]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Return the rows of the code's tables."""
    where = tmp_path_factory.mktemp("tables")
    main = ['options("core", shingle_keys);',
            '#define X(name) printf("counter|core|%s\\n", #name)',
            "SHINGLE_GAUGES(X, ;);", "SHINGLE_COUNTERS(X, ;);"]
    for name in ENGINES:
        ops = f"{name.replace('-', '_')}_engine_ops"
        main += [f'options("{name}", {ops}.options);', f'options("{name}-", {ops}.params);',
                 f'counters("{name}", {ops}.counters);', f'records("{name}", {ops}.records);',
                 f"for (int i = 0; i < SHINGLE_STEP_KINDS && {ops}.step_kinds[i]; i++)",
                 f'printf("counter|{name}|step_%s_us\\ncounter|{name}|longest_%s_us\\n", '
                 f"{ops}.step_kinds[i], {ops}.step_kinds[i]);"]
    return said(where, "engines", ["engine/keys.h", *(f"{TOP}/{e}.h" for e in ENGINES.values())], main,
                [*files_of("CORE_LIB"), "userspace/include/shim.c", *files_of("ENGINES")]) + \
        said(where, "platter", [f"{TOP}/dm-platter/platter-options.h"],
             ['options("platter", platter_options);'],
             ["dm-platter/platter-options.c", "dm-platter/profiles.c", "dm-platter/mech.c",
              "core/lib/geometry/geometry.c", "userspace/include/shim.c"])


FEATURE, NUMBER, WORD, TEXT = range(4)
TABLE, FORMAT = 1, 2


def options(told, of):
    """{name: (kind, when, min, max, default, words, help, range, busy)}"""
    return {row[2]: (*map(int, row[3:7]), row[7], row[8].split(), *row[9:])
            for row in told if row[:2] == ["option", of]}


def counters(told, of):
    return [row[2] for row in told if row[:2] == ["counter", of]]


def document_of(name):
    return (TOP / f"Documentation/{name}.rst").read_text(encoding="utf-8")


def document(name):
    return document_of(f"dm-{name}")


def rows(text):
    """Every row of every table: its cells.  A line goes on with the row before if its
    first cell is empty, holds a value, or the one before it ends with a comma."""
    found, cut, lines = [], None, text.splitlines()
    for i, line in enumerate(lines):
        if RULE.match(line):
            starts = [m.start() for m in re.finditer(r"=+", line)]
            cut = [slice(a, b) for a, b in zip(starts, [*starts[1:], None])]
            fresh = True
        elif not line.strip():
            cut = None
        elif cut:
            cells = [line[c].strip() for c in cut]
            if not fresh and (not cells[0] or cells[0][0] == "<" or found[-1][0][-1:] == ","):
                found[-1] = [" ".join(filter(None, pair)) for pair in zip(found[-1], cells)]
            else:
                found.append(cells)
            fresh = False
    return found


def section(text, title):
    """Return a section: from its heading to the next heading of its level or above."""
    body = re.search(rf"^{title}\n(=+|-+)\n(.*?)(?=^[^\n]+\n(?:\1|=+)\n|\Z)", text, re.M | re.S)
    return body[2]


def names(cell):
    return [word.strip("`") for word in re.sub(r"<[^>]*>", "", cell).replace(",", " ").split()]


def described(text):
    """{option: its row in the tables of a section}"""
    return {name: cells for cells in rows(text) for name in names(cells[0])}


@pytest.mark.parametrize("of", ["core", "platter", *ENGINES])
def test_help_texts_and_messages(of, told):
    """Each option has a short help text, and its message for a wrong value names every valid word
    or the limits of the number."""
    for name, (kind, when, low, high, _, words, help_, range_, busy) in options(told, of).items():
        assert 10 < len(help_) < 90 and not help_.endswith("."), name
        if kind == FEATURE or not range_:
            continue
        assert range_.startswith(f"{name} must be "), range_
        for word in words:
            assert re.search(rf"\b{word}\b", range_), (name, word)
        if kind == NUMBER and high != 2 ** 32 - 1:
            assert re.search(rf"\b{low} ", range_), name
            assert re.search(rf"\b{high}\b", range_) or high == 2 ** 30 and "2^30" in range_
        assert bool(busy) == (when == TABLE) or of == "platter", name


@pytest.mark.parametrize("engine", ["core", *ENGINES])
def test_options_are_documented(engine, told):
    """A target's page describes its own options, targets.rst those of all."""
    text_of = section(document_of("targets"), "Keys of all targets") if engine == "core" else \
        section(document(engine), "Constructor")
    rst, known = described(text_of), options(told, engine)
    features = text_of if engine != "imr" else document("imr")
    for name, (kind, when, low, high, default, words, *_) in known.items():
        if kind == FEATURE:
            assert any(name in names(cells[0]) for cells in rows(features)), name
            continue
        assert name in rst, f"{name} is not described"
        cells = rst[name]
        text = " ".join(cells[1:])
        assert (when == TABLE) == bool(re.search("by (the )?table only", text)), name
        # The default is in a column of its own, or beside the value.
        if default and len(cells) > 2:
            assert cells[1] == default, name
        elif default:
            assert re.search(rf"``{default}`` \(default\)|``{default}``.*: ", text), name
        for word in words:
            assert re.search(rf"\b{word}\b", " ".join(cells)), (name, word)
        if kind == NUMBER and high != 2 ** 32 - 1:
            assert re.search(rf"\b{high}\b", text), name
    extra = {name for name in rst if re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", name)} - set(known)
    assert extra <= {"data", "dev", "cache", "metadata", "device", "key", "feature"}, extra
    assert engine == "core" or ":ref:`targets:Keys of all targets`" in text_of


@pytest.mark.parametrize("engine", ENGINES)
def test_parameters_are_documented(engine, told):
    """Format parameters are in the document and in the manual page."""
    manual = (TOP / "userspace/shingle/shingle.8").read_text(encoding="utf-8")
    for name, row in options(told, f"{engine}-").items():
        assert row[1] == FORMAT and row[4], name
        assert f"``--{name}" in document(engine), name
        assert "\\-\\-" + name.replace("-", "\\-") in manual, name


def test_options_of_platter_are_documented(told):
    """dm-platter.rst has all options with their defaults, words and limits, and lists as messages
    the features that a message can change."""
    text, known = section(document("platter"), "Table line"), options(told, "platter")
    rst = {name: cells for cells in rows(text) for name in names(cells[0])
           if name in known or len(cells) == 3}
    assert set(rst) - {"key"} == {name for name, row in known.items() if row[0] != FEATURE}
    features = {name for name, row in known.items() if row[0] == FEATURE}
    assert features == set(re.findall(r"``(\w+)``", re.search(r"^Features: .*", text, re.M)[0]))
    for name, (kind, _, _, high, default, words, *_) in known.items():
        if kind == FEATURE:
            continue
        cells = rst[name]
        if "," not in cells[0]:
            assert cells[1] == default, name
        for word in words:
            assert re.search(rf"\b{word}\b", cells[2]), (name, word)
        # The range may be in the row of the first parameter that has it.
        if kind == NUMBER and high not in (1000000, 2 ** 30):
            assert re.search(rf"\b{high}\b", cells[2]), name
    # A feature is among the messages if a message may change it.
    messages = [cells[0] for cells in rows(section(document("platter"), "Messages"))]
    for name, row in known.items():
        if row[0] != FEATURE:
            assert (f"{name} on|off" in messages) == (row[1] != TABLE), name


def test_counters_of_platter_are_documented():
    code = (TOP / "dm-platter/platter.h").read_text(encoding="utf-8") + \
        (TOP / "dm-platter/platter-target.c").read_text(encoding="utf-8")
    own = re.findall(r"^\tX\((\w+)\)", code, re.M)
    own += re.findall(r'DMEMIT\("(\w+) %ll?u\\n"', re.search(
        r"^static int msg_stats.*?^}", code, re.M | re.S)[0]) + \
        re.findall(r'DMEMIT\("(\w+) %u\\n"', re.search(
            r"^static int msg_stats.*?^}", code, re.M | re.S)[0])
    text = re.search(r"^Counters: (.*?)\n\n", document("platter"), re.M | re.S)[1]
    words = {word for quoted in re.findall(r"``(.*?)``", text, re.S) for word in quoted.split()}
    assert "media_*" in words
    assert words - {"media_*"} == {name for name in own if not name.startswith("media_")}


def counted(text):
    out = []
    for cells in rows(section(text, "Counters")):
        found = re.fullmatch(r"(\w+_)(\d) \.\. \w+_(\d)", cells[0])
        out += [f"{found[1]}{i}" for i in range(int(found[2]), int(found[3]) + 1)] if found \
            else names(cells[0])
    return out


@pytest.mark.parametrize("engine", ["core", *ENGINES])
def test_counters_are_documented(engine, told):
    """A target's page describes each of its own counters once and no others, targets.rst those of
    core."""
    text = document_of("targets") if engine == "core" else document(engine)
    own = counters(told, engine) + (["mode"] if engine == "core" else [])
    if engine == "imr":  # its counters are in the text below the table
        times = [name for name in own if name.startswith(("step_", "longest_"))]
        assert times and all(f"*{name}*" in document("imr") for name in times)
        own = [name for name in own if name not in times] + ["name"]
    rst = counted(text)
    wrong = [f"{name} is not in the table" for name in own if name not in rst] + \
        [f"no counter is called {name}" for name in rst if name not in own] + \
        [f"{name} is there twice" for name in set(rst) if rst.count(name) > 1]
    page = "targets" if engine == "core" else f"dm-{engine}"
    assert not wrong, f"Documentation/{page}.rst, section Counters: {'; '.join(wrong)}"


@pytest.mark.parametrize("engine", ["imr", "tiler", "dualbuffer", "rmwf"])
def test_records_are_documented(engine, told):
    """The format page lists the same fields for each record as the tool prints."""
    own = {row[2]: (row[3], row[4].split()) for row in told if row[:2] == ["record", engine]}
    text = section(document_of("on-disk-format"), engine)
    found = {cells[0]: (cells[1], sorted(re.findall(r"\*(\w)\*", cells[2]), key="nabc".index))
             for cells in rows(text) if cells[0].startswith("0x")}
    assert own and own == found
