# SPDX-License-Identifier: GPL-2.0
"""A Debian in a directory: build packages in one, and try them in another."""

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from .cache import CACHE, LabError, TOP, digest, lock, read, say, step
from .packages import Suites
from .watch import Watcher

SUITES = {name: (name, f"{name}-updates", f"{name}-security")
          for name in ("bookworm", "trixie")}
# Packages to install besides the essential ones.
BUILD = ("build-essential", "lintian", "fakeroot")
TRY = ("linux-image-amd64", "linux-headers-amd64", "systemd-sysv", "udev", "kmod", "mount",
       "procps", "e2fsprogs", "dkms", "dmsetup", "fio", "libjson-c5", "liburing2",
       "python3-jinja2", "python3-matplotlib", "python3-numpy", "python3-scipy", "gcc",
       "libc6-dev",
       "liburing-dev", "uuid-dev", "pkg-config")
OUT = TOP / "build/deb"
LOGS = CACHE / "logs"
USER = 1000     # the builder's uid
LIMIT = 1800    # s, for one boot


def _root(suite, name, include, hooks=(), key=""):
    """Return a tarball of a fresh Debian, made once for each set of arguments."""
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
    """Unpack a copy of a Debian; remove it at the end."""
    root = Path(tempfile.mkdtemp(prefix=f"shingle-debian.{os.getpid()}."))
    try:
        root.chmod(0o755)
        subprocess.run(["tar", "-xf", tarball, "-C", root, "--numeric-owner",
                        "--xattrs", "--xattrs-include=*"], check=True)
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _apart(root):
    """Return the beginning of a command line that works on a Debian: with namespaces for processes
    and mounts, which end with it, and without a network."""
    return ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child",
            f"--mount-proc={root}/proc"]


def _inside(root, command, user=None):
    """Return the command line that runs shell commands in the Debian, isolated."""
    inner = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] \
        if user else []
    return [*_apart(root), "chroot", root,
            "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LANG=C.UTF-8",
            "DEBIAN_FRONTEND=noninteractive", *inner, "sh", "-ec", command]


def _sources(into):
    """Copy a checkout without built and ignored files."""
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
    """Build the packages, into a directory of build/deb."""
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
        shutil.rmtree(OUT / suite, ignore_errors=True)
        (OUT / suite).mkdir(parents=True)
        for path in sorted((root / "build").iterdir()):
            if path.is_file():
                shutil.copy(path, OUT / suite)
                say(f"build/deb/{suite}/{path.name}")


# --- installing and removing -------------------------------------------------

# Paths that dpkg and apt change when any package is installed and removed,
NOTES = re.compile(r"(var/log|var/lib/(dpkg|apt|systemd)|var/cache|root|tmp|run|proc|sys|dev"
                   r"|packages)(/|$)|etc/ld\.so\.cache$|var/lib/dkms/mok\.(key|pub)$"
                   # and those that a running system changes.
                   r"|etc/(machine-id|resolv\.conf|\.updated)$|var/\.updated$|lost\+found$")


def contents(root):
    """Return {path: its mode, owner and type, and the contents of a file} for a tree."""
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
    """Return a sentence for each path that differs after removal."""
    def word(name):
        if name not in before:
            return "is left"
        return "has changed" if name in after else "is gone"

    return [f"{name} {word(name)}" for name in sorted(before.keys() | after.keys())
            if (name in before, before.get(name)) != (name in after, after.get(name))]


def modules_of(root):
    """Return {release: names of our modules that DKMS has installed}, and the names of all our
    modules."""
    names = {n.replace("-", "_") for n in
             re.findall(r'^BUILT_MODULE_NAME\[\d+\]="(.*)"$', read(TOP / "dkms.conf"), re.M)}
    return {folder.name: {p.name.split(".ko")[0].replace("-", "_")
                          for p in (folder / "updates/dkms").glob("*.ko*")} & names
            for folder in (root / "lib/modules").iterdir()}, names


def trial(suite, guest=False):
    """Install and remove the packages; with @guest boot the Debian in between."""
    debs = sorted(p for p in (OUT / suite).glob("*.deb") if "-dbgsym_" not in p.name)
    if not debs:
        raise LabError(f"there are no packages in build/deb/{suite}: scripts/lab/debian "
                       f"--suite {suite} build makes them")
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
        # There is no network, so this fails if a package of Depends is missing.
        step("trying the tools, as autopkgtest does",
             [*_apart(root), "autopkgtest", "--no-built-binaries", "--no-auto-control",
              "--test-name=tools", place / "source", "--", "chroot", root],
             LOGS / "deb-tools.log")
        if guest:
            in_guest(suite, root, names, before)
        step("taking them out again", _inside(root, f"dpkg --purge {' '.join(names)}"),
             LOGS / "deb-purge.log")
        found = differences(before, contents(root))
        if found:
            raise LabError("not as before: " + "; ".join(found[:20]))
        say(f"{len(before)} files and directories are as before")


# --- booting -----------------------------------------------------------------

DONE = "guest: status "
UNIT = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
Environment=DEBIAN_FRONTEND=noninteractive HOME=/root
StandardInput=null
StandardOutput=file:/dev/ttyS0
StandardError=inherit
ExecStart=/bin/sh -c '/packages/source/scripts/lab/guest/packages $$(cat /packages/stage); \
  s=$$?; sync; echo "{done}$$s"'
