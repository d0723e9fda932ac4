# SPDX-License-Identifier: GPL-2.0
"""Find, fetch or build the kernels of the lab."""

import lzma
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from .cache import CACHE, LAB, LabError, digest, lock, read, say, step, write
from .packages import Suites

KERNELS = CACHE / "kernels"
SUITES = {
    "stock": ("bookworm", "bookworm-updates", "bookworm-security"),
    "backports": ("bookworm-backports",),
    "uml": ("trixie-backports",),
}
FRAGMENTS = {
    "uml": ("uml.config",),
    "uml-debug": ("uml.config", "debug.config"),
    "uml-smp": ("uml.config", "debug.config", "smp.config", "smp-debug.config"),
    "uml-smp-fast": ("uml.config", "smp.config", "smp-fast.config"),
}
USUAL = {"uml": 5, "uml-debug": 10, "uml-smp": 9, "uml-smp-fast": 4}    # minutes
NAMES = ("stock", "backports", *FRAGMENTS, "host")


@dataclass
class Kernel:
    """The properties of a kernel that the runner needs."""
    name: str
    kdir: Path              # for make KDIR=
    arch: str = ""          # for make ARCH=
    image: Path | None = None      # the file to boot
    modules: Path | None = None    # its lib/modules/<release>
    initramfs: Path | None = None  # QEMU only

    @property
    def uml(self):
        return self.arch == "um"

    @property
    def debug(self):
        """Whether it has every checker that user-mode Linux supports."""
        return "debug.config" in FRAGMENTS.get(self.name, ())

    @property
    def smp(self):
        return smp(self.name)


def smp(name):
    """Whether it is user-mode Linux with two processors, which has no virtual clock."""
    return "smp.config" in FRAGMENTS.get(name, ())


def jobs():
    return f"-j{len(os.sched_getaffinity(0)) + 1}"


def source_tree():
    """Return the kernel source: a tree named by the user, or the newest packaged one."""
    own = os.environ.get("SHINGLE_UML_SOURCE")
    if own:
        if not Path(own, "arch/um/Makefile").exists():
            raise LabError(f"SHINGLE_UML_SOURCE={own} is no kernel source")
        return Path(own).absolute()
    note = CACHE / "src/current"
    tree = CACHE / "src" / (read(note).strip() or "none")
    if (tree / "Makefile").exists():
        return tree
    with lock("source"):
        tree = CACHE / "src" / (read(note).strip() or "none")
        if (tree / "Makefile").exists():
            return tree
        suites = Suites(*SUITES["uml"])
        package = suites.newest(r"^linux-source-[0-9.]+$")
        scratch = CACHE / "src/unpack"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        suites.unpack([package], scratch)
        tarball = next((scratch / "usr/src").glob(f"{package}.tar.*"))
        step(f"unpacking {package}", ["tar", "-xf", tarball, "-C", scratch],
             CACHE / "logs/unpack.log", usual="15 s")
        tree = CACHE / "src" / package
        shutil.rmtree(tree, ignore_errors=True)
        (scratch / package).rename(tree)
        shutil.rmtree(scratch)
        write(note, package)
    return tree


def _check_config(wanted, config):
    """Print the wanted options that this kernel's Kconfig did not grant."""
    have = dict(line.split("=", 1) for line in config.splitlines()
                if line.startswith("CONFIG_"))
    want = dict(line.split("=", 1) for line in wanted.splitlines()
                if line.startswith("CONFIG_"))
    lost = [f"{k}={v}" for k, v in want.items() if have.get(k, "n") != v]
    if lost:
        say("not granted by this kernel's Kconfig: " + " ".join(lost))


def _faster_traces(tree, fragments):
    """Return the text to put in front of a file of user-mode Linux, if that file is the known one.
    """
    text = read(tree / "arch/um/kernel/stacktrace.c")
    known = ("if (__kernel_text_address(addr)) {", "sp == bp + sizeof(long)",
             "static const struct stacktrace_ops dump_ops = {")
    if "debug.config" not in fragments:
        return ""
    return read(LAB / "kernel/stacktrace.h") if all(k in text for k in known) else ""


def _patch(tree, fragments):
    """Return the patch for kernels with two processors, if it fits this source."""
    patch = LAB / "kernel/smp.patch"
    if "smp.config" not in fragments:
        return ""
    fits = subprocess.run(["patch", "--dry-run", "-fp1", "-d", tree, "-i", patch],
                          check=False, capture_output=True).returncode == 0
    return read(patch) if fits else ""


