# SPDX-License-Identifier: GPL-2.0
"""scripts/experiments NAME [OPTIONS]: run one experiment; without a name, list them."""

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from common import libraries
from lab import packages

from experiments.simple import SIMPLE
from experiments.simple import main as simple

PICTURES = ("numpy", "matplotlib")
# The experiments, with the libraries that each needs.
NAMES: dict[str, tuple[str, ...]] = {
    "all": ("numpy",), "arrivals": PICTURES, "bench": (), "buffers": PICTURES,
    "confidence": ("numpy", "scipy"), "demo": (), "flash": PICTURES, "imr": (), "imr-model": (),
    "kv": PICTURES, "kvimr": (), "latency": ("matplotlib",), "layers": PICTURES, "platter": (),
    "presets": (), "read-seek": PICTURES, "read-time": ("numpy",), "rebuild": PICTURES,
    "regions": PICTURES, "report": (),
    "skylight": ("jinja2", "matplotlib", "numpy", "scipy"), **dict.fromkeys(SIMPLE, ()),
}


def file_of(name: str) -> str:
    """Return the path of an experiment's program, below scripts/src/experiments."""
    stem = "simple" if name in SIMPLE else \
        "platter/disksim_compare" if name == "platter" else name.replace("-", "_")
    return f"{stem}.py"


def text_of(name: str) -> str:
    """Return the description of an experiment, without importing it and its libraries."""
    if name in SIMPLE:
        return SIMPLE[name].text
    path = Path(__file__).parent / file_of(name)
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def listing() -> Iterator[str]:
    """Yield a line for each experiment, with the beginning of its description."""
    for name in sorted(NAMES):
        first = " ".join(text_of(name).split("\n\n")[0].split())
        yield f"  {name:12}{re.split(r'[.;] |, under|$', first)[0].rstrip('.')}"


def main() -> int:
    if not sys.argv[1:] or sys.argv[1] in ("-h", "--help"):
        print(__doc__, *listing(), sep="\n")
        return 0
    name = sys.argv[1]
    if name not in NAMES:
        print(f"scripts/experiments: '{name}' is none of {', '.join(NAMES)}", file=sys.stderr)
        return 2
    if libraries.missing(NAMES[name]) and not packages.VENV.exists():
        packages.setup()
    libraries.have("experiments", *NAMES[name])
    sys.argv[:2] = [f"scripts/experiments {name}"]
    if name in SIMPLE:
        return simple(name)
    stem = file_of(name).removesuffix(".py").replace("/", ".")
    return importlib.import_module(f"experiments.{stem}").main()


if __name__ == "__main__":
    sys.exit(main())
