# SPDX-License-Identifier: GPL-2.0
"""A Debian in a directory: makes packages in one, and tries them in another."""

import contextlib
import hashlib
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
TRY = ("linux-image-amd64", "linux-headers-amd64", "systemd-sysv", "udev", "kmod", "mount",
       "procps", "e2fsprogs", "dkms", "dmsetup", "fio", "libjson-c5", "liburing2",
       "python3-jinja2", "python3-matplotlib", "python3-numpy", "python3-scipy", "gcc",
       "libc6-dev",
       "liburing-dev", "uuid-dev", "pkg-config")
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


# --- in and out again --------------------------------------------------------

# What a Debian notes of any package that comes and goes: its own books.
NOTES = re.compile(r"(var/log|var/lib/(dpkg|apt|systemd)|var/cache|root|tmp|run|proc|sys|dev"
                   r"|packages)(/|$)|etc/ld\.so\.cache$|var/lib/dkms/mok\.(key|pub)$")


def contents(root):
    """What is in a tree: of each path what it is, and of a file what is in it."""
    found = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if NOTES.match(name):
            continue
        stat = path.lstat()
        what = [oct(stat.st_mode), stat.st_uid, stat.st_gid]
        if path.is_symlink():
            what.append(os.readlink(path))
        elif path.is_file():
            what.append(hashlib.sha256(path.read_bytes()).hexdigest())
        found[name] = tuple(what)
    return found


def differences(before, after):
    """Sentences about what did not come back as it was."""
    def word(name):
        if name not in before:
            return "is left"
        return "has changed" if name in after else "is gone"

    return [f"{name} {word(name)}" for name in sorted(before.keys() | after.keys())
            if (name in before, before.get(name)) != (name in after, after.get(name))]


def modules_of(root):
    """Releases, and the names of our modules that DKMS has installed for each."""
    names = {n.replace("-", "_") for n in
             re.findall(r'^BUILT_MODULE_NAME\[\d+\]="(.*)"$', read(TOP / "dkms.conf"), re.M)}
    return {folder.name: {p.name.split(".ko")[0].replace("-", "_")
                          for p in (folder / "updates/dkms").glob("*.ko*")} & names
            for folder in (root / "lib/modules").iterdir()}, names


def trial(suite):
    """Packages of build/deb in, and out."""
    debs = sorted(p for p in OUT.glob("*.deb") if "-dbgsym_" not in p.name)
    if not debs:
        raise LabError("there are no packages in build/deb: make deb makes them")
    names = [p.name.split("_")[0] for p in debs]
    with unpacked(_root(suite, "try", TRY)) as root:
        place = root / "packages"
        _sources(place / "source")
        for deb in debs:
            shutil.copy(deb, place)
        before = contents(root)
        step(f"installing {', '.join(names)} in {suite}; DKMS builds the modules",
             _inside(root, "dpkg -i /packages/*.deb; dkms status"),
             LOGS / "deb-install.log", usual="2 min")
        built, wanted = modules_of(root)
        for release, have in built.items():
            if have != wanted:
                raise LabError(f"DKMS has installed {sorted(have)} for {release}, and not "
                               f"{sorted(wanted - have)}; see {LOGS}/deb-install.log")
            say(f"{len(have)} modules for {release}")
        step("trying the tools", _inside(
            root, "mkdir /tmp/t; AUTOPKGTEST_TMP=/tmp/t /packages/source/debian/tests/tools; "
                  "rm -r /tmp/t"), LOGS / "deb-tools.log")
        step("taking them out again", _inside(root, f"dpkg --purge {' '.join(names)}"),
             LOGS / "deb-purge.log")
        found = differences(before, contents(root))
        if found:
            raise LabError("not as before: " + "; ".join(found[:20]))
        say(f"{len(before)} files and directories are as before")