def _patched(tree, patch):
    """Return a copy of the source with hard links to the tree's files, except the patched ones."""
    copy = CACHE / "src" / f"{tree.name}-{digest(tree, patch)[:8]}"
    if (copy / "Makefile").exists():
        return copy
    with lock("source"):
        if (copy / "Makefile").exists():
            return copy
        fresh = copy.with_name(f"{copy.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.parent.mkdir(parents=True, exist_ok=True)
        linked = "l" if tree.stat().st_dev == fresh.parent.stat().st_dev else ""
        subprocess.run(["cp", f"-a{linked}", tree, fresh], check=True)
        # patch writes a new file and leaves the linked one unchanged.
        subprocess.run(["patch", "-sp1", "-d", fresh], input=patch, text=True, check=True)
        fresh.rename(copy)
    return copy


def _uml_place(name):
    """Return the directory of the build for the current fragments and source, and its inputs.

    Every combination has its own directory, because checkouts with different fragments must not
    rebuild each other's kernel.
    """
    tree = source_tree()
    wanted = "".join(read(LAB / "kernel" / part) for part in FRAGMENTS[name])
    traces = _faster_traces(tree, FRAGMENTS[name])
    patch = _patch(tree, FRAGMENTS[name])
    place = digest(tree, wanted, *filter(None, [traces, patch]))[:8]
    return tree, wanted, traces, patch, KERNELS / f"{name}-{place}"


def _seed(name, out):
    """Start from the newest other build, so that make has little to do."""
    builds = [p.parent for p in KERNELS.glob(f"{name}-*/.complete")
              if re.fullmatch(rf"{name}-[0-9a-f]{{8}}", p.parent.name)]
    old = time.time() - 14 * 86400
    for build in builds:
        if (build / ".used").exists() and \
                (build / ".used").stat().st_mtime < old:
            shutil.rmtree(build)
    builds = [b for b in builds if (b / ".complete").exists()]
    if not out.exists() and builds:
        newest = max(builds, key=lambda b: (b / ".complete").stat().st_mtime)
        subprocess.run(["cp", "-a", "--reflink=auto", newest, out], check=True)
        (out / ".complete").unlink()


def _build_uml(name):
    tree, wanted, traces, patch, out = _uml_place(name)
    source = _patched(tree, patch) if patch else tree
    stamp = out / ".complete"
    kernel = Kernel(name, out, "um", out / "linux")

    def found():
        (out / ".used").touch()
        release = read(out / "include/config/kernel.release").strip()
        kernel.modules = out / "mods/lib/modules" / release
        return kernel

    if stamp.exists():
        return found()
    with lock(f"kernel-{name}"):
        if stamp.exists():
            return found()
        _seed(name, out)
        out.mkdir(parents=True, exist_ok=True)
        write(out / "lab.config", wanted)
        # No ccache: with a cold one the build takes a quarter longer.
        make = ["make", "-C", source, f"O={out}", "ARCH=um"]
        if traces:
            write(out / "lab-stacktrace.h", traces)
            make.append("CFLAGS_stacktrace.o=-include lab-stacktrace.h")
        logs = CACHE / "logs"
        begin = time.monotonic()
        step(f"configuring {name}",
             [*make, f"KCONFIG_ALLCONFIG={out}/lab.config", "allnoconfig"],
             logs / f"{name}-config.log")
        _check_config(wanted, read(out / ".config"))
        step(f"building kernel {name} from {tree.name}", [*make, jobs()],
             logs / f"{name}-build.log",
             usual=f"{USUAL[name]} min on 2 idle cores")
        shutil.rmtree(out / "mods", ignore_errors=True)
        step(f"installing modules of {name}",
             [*make, f"INSTALL_MOD_PATH={out}/mods", "modules_install"],
             logs / f"{name}-install.log")
        say(f"kernel {name} ready after {time.monotonic() - begin:.0f} s")
        write(stamp, "")
    return found()


# Modules with which a stock kernel reaches the host's root, its output and its disks.
INITRAMFS_MODULES = ("virtio_pci", "virtio_console", "virtio_blk", "9p",
                     "9pnet_virtio", "overlay")


def _module_files(modules):
    """Return every module file of a kernel by name, and the modules that each needs."""
    files, needs = {}, {}
    for line in read(modules / "modules.dep").splitlines():
        path, _, after = line.partition(":")
        name = Path(path).name.split(".ko")[0].replace("-", "_")
        files[name] = modules / path
        needs[name] = [Path(p).name.split(".ko")[0].replace("-", "_")
                       for p in after.split()]
    return files, needs


def _cpio(entries):
    """Return a newc archive of (name, mode, data)."""
    blob = bytearray()
    for i, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")]):
        raw = name.encode() + b"\0"
        fields = (i + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        blob += b"070701" + b"".join(b"%08X" % f for f in fields) + raw
        blob += b"\0" * (-len(blob) % 4) + data
        blob += b"\0" * (-len(blob) % 4)
    return bytes(blob)


def _initramfs(modules, init):
    files, needs = _module_files(modules)
    order = []

    def add(name):
        if name in order or name not in files:    # already listed, or built in
            return
        for need in reversed(needs[name]):
            add(need)
        order.append(name)

    for name in INITRAMFS_MODULES:
        add(name)
    entries = [(d, 0o40755, b"") for d in ("dev", "proc", "tmp", "lower")]
    entries.append(("init", 0o100755, init.read_bytes()))
    for name in order:
        data = files[name].read_bytes()
        if files[name].suffix == ".xz":
            data = lzma.decompress(data)
        entries.append((f"{name}.ko", 0o100644, data))
    entries.append(("modules", 0o100644,
                    "".join(f"/{n}.ko\n" for n in order).encode()))
    return _cpio(entries)


def _fetch_debian(name):
    """Fetch a Debian kernel and its headers, unpacked privately."""
    out = KERNELS / name
    stamp = out / ".complete"
    init = guest_init()
    want = digest(SUITES[name], INITRAMFS_MODULES, init)

    def found():
        release = read(out / "release").strip()
        return Kernel(name, out / f"root/usr/src/linux-headers-{release}", "",
                      out / f"root/boot/vmlinuz-{release}",
                      out / f"root/lib/modules/{release}",
                      out / "initramfs")

    if read(stamp) == want:
        return found()
    with lock(f"kernel-{name}"):
        if read(stamp) == want:
            return found()
        stamp.unlink(missing_ok=True)
        if not (out / "release").exists():
            root = out / "root"
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(parents=True)
            suites = Suites(*SUITES[name])
            image = suites.depends("linux-image-amd64",
                                   r"linux-image-\d\S*-amd64")
            release = image.removeprefix("linux-image-")
            headers = f"linux-headers-{release}"
            suites.unpack(
                [image, headers,
                 suites.depends(headers, r"linux-headers-\S+-common"),
                 suites.depends(headers, r"linux-kbuild-\S+")], root)
            # The headers refer to the directories of an installed package.
            makefile = root / f"usr/src/{headers}/Makefile"
            write(makefile, re.sub(r"(?<=\s)/usr/", f"{root}/usr/",
                                   read(makefile)))
            if not (root / "lib/modules").exists():    # merged /usr
                (root / "lib").symlink_to("usr/lib")
            subprocess.run(["/sbin/depmod", "-b", root, release], check=True)
            write(out / "release", release)
        kernel = found()
        (out / "initramfs").write_bytes(_initramfs(kernel.modules, init))
        write(stamp, want)
    return found()


def guest_init():
    """Return the static init of all guests."""
    source = LAB / "guest/init.c"
    binary = CACHE / f"init-{digest(read(source))}"
    if not binary.exists():
        with lock("init"):
            fresh = binary.with_suffix(".new")
            subprocess.run(["gcc", "-O2", "-Wall", "-static", "-o", fresh,
                            source], check=True)
            fresh.replace(binary)
    return binary


def _host():
    release = os.uname().release
    kdir = Path(f"/lib/modules/{release}/build")
    if not Path("/sys/class/misc/device-mapper").exists():
        subprocess.run(["modprobe", "dm-mod"], check=False,
                       capture_output=True)
    if not Path("/sys/class/misc/device-mapper").exists():
        raise LabError("this machine's own kernel has no device mapper; use "
                       "--kernel uml or --kernel stock, which need none")
    return Kernel("host", kdir)


def get(name):
    """Return the kernel of that name; build or fetch it if needed."""
    if name == "host":
        return _host()
    if name in FRAGMENTS:
        return _build_uml(name)
    return _fetch_debian(name)


def place(name):
    """Return the directory of a guest's kernel, built or not; None without a source."""
    if name not in FRAGMENTS:
        return KERNELS / name
    if not os.environ.get("SHINGLE_UML_SOURCE") and \
            not (CACHE / "src/current").exists():
        return None
    return _uml_place(name)[-1]


def cached():
    """Return the names of the guests' kernels that are ready."""
    return [n for n in NAMES if n != "host" and place(n) and
            (place(n) / ".complete").exists()]


def listing():
    """Yield lines for --list."""
    for name in NAMES:
        if name == "host":
            state = "this machine's own kernel, " + os.uname().release
        elif name not in cached():
            state = "not cached; the first run makes it"
        else:
            state = "cached, " + (
                read(place(name) / "include/config/kernel.release") or
                read(place(name) / "release")).strip()
        yield f"{name:12} {state}"
