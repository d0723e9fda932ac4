# SPDX-License-Identifier: GPL-2.0
"""Check the documents mechanically: pages render without a warning, and the pages, sections, files,
commands, options and make targets that they name exist.

Sphinx renders the whole manual once. The other tests read each page by itself with docutils, which
knows only those of Sphinx's roles and directives that are declared below."""

import ast
import io
import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from docutils import nodes
from docutils.parsers.rst import Directive, directives, roles
from docutils.core import publish_doctree, publish_from_doctree
from experiments.__main__ import NAMES as EXPERIMENTS, file_of

TOP = Path(__file__).resolve().parents[2]
DOCUMENTS = TOP / "Documentation"
PAGES = sorted(DOCUMENTS.rglob("*.rst"))
MARKDOWN = [TOP / "README.md", TOP / "CONTRIBUTING.md", TOP / "tests/README.md"]
MANUALS = sorted(TOP.glob("*/*/*.8"))
EVERY = PAGES + MARKDOWN + MANUALS
FOLDERS = sorted(path.name for path in TOP.iterdir()
                 if path.is_dir() and not path.name.startswith("."))
# Paths that a page names and that belong to another project.
ELSEWHERE = {"libblkid/README.rst": {"tests/ts/blkid/images-fs"}}


class Toctree(Directive):
    """A table of contents; Sphinx checks its entries."""
    has_content = True
    option_spec = {"caption": directives.unchanged, "maxdepth": directives.unchanged}

    def run(self):
        return []


def page_role(_name, rawtext, text, *_more, **_options):
    """A link to another page; Sphinx checks that the page exists."""
    return [nodes.inline(rawtext, text)], []


directives.register_directive("toctree", Toctree)
roles.register_local_role("doc", page_role)
roles.register_local_role("ref", page_role)


def name_of(path):
    return str(path.relative_to(TOP))


@pytest.fixture(name="page", params=EVERY, ids=name_of)
def _page(request):
    return read(request.param)


@dataclass
class Page:
    path: Path
    text: str
    warnings: str = ""
    code: tuple = ()            # literal text and literal blocks
    links: tuple = ()           # relative links
    titles: tuple = ()

    @property
    def lines(self):
        return [line for code in self.code for line in code.splitlines()]


@cache
def read(path):
    text = path.read_text(encoding="utf-8")
    return {".rst": of_rst, ".md": of_markdown, ".8": of_manual}[path.suffix](path, text)


def of_rst(path, text):
    said = io.StringIO()
    settings = {"report_level": 2, "halt_level": 5, "warning_stream": said,
                "file_insertion_enabled": False, "raw_enabled": False}
    tree = publish_doctree(text, source_path=name_of(path), settings_overrides=settings)
    publish_from_doctree(tree, writer="html5", settings_overrides=settings)
    # A page may break an inline command into two lines; a block keeps its lines.
    inline = [node.astext().replace("\n", " ") for node in tree.findall(nodes.literal)]
    return Page(path, text, said.getvalue(),
                (*inline, *(node.astext() for node in tree.findall(nodes.literal_block))),
                tuple(node["refuri"] for node in tree.findall(nodes.reference)
                      if ":" not in node.get("refuri", ":")),
                tuple(node.astext() for node in tree.findall(nodes.title)))


def of_markdown(path, text):
    blocks = re.findall(r"^```.*?\n(.*?)^```", text, re.M | re.S) + \
        re.findall(r"^ {4}.*", text, re.M)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    prose = re.sub(r"^ {4}.*", "", prose, flags=re.M)
    inline = [code.replace("\n", " ") for code in re.findall(r"`([^`]+)`", prose)]
    images = re.findall(r'<(?:img|source)\b[^>]*\b(?:src|srcset)="([^"]+)"', prose)
    return Page(path, text, "", (*inline, *blocks),
                tuple(link for link in re.findall(r"\]\(([^)]*)\)", prose) + images
                      if ":" not in link),
                tuple(re.findall(r"^#+ (.*)", prose, re.M)))


