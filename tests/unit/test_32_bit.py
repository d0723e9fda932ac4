# SPDX-License-Identifier: GPL-2.0
"""A kernel of 32 bits has no functions that divide 64 bits by 64 bits for `/` and `%`: modules
that ask for one do not load.  The pure files are compiled for such a processor, and only their
symbols are looked at."""

import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
ROOMS = ("core/pure", "dm-platter", "dm-stl", "dm-imr", "dm-tiler", "dm-dualbuffer", "tests")
DIVISION = re.compile(r"\b__(?:u?(?:div|mod)|u?divmod)di[34]\b")


@pytest.fixture(scope="module", name="compile_32")
def compiler(tmp_path_factory):
    where = tmp_path_factory.mktemp("32")
    # Symbols that glibc's 64-bit headers refer to, and that its 32-bit headers would replace.
    (where / "gnu").mkdir()
    (where / "gnu/stubs-32.h").touch()
    multiarch = subprocess.run(["gcc", "-print-multiarch"], check=True, text=True,
                               capture_output=True).stdout.strip()

    def compile_32(source):
        """Undefined symbols of a file, or None of one that includes the kernel."""
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
    for source in sorted((TOP / room).glob("*.c")):
        if source.stem.endswith(("-kunit", "-target")) or source.stem == "fake-dm":
            continue
        symbols = compile_32(source)
        if symbols is None:
            continue
        looked += 1
        bad += [f"{source.relative_to(TOP)}: {name}" for name in DIVISION.findall(symbols)]
    assert looked, room
    assert not bad, f"use div_u64() and its like: {bad}"
