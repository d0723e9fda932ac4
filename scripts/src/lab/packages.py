# SPDX-License-Identifier: GPL-2.0
"""Debian packages for the host, private downloads, and the Python venv."""

import glob
import os
import re
import shutil
import subprocess
from pathlib import Path

from .cache import CACHE, LAB, LabError, digest, lock, read, say, step, write

# The command (or file) that proves presence: package
NEEDED = {
    "bc": "bc", "bison": "bison", "flex": "flex", "gcc": "gcc",
    "pahole": "pahole", "patch": "patch",
    "gcc-12": "gcc-12", "make": "make", "perl": "perl",
    "pkg-config": "pkg-config", "xz": "xz-utils", "depmod": "kmod", "rsync": "rsync",
    "qemu-system-x86_64": "qemu-system-x86",
    "fio": "fio", "blktrace": "blktrace", "dmsetup": "dmsetup",
    "lsblk": "util-linux", "mount": "mount", "thin_check":
    "thin-provisioning-tools", "sparse": "sparse", "shellcheck": "shellcheck",
    "mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs",
    "mkfs.btrfs": "btrfs-progs", "mkfs.f2fs": "f2fs-tools",
    "mdadm": "mdadm", "make-bcache": "bcache-tools",
    "groff": "groff-base", "sphinx-build": "python3-sphinx",
    "/usr/include/stdio.h": "libc6-dev",
    "/usr/include/libdevmapper.h": "libdevmapper-dev",
    "/usr/include/blkid/blkid.h": "libblkid-dev",
    "/usr/include/json-c/json.h": "libjson-c-dev",
    "/usr/include/liburing.h": "liburing-dev",
    "/usr/include/uuid/uuid.h": "uuid-dev",
    "/usr/include/libelf.h": "libelf-dev",
    "/usr/include/leveldb/c.h": "libleveldb-dev",
    "/usr/include/rocksdb/c.h": "librocksdb-dev",
    "/usr/include/openssl/ssl.h": "libssl-dev",
    "/usr/lib/python3*/ensurepip": "python3-venv",
}
# Each package with its version and checksums; scripts/pyproject.toml lists the wanted ones.
PYTHON = LAB / "python.txt"
# The name depends on the list, because a checkout with another list must not rebuild an environment
# in which programs may be running.
VENV = CACHE / f"venv-{digest(read(PYTHON))[:8]}"


def _present(what):
    if what.startswith("/"):
        # Headers of libraries may be in an architecture's directory.
        return bool(glob.glob(what) or glob.glob(
            what.replace("/usr/include/", "/usr/include/*-linux-gnu/")))
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin"
    return shutil.which(what, path=path) is not None


def need(command, package=None):
    """Install a command that only some of the lab's programs need."""
    if not _present(command):
        _install([package or command])


def install_packages():
    """Install missing packages with the machine's own apt."""
    missing = sorted({package for what, package in NEEDED.items()
                      if not _present(what)})
    if missing:
        _install(missing)


def _install(missing):
    if not shutil.which("apt-get"):
        raise LabError("these Debian packages (or their equivalents) are "
                       f"missing, install them by hand: {' '.join(missing)}")
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if sudo and subprocess.run(["sudo", "-n", "true"], check=False,
                               capture_output=True).returncode:
        raise LabError("run this once as root: "
                       f"apt-get install {' '.join(missing)}")
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    install = sudo + ["apt-get", "install", "-y", "-q",
                      "--no-install-recommends"] + missing
    try:
        step(f"installing {len(missing)} packages", install,
             CACHE / "logs/apt-install.log", env=env, usual="1 min")
    except LabError:
        step("refreshing the package lists", sudo + ["apt-get", "update"],
             CACHE / "logs/apt-update.log", env=env)
        step(f"installing {len(missing)} packages", install,
             CACHE / "logs/apt-install.log", env=env)


def make_venv():
    stamp = VENV / ".complete"
    want = digest(read(PYTHON))
    if read(stamp) == want:
        return
    with lock("venv"):
        if read(stamp) == want:
            return
        # The distribution's interpreter, because guests have the same one.
        step("creating the Python environment",
             ["/usr/bin/python3", "-m", "venv", "--clear", VENV],
             CACHE / "logs/venv.log")
        step("installing its packages",
             [VENV / "bin/pip", "install", "-q", "--require-hashes", "-r", PYTHON],
             CACHE / "logs/pip.log", usual="1 min")
        write(stamp, want)


