# SPDX-License-Identifier: GPL-2.0
"""scripts/experiments NAME [OPTIONS]: run one experiment; without a name, list them."""

import importlib
import sys
from functools import partial

from common import libraries
from experiments.simple import SIMPLE
from experiments.simple import main as simple

PICTURES = ("numpy", "matplotlib")
# The experiments, with the libraries that each needs.
NAMES = {
    "all": ("numpy",), "arrivals": PICTURES, "bench": (), "buffers": PICTURES,
    "confidence": ("numpy", "scipy"), "demo": (), "flash": PICTURES, "imr": (), "imr-model": (),
    "kv": PICTURES, "kvimr": (), "latency": ("matplotlib",), "layers": PICTURES, "platter": (),
    "presets": (), "rebuild": PICTURES, "regions": PICTURES,
    "skylight": ("jinja2", "matplotlib", "numpy", "scipy"), **dict.fromkeys(SIMPLE, ()),
}


def program(name):
    """Return the description of an experiment, and the function that runs it."""
    if name in SIMPLE:
        return SIMPLE[name].text, partial(simple, name)
    module = importlib.import_module(f"experiments.{name.replace('-', '_')}")
    return module.__doc__, module.main


def listing():
    """Yield a line for each experiment, with the beginning of its description."""
    for name in sorted(NAMES):
        first = " ".join(program(name)[0].split("\n\n")[0].split())
        yield f"  {name:12}{first.split('. ')[0].split('; ')[0].rstrip('.')}"


def main():
    libraries.have("experiments", *NAMES.get(sys.argv[1] if sys.argv[1:] else "", ("numpy",)))
    if not sys.argv[1:] or sys.argv[1] in ("-h", "--help"):
        print(__doc__, *listing(), sep="\n")
        return 0
    name = sys.argv[1]
    if name not in NAMES:
        print(f"scripts/experiments: '{name}' is none of {', '.join(NAMES)}", file=sys.stderr)
        return 2
    sys.argv[:2] = [f"scripts/experiments {name}"]
    return program(name)[1]()


if __name__ == "__main__":
    sys.exit(main())
