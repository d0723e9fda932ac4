# SPDX-License-Identifier: GPL-2.0
"""The command line of scripts/lab/run."""

import argparse
import os
import subprocess
import sys

from . import guest, kernels, modules, packages
from .cache import LabError, TOP, say

EPILOG = """\
In the guest the command is root, with the checkout as working directory.  The
host's files are all there; changes stay in the guest's memory, except in the
directories named by --rw (default: build/out).  The command finds
SHINGLE_KERNEL, SHINGLE_CLOCK, SHINGLE_MODDIR and SHINGLE_DISK0, SHINGLE_DISK1...

Exit status: the command's own, or 124 timed out, 125 the lab itself failed,
126 the kernel reported a panic, BUG, warning or leak, 137 power cut as asked.
"""


def parser():
    p = argparse.ArgumentParser(
        prog="scripts/lab/run", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs a command under a kernel of the lab.")
    p.add_argument("--kernel", default="uml", choices=kernels.NAMES,
                   help="default: uml")
    p.add_argument("--clock", default="real", choices=("real", "virtual"),
                   help="virtual: idle time costs nothing")
    p.add_argument("--memory", default=None, metavar="M",
                   help="guest memory (default: 1G; with checkers and QEMU 2G)")
    p.add_argument("--cpus", type=int, default=2, metavar="N",
                   help="QEMU and uml-smp, with the real clock (default: 2)")
    p.add_argument("--disk", action="append", default=[], metavar="SIZE",
                   help="a fresh blank disk; may be given again")
    p.add_argument("--disk-file", action="append", default=[], metavar="PATH",
                   help="an existing raw image, after the fresh disks")
    p.add_argument("--timeout", type=float, default=1800, metavar="S",
                   help="seconds of wall time for the guest (default: 1800)")
    p.add_argument("--rw", action="append", default=[], metavar="DIR",
                   help="a host directory that the guest may change")
    p.add_argument("--env", action="append", default=[], metavar="NAME=VALUE",
                   help="passed to the command")
    p.add_argument("--no-modules", action="store_true",
                   help="neither build nor load the modules of this checkout")
    p.add_argument("--huge-pages", action="store_true",
                   help="uml: guest memory in huge pages, if this machine gives any")
    p.add_argument("--no-load", action="store_true",
                   help="build the modules but leave loading to the command")
    p.add_argument("--no-leak-scan", action="store_true",
                   help="uml-debug: no kmemleak scan at the end (saves 6 s)")
    p.add_argument("--expect-report", action="append", default=[],
                   metavar="REGEX", help="a kernel report that is no failure")
    p.add_argument("--cut-after", type=float, metavar="S",
                   help="power cut: kill the guest S seconds into the command")
    p.add_argument("--cut-on", metavar="TEXT",
                   help="power cut when the command prints TEXT")
    p.add_argument("--append", default="", metavar="ARGS",
                   help="more kernel command line")
    p.add_argument("--kvm", default="auto", choices=("auto", "on", "off"),
                   help="QEMU: auto uses KVM where a trial boot succeeds")
    p.add_argument("--caller", type=int, metavar="PID",
                   help="end when this process does, which has begun it")
    p.add_argument("--log", metavar="FILE", help="keep the kernel log there")
    p.add_argument("--quiet", action="store_true",
                   help="no word from the runner unless something fails")
    p.add_argument("--verbose", action="store_true",
                   help="show the kernel log as it comes, on stderr")
    p.add_argument("--shell", action="store_true",
                   help="run commands from standard input, a line at a time")
    p.add_argument("--list", action="store_true",
                   help="list the kernels and whether they are cached")
    p.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    return p


def run_on_host(options, kernel, moddir, load):
    """Run a command on this machine itself; modules stay loaded only while it runs."""
    if options.disk or options.disk_file:
        raise LabError("--disk is for guests; on the host pass a device, "
                       "for example from losetup")
    loaded = []
    env = dict(os.environ) | {
        k: str(v) for k, v in
        guest.environment(options, kernel, moddir).items()
        if k not in ("DM_DISABLE_UDEV", "HOME", "TERM")}
    try:
        for line in load:
            how, what = line.split(" ", 1)
            subprocess.run([how, what], check=True)
            if how == "insmod":
                loaded.insert(0, what)
        return subprocess.run(options.command, cwd=TOP, env=env, check=False,
                              timeout=options.timeout).returncode
    except subprocess.TimeoutExpired:
        say(f"timed out after {options.timeout:g} s")
        return guest.TIMED_OUT
    finally:
        for module in loaded:
            subprocess.run(["rmmod", module], check=False)


def main(argv=None):
    p = parser()
    options = p.parse_args(argv)
    if options.command[:1] == ["--"]:
        options.command.pop(0)
    if options.caller is not None:
        guest.end_with(options.caller)
    try:
        if options.list:
            print("\n".join(kernels.listing()))
            return 0
        if options.shell:
            options.command = ["/bin/sh", "-c", sys.stdin.read()]
        if not options.command:
            p.error("no command; for example: scripts/lab/run -- dmsetup targets")
        if options.memory is None:
            options.memory = "1G" if options.kernel in ("uml", "uml-smp-fast") \
                else "2G"
        if options.clock == "virtual" and kernels.smp(options.kernel):
            raise LabError(f"{options.kernel} has two processors and no virtual "
                           "clock; use --kernel uml, or --clock real")
        packages.setup()
        kernel = kernels.get(options.kernel)
        moddir, load = None, []
        if not options.no_modules:
            moddir, load = modules.build(kernel)
        if options.no_load:
            load = []
        if kernel.name == "host":
            return run_on_host(options, kernel, moddir, load)
        options.use_kvm = options.kvm == "on" or (
            options.kvm == "auto" and guest.kvm_works(options, kernel))
        return guest.Guest(options, kernel, moddir, load).run()
    except LabError as error:
        say(str(error))
        return guest.LAB_FAILED
    except KeyboardInterrupt:
        return 130