def of_manual(path, text):
    done = subprocess.run(["groff", "-man", "-ww", "-z", "-Kutf8", path], capture_output=True,
                          text=True, check=True)
    # Bold text and plain text count alike as code.
    plain = re.sub(r"\\f[BIRP]|\\&", "", text.replace("\\-", "-"))
    return Page(path, plain, done.stderr, tuple(plain.splitlines()), (), ())


def anchor(title):
    """Return the anchor of a Markdown heading, as on the site that shows the README."""
    return re.sub(r"[^\w -]", "", title.strip().lower()).replace(" ", "-")


def files():
    """Yield the files of the tree, without those in build/."""
    for folder in FOLDERS:
        if folder != "build":
            yield from (TOP / folder).rglob("*")


@cache
def basenames():
    return {path.name for path in files()}


@cache
def targets():
    """Return the targets of the Makefiles in the top directory and in userspace/."""
    found = set()
    for path in (TOP / "Makefile", TOP / "userspace/Makefile"):
        for names in re.findall(r"^([\w -]+):(?!=)", path.read_text(encoding="utf-8"), re.M):
            found.update(names.split())
    return found


@cache
def programs():
    """Return the text of the programs' Makefiles, which name their outputs."""
    return " ".join(path.read_text(encoding="utf-8") for room in ("userspace", "tests")
                    for path in TOP.glob(f"{room}/*/Makefile"))


@cache
def verbs():
    """Return the commands of `shingle`."""
    return {verb for path in TOP.glob("userspace/shingle/cmd-*.c")
            for verb in re.findall(r'^\t\.name = "(\w+)"', path.read_text(encoding="utf-8"),
                                   re.M)} | {"help"}


def named(text):
    """Return the paths of this tree in a text, relative to its top."""
    folders = "|".join(map(re.escape, [*FOLDERS, "build"]))
    return {path.rstrip(".") for path in
            re.findall(rf"(?<![\w./-])(?:{folders})/[\w./*-]*", text)}


def is_there(path):
    if path.startswith("build/"):
        # Under build/, only the names of programs can be checked; other files are outputs of runs.
        program = re.fullmatch(r"build/(?:userspace|tests)/([\w-]+)", path)
        return not program or re.search(rf"(?<![\w-]){program[1]}(?![\w-])", programs())
    return any(TOP.glob(path)) if "*" in path else (TOP / path).exists()