def archive(label="Debian"):
    """Return the address of the archive of that label, from apt's configuration."""
    if label == "Debian" and os.environ.get("SHINGLE_ARCHIVE"):
        return os.environ["SHINGLE_ARCHIVE"]
    policy = subprocess.run(["apt-cache", "policy"], text=True, check=False,
                            capture_output=True).stdout
    found = re.search(r"^ *-?\d+ (\S+) \S+/main amd64 Packages\n"
                      rf" +release \S*\bl={label}(?:,|$)", policy, re.M)
    if not found:
        # If apt has not fetched its lists yet, the configuration has the address.
        folder = {"Debian": "debian"}.get(label, "debian-security")
        for path in [Path("/etc/apt/sources.list"),
                     *Path("/etc/apt/sources.list.d").glob("*")]:
            found = re.search(r"^(?:URIs:|deb(?: \[.*\])?) *"
                              rf"(\S+/{folder})/?(?:\s|$)", read(path), re.M)
            if found:
                break
    return found.group(1) if found else None


class Suites:
    """apt with suites of our choice, separate from the machine's own set-up."""

    def __init__(self, *suites, types="deb"):
        self.home = CACHE / "apt" / (suites[0] + types[len("deb"):])
        self.fresh = False
        keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
        text = ""
        for suite in suites:
            security = suite.endswith("-security")
            address = archive("Debian-Security" if security else "Debian")
            if not address and security:
                continue
            if not address:
                raise LabError("no Debian archive in this machine's apt "
                               "configuration; set SHINGLE_ARCHIVE to the "
                               "address of one")
            text += (f"Types: {types}\nURIs: {address}\nSuites: {suite}\n"
                     "Components: main\nArchitectures: amd64\n")
            if keyring.exists():
                text += f"Signed-By: {keyring}\n"
            text += "\n"
        write(self.home / "lab.sources", text)
        (self.home / "lists/partial").mkdir(parents=True, exist_ok=True)
        write(self.home / "status", "")

    def _apt(self, tool, *arguments):
        options = {
            "Dir::Etc::sourcelist": self.home / "lab.sources",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::Lists": self.home / "lists",
            "Dir::State::status": self.home / "status",
            "Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": "",
            "APT::Sandbox::User": "root",
        }
        command = [tool]
        for key, value in options.items():
            command += ["-o", f"{key}={value}"]
        return command + list(arguments)

    def _ask(self, *arguments):
        if not self.fresh:
            step(f"asking the archive for {self.home.name}",
                 self._apt("apt-get", "update"), CACHE / "logs/lists.log")
            self.fresh = True
        return subprocess.run(self._apt("apt-cache", *arguments), text=True,
                              check=True, capture_output=True).stdout

    def newest(self, pattern):
        """Return the package with the highest version number in its name."""
        names = [line.split(" ")[0] for line in
                 self._ask("search", "--names-only", pattern).splitlines()]
        if not names:
            raise LabError(f"no package {pattern} in {self.home.name}; check "
                           "the archive that this machine's apt uses")
        return max(names, key=lambda n: [int(x) for x in
                                         re.findall(r"\d+", n)])

    def depends(self, package, pattern):
        """Return the first dependency of a package that matches."""
        text = self._ask("depends", "--important", package)
        found = re.search(rf"Depends: ({pattern})$", text, re.M)
        if not found:
            raise LabError(f"{package} in {self.home.name} depends on nothing "
                           f"like {pattern}; is this a Debian archive?")
        return found.group(1)

    def source(self, package, version, into):
        """Fetch the original sources of a package and unpack them into a directory, atomically;
        needs types="deb-src"."""
        if Path(into).is_dir():
            return
        with lock("source-" + digest(into)):
            if Path(into).is_dir():
                return
            fresh = Path(f"{into}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            self._ask("showsrc", package)
            step(f"downloading the sources of {package}",
                 self._apt("apt-get", "source", "--download-only",
                           f"{package}={version}"),
                 CACHE / "logs/source.log", cwd=fresh)
            for archive_file in fresh.glob("*.orig.tar.*"):
                subprocess.run(["tar", "-xf", archive_file, "-C", fresh,
                                "--strip-components=1"], check=True)
            fresh.replace(into)

    def unpack(self, packages, into):
        """Download packages and unpack them into a directory."""
        debs = self.home / "debs"
        shutil.rmtree(debs, ignore_errors=True)
        debs.mkdir()
        step("downloading " + " ".join(packages),
             self._apt("apt-get", "download", *packages),
             CACHE / "logs/download.log", cwd=debs)
        for deb in sorted(debs.iterdir()):
            subprocess.run(["dpkg-deb", "-x", deb, into], check=True)
        shutil.rmtree(debs)


def setup():
    """Set up everything except the kernels; a stamp makes later calls cheap."""
    want = digest(sorted(NEEDED.items()), read(PYTHON))
    # As with VENV, checkouts with other lists must not take turns.
    stamp = CACHE / f"setup-{want[:8]}.stamp"
    if read(stamp) == want and (VENV / ".complete").exists():
        return
    with lock("setup"):
        install_packages()
        make_venv()
        write(stamp, want)
        say("set-up complete")
