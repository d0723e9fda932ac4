#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Run one suite inside a guest: a line for each case, JSON for pytest.

 tests/guest/suite.py SUITE [--target T] [--out FILE] [--only FILE]
       [--case TEXT]... [key=value]...
"""

import argparse
import importlib
import sys


from guest import bench
from guest.targets import TARGETS


def listing(suite, target, options=None):
    """[(case, function)] of a suite; needs no root and no device."""
    module = importlib.import_module(f"guest.{suite}")
    return module.cases(TARGETS[target], options or {})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite")
    parser.add_argument("--target", default="stl-set", choices=TARGETS)
    parser.add_argument("--out", default="/dev/null")
    parser.add_argument("--only", help="file that names the cases to run")
    parser.add_argument("--case", action="append", default=[],
                        help="run cases with this text in their names")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("options", nargs="*", metavar="key=value")
    args = parser.parse_intermixed_args()
    options = dict(o.split("=", 1) for o in args.options)
    cases = listing(args.suite, args.target, options)
    if args.only:
        with open(args.only, encoding="utf-8") as handle:
            wanted = set(handle.read().splitlines())
        cases = [c for c in cases if c[0] in wanted]
    if args.case:
        cases = [c for c in cases if any(t in c[0] for t in args.case)]
    if args.list:
        print("\n".join(name for name, _ in cases))
        return 0
    if not cases:
        sys.exit("no such case")
    failed = bench.run_cases(cases, TARGETS[args.target], options, args.out)
    print(f"{len(cases)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
