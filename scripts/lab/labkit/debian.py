# SPDX-License-Identifier: GPL-2.0
"""A Debian in a directory, in which packages are made."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from .cache import CACHE, LabError, TOP, digest, lock, read, say, step
from .packages import Suites

SUITES = {name: (name, f"{name}-updates", f"{name}-security")
          for name in ("bookworm", "trixie")}
# What is to be there beside the essential packages.
BUILD = ("build-essential", "lintian", "fakeroot")
OUT = TOP / "build/deb"
LOGS = CACHE / "logs"
USER = 1000     # who builds


def _root(suite, name, include, hooks=(), key=""):
    """A tarball of a fresh Debian, made once for each such question."""
    want = digest(*include, key)
    tarball = CACHE / "debian" / f"{suite}-{name}-{want}.tar"
    if tarball.exists():
        return tarball
    with lock(f"debian-{suite}-{name}"):
        if tarball.exists():
            return tarball
        tarball.parent.mkdir(parents=True, exist_ok=True)
        for old in tarball.parent.glob(f"{suite}-{name}-*.tar"):
            old.unlink()
        fresh = tarball.with_name("new-" + tarball.name)
        step(f"making a Debian ({suite}) to {name} in",
             ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=tar",
              "--dpkgopt=force-unsafe-io", "--include=" + ",".join(include),
              *(f"--customize-hook={hook}" for hook in hooks), suite, fresh,
              Suites(*SUITES[suite]).home / "lab.sources"],
             LOGS / f"debian-{suite}-{name}.log", usual="3 min")
        fresh.replace(tarball)
    return tarball


@contextlib.contextmanager
def unpacked(tarball):
    """A copy of a Debian, for as long as it is needed."""
    root = Path(tempfile.mkdtemp(prefix=f"shingle-debian.{os.getpid()}."))
    try:
        root.chmod(0o755)
        subprocess.run(["tar", "-xf", tarball, "-C", root, "--numeric-owner",
                        "--xattrs", "--xattrs-include=*"], check=True)
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _inside(root, command, user=None):
    """The command line that runs a shell's commands in there: with processes and mounts of
    its own, which end with it, and without a network."""
    inner = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] \
        if user else []
    return ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child",
            f"--mount-proc={root}/proc", "chroot", root,
            "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LANG=C.UTF-8",
            "DEBIAN_FRONTEND=noninteractive", *inner, "sh", "-ec", command]


def _sources(into):
    """What a checkout consists of, without what is built or ignored."""
    if (TOP / ".git").exists():
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=TOP, check=True, capture_output=True).stdout.split(b"\0")
        names = [n for n in names if n and (TOP / os.fsdecode(n)).exists()]
    else:
        names = [os.fsencode(p.name) for p in TOP.iterdir()
                 if p.name not in (".git", "build")]
    into.mkdir(parents=True)
    subprocess.run(["rsync", "-rlpt", "--from0", "--files-from=-", ".", into], cwd=TOP,
                   input=b"\0".join(names), check=True)


def build(suite):
    """Packages, to build/deb."""
    control = TOP / "debian/control"
    hooks = [f'mkdir -p "$1/tmp/b/debian" && cp {shlex.quote(str(control))} "$1/tmp/b/debian"',
             'cd "$1/tmp/b" && chroot "$1" sh -c "cd /tmp/b && apt-get -y '
             '--no-install-recommends build-dep ."', 'rm -r "$1/tmp/b"']
    needs = re.search(r"(?ms)^Build-Depends:.*?^(?=\S)", read(control))[0]
    with unpacked(_root(suite, "build", BUILD, hooks, needs)) as root:
        place = root / "build/dm-shingle"
        _sources(place)
        for path in [root / "build", place, *place.rglob("*")]:
            os.lchown(path, USER, USER)
        step("building Debian's packages",
             _inside(root, "cd /build/dm-shingle; dpkg-buildpackage -us -uc", USER),
             LOGS / "deb-build.log", usual="2 min")
        step("looking them over with lintian",
             _inside(root, "cd /build; lintian --fail-on error,warning "
                           "--tag-display-limit 0 --no-cfg *.changes", USER),
             LOGS / "deb-lintian.log")
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir(parents=True)
        for path in sorted((root / "build").iterdir()):
            if path.is_file():
                shutil.copy(path, OUT)
                say(f"build/deb/{path.name}")