def test_manual(tmp_path):
    """`make docs` succeeds, and every page can be reached from the index."""
    done = subprocess.run(["make", "-s", "-C", TOP, "docs", f"DOCS={tmp_path}"],
                          capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert (tmp_path / "html/index.html").exists()


def test_renders(page):
    assert not page.warnings, page.warnings


def test_links(page):
    for link in page.links:
        path, _, part = link.partition("#")
        there = (page.path.parent / path).resolve() if path else page.path
        assert there.exists(), f"{link}: no such file"
        if part and there.suffix == ".md":
            assert part in map(anchor, read(there).titles), f"{link}: no such heading"


def test_files(page):
    known = ELSEWHERE.get(str(page.path.relative_to(DOCUMENTS))
                          if DOCUMENTS in page.path.parents else "", set())
    # page.code has some paths in pieces, so the whole text is searched.
    gone = {path for path in named(page.text) if not is_there(path)} - known
    assert not gone
    assert known <= named(page.text), "listed as another project's, and not in the page"


def test_file_names(page):
    """File names without a directory exist somewhere in the tree."""
    alone = {code for code in page.code
             if re.fullmatch(r"[\w-]+\.(?:rst|md|c|h|py|sh|8|test)", code)}
    assert alone <= basenames()


def test_sections(page):
    """A section that a page cites from another page exists there."""
    told = [(title, where) for title, where in re.findall(
        r'"([A-Z][^"]*)",?\s+in\s+`+([\w/-]+\.rst)', page.text)] + \
        [(title, where) for where, title in re.findall(
            r'([\w/-]+\.rst)`*\)?,\s+"([A-Z][^"]*)"', page.text)]
    for title, where in told:
        titles = read(DOCUMENTS / where.removeprefix("Documentation/")).titles
        assert re.sub(r"\s+", " ", title) in titles, f"{where} has no section {title}"


def test_make(page):
    asked = {target for line in page.lines for target in
             re.findall(r"(?:^ *|[|;&] ?|sudo )make(?: [A-Z]+=\S+)* ([a-z][\w-]*)", line)}
    assert asked <= targets()


def test_commands(page):
    """A path of the tree at the beginning of a line of code is executable."""
    for line in page.lines:
        found = re.match(r"(?:sudo )?((?:scripts|tests)/\S+)(?: |$)", line.strip())
        if found and "*" not in found[1] and (TOP / found[1]).is_file() and \
                (line.startswith(" ") or " " in line):
            assert os.access(TOP / found[1], os.X_OK) or found[1].endswith((".py", ".sh")), \
                found[1]


def test_verbs(page):
    asked = {verb for line in page.lines
             for verb in re.findall(r"(?:^ *|[|;&] ?|sudo )shingle ([a-z]+)\b", line)}
    assert asked <= verbs()


def programs_of(command, name=""):
    """Return the paths of the program that `command name` runs: itself, and the module that an
    entry point starts."""
    path = TOP / command
    found = [path]
    started = re.search(r"python3 -BP -m (\w[\w.]*)(?: (\w+))?", path.read_text(encoding="utf-8"))
    if started:
        module = TOP / "scripts/src" / started[1].replace(".", "/")
        found += [module / "__main__.py", module.with_suffix(".py"), TOP / f"tests/{started[1]}.py"]
        if started[1] == "experiments":
            found = [path, module / file_of(started[2] or name)]
    return found


def source_of(command, name=""):
    """Return the source in which a command's options are defined: its own, and that of the modules
    of the tree that it imports.  @name is the experiment, if the command is scripts/experiments."""
    seen, left, text = set(), programs_of(command, name), ""
    while left:
        path = left.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        own = path.read_text(encoding="utf-8")
        text += own
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(own)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
                [node.module or "", *(f"{node.module or ''}.{a.name}".lstrip(".")
                                      for a in node.names)] \
                if isinstance(node, ast.ImportFrom) else []
            for module in modules:
                stem = module.replace(".", "/")
                left += [folder / f"{stem}{end}" for end in (".py", "/__init__.py")
                         for folder in (path.parent, TOP / "scripts/src", TOP / "tests")]
    return text


def test_options(page):
    """The options that pages give to programs in scripts/ and tests/ exist."""
    for line in page.lines:
        for command, rest in re.findall(r"(?:^ *|[|;&(] ?|sudo )((?:scripts|tests)/[\w./-]+)"
                                        r"([^|;&#]*)", line):
            path = TOP / command
            if not path.is_file():
                continue
            name = rest.split()[0] if command == "scripts/experiments" and rest.split() else ""
            if name == "NAME":      # any of them
                continue
            assert not name or name in EXPERIMENTS, f"there is no experiment {name}"
            for option in re.findall(r"(?<!\S)--([a-z][\w-]*)", re.split(r" -- ", rest)[0]):
                assert re.search(rf"(?<![\w-])(--|\"){option}(?![\w-])", source_of(command, name)), \
                    f"{command} {name} has no --{option}"


def test_suites(page):
    suites = set(re.findall(r'^    "(\w+)":', (TOP / "tests/runner.py").read_text(encoding="utf-8"),
                            re.M)) | {path.stem.removeprefix("suite_")
                                      for path in TOP.glob("tests/guest/*.py")}
    asked = {suite for line in page.lines
             for suite in re.findall(r"tests/run .*?--suite (\w+)", line)}
    assert asked <= suites
