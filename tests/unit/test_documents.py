# SPDX-License-Identifier: GPL-2.0
"""Checks the documents by machine: pages render without a warning, and the pages, sections,
files, commands, options and make targets that they name exist.

Sphinx renders the whole manual once. The other tests read each page by itself with docutils,
which knows only the roles and directives of Sphinx that are declared below."""

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

TOP = Path(__file__).resolve().parents[2]
DOCUMENTS = TOP / "Documentation"
PAGES = sorted(DOCUMENTS.rglob("*.rst"))
MARKDOWN = [TOP / "README.md", TOP / "CONTRIBUTING.md", TOP / "tests/README.md"]
MANUALS = sorted(TOP.glob("*/*/*.8"))
EVERY = PAGES + MARKDOWN + MANUALS
FOLDERS = sorted(path.name for path in TOP.iterdir()
                 if path.is_dir() and not path.name.startswith("."))
# Paths in a page that belong to another project.
ELSEWHERE = {"libblkid/README.rst": {"tests/ts/blkid/images-fs"}}


class Toctree(Directive):
    """Sphinx checks its entries."""
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
    code: tuple = ()  # the code in it, line by line
    links: tuple = ()  # the relative links
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
    # The page may break a command into two lines, but not in a block.
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
    # The user types the words in bold.
    plain = re.sub(r"\\f[BIRP]|\\&", "", text.replace("\\-", "-"))
    return Page(path, plain, done.stderr, tuple(plain.splitlines()), (), ())


def anchor(title):
    """The anchor of a Markdown heading, as the site that shows the README makes it."""
    return re.sub(r"[^\w -]", "", title.strip().lower()).replace(" ", "-")


def files():
    """The files of the tree, without build products."""
    for folder in FOLDERS:
        if folder != "build":
            yield from (TOP / folder).rglob("*")


@cache
def basenames():
    return {path.name for path in files()}


@cache
def targets():
    """The targets of make, here and in userspace/."""
    found = set()
    for path in (TOP / "Makefile", TOP / "userspace/Makefile"):
        for names in re.findall(r"^([\w -]+):(?!=)", path.read_text(encoding="utf-8"), re.M):
            found.update(names.split())
    return found


@cache
def programs():
    """The programs that userspace/ builds."""
    return " ".join(path.read_text(encoding="utf-8")
                    for path in TOP.glob("userspace/*/Makefile"))


@cache
def verbs():
    """The commands of the tool with the name of this suite."""
    return {verb for path in TOP.glob("userspace/shingle/cmd-*.c")
            for verb in re.findall(r'^\t\.name = "(\w+)"', path.read_text(encoding="utf-8"),
                                   re.M)} | {"help"}


def named(text):
    """Paths of this tree, from its top."""
    folders = "|".join(map(re.escape, [*FOLDERS, "build"]))
    return {path.rstrip(".") for path in
            re.findall(rf"(?<![\w./-])(?:{folders})/[\w./*-]*", text)}


def is_there(path):
    if path.startswith("build/"):
        # Files that a build or a run makes. Only the programs are known in advance.
        program = re.fullmatch(r"build/userspace/([\w-]+)", path)
        return not program or re.search(rf"(?<![\w-]){program[1]}(?![\w-])", programs())
    return any(TOP.glob(path)) if "*" in path else (TOP / path).exists()


def test_manual(tmp_path):
    """`make docs` succeeds, and every page is reached from the index."""
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
    # The text joins pieces that page.code has apart.
    gone = {path for path in named(page.text) if not is_there(path)} - known
    assert not gone
    assert known <= named(page.text), "listed as another project's, and not in the page"


def test_file_names(page):
    """File names without their directory exist in the tree."""
    alone = {code for code in page.code
             if re.fullmatch(r"[\w-]+\.(?:rst|md|c|h|py|sh|8|test)", code)}
    assert alone <= basenames()


def test_sections(page):
    """A section that a page attributes to another page exists there."""
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
    """A path of this tree at the start of a code line is executable."""
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


def source_of(command):
    """The text that defines the options of a command: its source and that of the modules it
    imports."""
    seen, left, text = set(), [TOP / command], ""
    while left:
        path = left.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        own = path.read_text(encoding="utf-8")
        text += own
        if path.suffix != ".py" and "python" not in own.split("\n", 1)[0]:
            continue
        for node in ast.walk(ast.parse(own)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
                [node.module or "", *(f"{node.module or ''}.{a.name}".lstrip(".")
                                      for a in node.names)] \
                if isinstance(node, ast.ImportFrom) else []
            for module in modules:
                stem = module.replace(".", "/")
                left += [folder / f"{stem}{end}" for end in (".py", "/__init__.py")
                         for folder in (path.parent, TOP / "scripts", TOP / "scripts/lab",
                                        TOP / "tests", TOP / "tests/guest")]
    return text


def test_options(page):
    """The options of the programs in scripts/ and tests/ exist."""
    for line in page.lines:
        for command, rest in re.findall(r"(?:^ *|[|;&(] ?|sudo )((?:scripts|tests)/[\w./-]+)"
                                        r"([^|;&#]*)", line):
            path = TOP / command
            if not path.is_file():
                continue
            for option in re.findall(r"(?<!\S)(--[a-z][\w-]*)", re.split(r" -- ", rest)[0]):
                assert re.search(rf"(?<![\w-]){option}(?![\w-])", source_of(command)), \
                    f"{command} has no {option}"


def test_suites(page):
    suites = set(re.findall(r'^    "(\w+)":', (TOP / "tests/run").read_text(encoding="utf-8"),
                            re.M)) | {path.stem.removeprefix("suite_")
                                      for path in TOP.glob("tests/guest/*.py")}
    asked = {suite for line in page.lines
             for suite in re.findall(r"tests/run .*?--suite (\w+)", line)}
    assert asked <= suites