ExecStopPost=/bin/systemctl --no-block poweroff
[Install]
WantedBy=multi-user.target
"""


def in_guest(suite, root, names, before):
    """Boot the Debian as a machine twice: see guest/packages.  @root does not change."""
    unit = Path("etc/systemd/system/shingle-try.service")
    wants = unit.parent / "multi-user.target.wants" / unit.name
    log = LOGS / f"deb-guest-{suite}.log"
    with tempfile.TemporaryDirectory(prefix=f"shingle-debian-disk.{os.getpid()}.") as place:
        system, spare, tree = (Path(place) / n for n in ("system", "spare", "tree"))
        for image, size in ((system, 6 << 30), (spare, 1 << 30)):
            with open(image, "wb") as handle:
                handle.truncate(size)
        step("making a disk of it", ["mke2fs", "-q", "-F", "-t", "ext4", "-d", root, system],
             LOGS / "deb-image.log")
        (tree / "packages").mkdir(parents=True)
        (tree / "packages/names").write_text(" ".join(names), encoding="ascii")
        (tree / unit.name).write_text(UNIT.format(done=DONE), encoding="ascii")
        put(system, tree / "packages/names", "packages/names")
        put(system, tree / unit.name, unit)
        debugfs(system, f"symlink {wants} ../{unit.name}")
        kernel = max((root / "boot").glob("vmlinuz-*"))
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("", encoding="utf-8")
        for stage in ("1", "2"):
            (tree / "packages/stage").write_text(stage, encoding="ascii")
            put(system, tree / "packages/stage", "packages/stage")
            boot(kernel, (system, spare), log)
        after = set(debugfs(system, "cat packages/after").split("\n"))
        after = {n.removeprefix("./") for n in after} - {"", ".", str(unit), str(wants)}
        found = differences(dict.fromkeys(before),
                            dict.fromkeys(n for n in after if not NOTES.match(n)))
        if found or not after:
            raise LabError("in the guest not as before: " + "; ".join(found[:20]))
        say(f"in the guest, too, all {len(before)} names are as before; all it said: {log}")


def debugfs(image, command):
    done = subprocess.run(["debugfs", "-w", "-R", command, image], check=True, text=True,
                          capture_output=True)
    # debugfs exits with 0 even if the command failed.
    if wrong := [x for x in done.stderr.splitlines() if not x.startswith("debugfs ")]:
        raise LabError(f"debugfs {command}: {'; '.join(wrong)}")
    return done.stdout


def put(image, source, target):
    """Write a file into a disk's file system, replacing an existing one."""
    with contextlib.suppress(LabError):
        debugfs(image, f"rm {target}")
    debugfs(image, f"write {source} {target}")


def boot(kernel, disks, log):
    """Boot disks, with the options of guest.py and for the same reasons; print the lines of
    guest/packages.  A report of the kernel, or a status other than 0, is an error."""
    command = ["qemu-system-x86_64", "-M", "q35", "-nodefaults", "-no-user-config",
               "-display", "none", "-no-reboot", "-m", "2G", "-smp", "1",
               # The clock counts the guest's own instructions, independent of other load on the
               # host, and skips waits: that halves the time, and systemd's timeout of 90 s for a
               # device suffices.
               "-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off",
               "-cpu", "max", "-kernel", kernel,
               "-initrd", kernel.with_name(kernel.name.replace("vmlinuz", "initrd.img")),
               "-append", "root=/dev/vda rw console=ttyS0 loglevel=5 systemd.show_status=0 "
               # This service would hang up the terminal that the unit writes to.
               "systemd.mask=serial-getty@ttyS0.service "
               "mitigations=off nokaslr audit=0 tsc=reliable no_timer_check nosoftlockup "
               # While the guest waits for the host's disk, its clock jumps from timer to timer.
               "sysctl.kernel.hung_task_timeout_secs=0 "
               "rcupdate.rcu_cpu_stall_suppress=1 panic=-1", "-serial", "stdio"]
    for disk in disks:
        command += ["-drive", f"file={disk},if=virtio,format=raw,cache=unsafe"]
    watcher, status, begin = Watcher(), None, time.monotonic()
    say(f"booting it under {kernel.name}; all it says: {log}")
    with subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          errors="replace") as process, open(log, "a", encoding="utf-8") as out:
        limit = threading.Timer(LIMIT, process.kill)
        limit.start()
        try:
            for line in map(str.rstrip, process.stdout):
                out.write(f"[{time.monotonic() - begin:5.0f}] {line}\n")
                out.flush()
                watcher.feed(line)
                if line.startswith(DONE):
                    status = int(line.removeprefix(DONE))
                elif line.startswith("guest: "):
                    say(line)
        finally:
            limit.cancel()
            process.kill()
    if watcher.first is not None:
        raise LabError("the kernel reported a failure:\n" + watcher.excerpt())
    if status != 0:
        raise LabError("it " + ("ended without a word" if status is None else
                                f"failed with status {status}") + f"; the end of {log}:\n"
                       + "\n".join(watcher.lines[-25:]))
    say(f"this boot: {time.monotonic() - begin:.0f} s")
