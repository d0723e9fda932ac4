# SPDX-License-Identifier: GPL-2.0
"""Sphinx's settings; `make docs` builds the pages from them."""

import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]

project = "dm-shingle"
author = "the dm-shingle project"
project_copyright = author
# dkms.conf has the one version of modules and programs.
release = re.search(r'PACKAGE_VERSION="(.*)"', (TOP / "dkms.conf").read_text())[1]
extensions = ["sphinx.ext.autosectionlabel"]
autosectionlabel_prefix_document = True
# It has a prober for util-linux; its README.rst is written for that project.
exclude_patterns = ["libblkid"]
# A page has sections of the same name, each below another title.
suppress_warnings = ["autosectionlabel.*"]
html_theme = "alabaster"
html_theme_options = {"description": "emulated shingled and interlaced disks",
                      "page_width": "1100px", "sidebar_width": "230px"}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_copy_source = False


def dashes(cell):
    return cell[0].replace("-", "–")


def draw_dashes(_, __, source):
    """A cell of a table that is "-" is read as a list with an empty item: make it a dash.  A line
    of a list begins with its own."""
    source[0] = "".join(re.sub(r"(?<= )-( -)?(?=  |$)", dashes, line, flags=re.M)
                        if re.match(r" *[^\s-]", line) else line
                        for line in source[0].splitlines(keepends=True))


def setup(app):
    app.connect("source-read", draw_dashes)
