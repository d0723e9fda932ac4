# SPDX-License-Identifier: GPL-2.0
"""Programs of scripts/ that bear no .py, as modules."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader


def module(name, path):
    """What @path has, of which its tests know by @name."""
    loader = SourceFileLoader(name, str(path))
    made = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(made)
    return made
