# SPDX-License-Identifier: GPL-2.0
"""Check that the pure files need no 64-bit division by the compiler.

A 32-bit kernel lacks the functions by which the compiler divides 64 bits by 64 bits (`/` and `%`),
so a module that needs one does not load. The files are compiled for such a processor, and the test
reads their undefined symbols."""

import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
ROOMS = ("core/lib", "dm-platter", "dm-stl", "dm-imr", "dm-tiler", "dm-dualbuffer", "tests")
DIVISION = re.compile(r"\b__(?:u?(?:div|mod)|u?divmod)di[34]\b")


@pytest.fixture(scope="module", name="compile_32")
def compiler(tmp_path_factory):
    where = tmp_path_factory.mktemp("32")
    # The 64-bit glibc headers include this file; it comes with the 32-bit ones.
    (where / "gnu").mkdir()
    (where / "gnu/stubs-32.h").touch()
    multiarch = subprocess.run(["gcc", "-print-multiarch"], check=True, text=True,
                               capture_output=True).stdout.strip()

    def compile_32(source):
        """Return the undefined symbols of a file, or None if the file includes kernel headers."""
        out = where / "one.o"
        done = subprocess.run(
            ["gcc", "-m32", "-O2", "-std=gnu11", "-w", "-D_GNU_SOURCE", "-DSHINGLE_SHIM_32_BIT",
             f"-I{where}", "-idirafter", f"/usr/include/{multiarch}",
             *(f"-I{TOP / room}" for room in ("userspace/include", *ROOMS)),
             "-c", "-o", out, source], check=False, text=True, capture_output=True)
        if done.returncode and re.search(r"fatal error: (linux|kunit|trace)/", done.stderr):
            return None
        assert not done.returncode, done.stderr
        return subprocess.run(["nm", "-u", out], check=True, text=True, capture_output=True).stdout

    probe = where / "probe.c"
    probe.write_text("unsigned long long f(unsigned long long a, unsigned long long b)\n"
                     "{ return a / b; }\n")
    try:
        found = compile_32(probe)
    except AssertionError:
        pytest.skip("this compiler has no -m32")
    assert DIVISION.search(found), "the compiler divides 64 bits by itself"
    return compile_32


@pytest.mark.parametrize("room", ROOMS)
def test_pure_files_divide_as_a_32_bit_kernel_can(compile_32, room):
    looked, bad = 0, []
    sources = (TOP / room).glob("*.c") if room == "tests" else (TOP / room).rglob("*.c")
    for source in sorted(sources):
        if source.stem.endswith(("kunit", "target")) or source.stem == "fake-dm":
            continue
        symbols = compile_32(source)
        if symbols is None:
            continue
        looked += 1
        bad += [f"{source.relative_to(TOP)}: {name}" for name in DIVISION.findall(symbols)]
    assert looked, room
    assert not bad, f"use div_u64() and its like: {bad}"
