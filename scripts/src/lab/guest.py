# SPDX-License-Identifier: GPL-2.0
"""Boot a guest, carry its output, and end it in every case."""

import argparse
import contextlib
import ctypes
import fcntl
import io
import os
import re
import selectors
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .cache import CACHE, LAB, LabError, TOP, read, say, write
from .kernels import guest_init
from .packages import VENV
from .watch import Watcher, leaks

# Exit statuses of the runner itself.
LAB_FAILED = 125
REPORTED = 126
TIMED_OUT = 124
CUT = 137

# Options of prctl().
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

PATH = ":".join((str(VENV / "bin"), str(TOP / "build/userspace"),
                 "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
                 "/sbin:/bin"))


def parse_size(text):
    """Parse a size: 4G, 512M, 100k or bytes."""
    found = re.fullmatch(r"(\d+)([kKmMgGtT]?)(i?[bB])?", text)
    if not found:
        raise LabError(f"'{text}' is no size; write for example 512M or 4G")
    return int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30,
                             "t": 40}[found[2].lower()]


class Guest:
    """One boot of a guest."""

    def __init__(self, options, kernel, moddir, load):
        self.options = options
        self.kernel = kernel
        self.moddir = moddir
        self.load = load
        self.watcher = Watcher(options.expect_report)
        self.status = None
        self.error = None
        self.deadline = time.monotonic() + options.timeout
        self.cut_at = None
        self.cut = False
        self.process = None
        self.home = None
        self.shm = None
        self.core = None

    # --- files in /run/lab -----------------------------------------------

    def disk_files(self):
        """Return image files in the guest's order: new ones, then existing ones."""
        files = []
        sizes = [parse_size(size) for size in self.options.disk]
        # In RAM a flush costs nothing; large images go to a real disk.
        where = self.home
        shm = Path("/dev/shm")
        if sizes and shm.is_dir() and \
                sum(sizes) < shutil.disk_usage(shm).free // 4:
            where = self.shm = scratch(shm)
        for i, size in enumerate(sizes):
            path = where / f"disk{i}"
            with open(path, "wb") as image:
                image.truncate(size)
            files.append((path, True))
        for name in self.options.disk_file:
            path = Path(name).absolute()
            if not path.exists():
                raise LabError(f"no disk image {path}; make one with "
                               f"truncate -s 1G {path}")
            files.append((path, False))
        if len(files) > 16:
            raise LabError("more than 16 disks; a guest takes no more")
        return files

    def prepare(self):
        """Write the files that guest/rc reads."""
        options = self.options
        self.disks = self.disk_files()
        name = "/dev/ubd%c" if self.kernel.uml else "/dev/vd%c"
        nodes = [name % (ord("a") + i) for i in range(len(self.disks))]
        self.rw = []
        for directory in options.rw or [TOP / "build/out"]:
            path = Path(directory).absolute()
            path.mkdir(parents=True, exist_ok=True)
            self.rw.append(path.resolve())
        env = environment(options, self.kernel, self.moddir)
        env |= {
            "LAB_TOP": TOP, "LAB_DISKS": " ".join(nodes),
            "LAB_KERNEL_MODULES": self.kernel.modules,
            "LAB_LEAKS": "1" if self.leak_scan() else "",
        }
        (self.home / "env").write_text("".join(
            f"export {k}={shlex.quote(str(v))}\n" for k, v in env.items()),
            encoding="utf-8")
        (self.home / "command").write_text(
            "exec " + shlex.join(options.command) + "\n", encoding="utf-8")
        (self.home / "rw").write_text(
            "".join(f"{p}\n" for p in self.rw), encoding="utf-8")
        (self.home / "load").write_text(
            "".join(f"{line}\n" for line in self.load), encoding="utf-8")
        shutil.copy(LAB / "guest/rc", self.home / "rc")

    def leak_scan(self):
        return self.kernel.debug and not self.kernel.smp and \
            not self.options.no_leak_scan

    # --- booting ---------------------------------------------------------

    def uml_command(self, fds):
        out, err, ctl = fds
        command = [
            self.kernel.image, "root=/dev/root", "rootfstype=hostfs",
            "rootflags=/", "ro", f"init={guest_init()}",
            f"mem={self.options.memory}", "con=null", "con0=null,fd:1",
            f"con1=null,fd:{out}", f"con2=null,fd:{err}",
            f"con3=null,fd:{ctl}", "panic=-1", "loglevel=7",
            f"uml_dir={self.home}/", f"LAB_RUN={self.home}",
        ]
        if self.options.clock == "virtual":
            command.append("time-travel=inf-cpu")
        # Two processors need the faster way to run processes; one works without it.
        command += ["seccomp=on", f"ncpus={self.options.cpus}"] if self.kernel.smp \
            else ["seccomp=auto"]
        if self.kernel.debug and self.kernel.smp:
            # With kmemleak every allocation saves another stack, and disabling interrupts takes two
            # system calls here: the boot would take minutes.
            command.append("kmemleak=off")
        elif self.kernel.debug:
            # SLUB's caches of free objects keep stale pointers, which hide leaks from kmemleak; a
            # cache with a debug flag has none.
            command.append("slab_debug=F")
        for i, (path, _) in enumerate(self.disks):
            command.append(f"ubd{i}d={path}")
        return command + self.options.append.split()

    def in_huge_pages(self, command):
        """Return the command with a tmpfs of huge pages for its memory, in a mount namespace that
        ends with it; the command unchanged if mounting is not permitted."""
        memory = self.home / "memory"
        memory.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "huge=always,size=100%", "memory", str(memory)]
        unshare = ["unshare", "--mount", "sh", "-c"]
        try:
            tried = subprocess.run([*unshare, shlex.join(mount)], capture_output=True, text=True,
                                   check=False)
            why = tried.returncode and (tried.stderr.strip() or f"status {tried.returncode}")
        except OSError as error:
            why = f"unshare: {error.strerror}"
        if why:
            say(f"no huge pages for the guest's memory: {why}")
            return command
        run = shlex.join(mount) + " && exec " + shlex.join(["env", f"TMPDIR={memory}"])
        return [*unshare, f'{run} "$@"', "sh", *command]

    def qemu_command(self, fds):
        options = self.options
        virtual = options.clock == "virtual"
        command = [
            "qemu-system-x86_64", "-M", "q35", "-nodefaults", "-no-user-config",
            "-display", "none", "-no-reboot", "-m", options.memory,
            "-smp", str(1 if virtual else options.cpus),
            "-kernel", self.kernel.image, "-initrd", self.kernel.initramfs,
            # A guest under TCG stops for any time while its host does, which is no lockup of its
            # kernel.
            "-append", f"console=ttyS0 panic=-1 LAB_RUN={self.home} "
            "loglevel=7 mitigations=off nokaslr audit=0 "
            "random.trust_cpu=on "
            + ("" if options.use_kvm else
               "tsc=reliable no_timer_check nosoftlockup "
               "rcupdate.rcu_cpu_stall_suppress=1 ")
            + options.append,
            "-serial", "stdio",
            "-device", "virtio-serial-pci,max_ports=4",
            *self.share("root", "/", ",readonly=on"),
            *self.share("run", self.home),
        ]
        if options.use_kvm:
            command += ["-accel", "kvm", "-cpu", "host"]
        else:
            # With a thread per virtual CPU, one may run an int3 that another has just patched away:
            # the kernel, which patches its static keys that way, then dies of "Oops: int3".
            command += ["-accel", "tcg,thread=single", "-cpu", "max"]
        if virtual:
            command += ["-icount", "shift=1,sleep=off"]
        for i, fd in enumerate(fds):
            command += ["-chardev", f"file,id=lab{i},path=/dev/fd/{fd}",
                        "-device", f"virtserialport,chardev=lab{i},"
                        f"nr={i + 1}"]
        for i, path in enumerate(self.rw):
            command += self.share(f"rw{i}", path)
        for i, (path, fresh) in enumerate(self.disks):
            cache = "unsafe" if fresh else "writeback"
            command += ["-drive", f"file={path},if=none,id=disk{i},format=raw,"
                        f"cache={cache},discard=unmap",
                        "-device", f"virtio-blk-pci,drive=disk{i},"
                        f"serial=disk{i}"]
        return command

    @staticmethod
    def share(tag, path, more=""):
        path = str(path).replace(",", ",,")
        model = "none" if os.geteuid() else "passthrough"
        return ["-virtfs", f"local,path={path},mount_tag={tag},"
                f"security_model={model},multidevs=remap{more}"]

    # --- running ----------------------------------------------------------

    def run(self):
        adopt_orphans()
        self.home = scratch(Path(tempfile.gettempdir()))
        try:
            self.prepare()
            self._boot()
            self._leaks()
        finally:
            self._end()
            for path in filter(None, (self.home, self.shm)):
                shutil.rmtree(path, ignore_errors=True)
        return self._verdict()

    def _boot(self):
        pipes = [os.pipe() for _ in range(3)]
        inner = [w for _, w in pipes]
        command = (self.uml_command if self.kernel.uml
                   else self.qemu_command)(inner)
        env, cpus = None, os.sched_getaffinity(0)
        if self.kernel.uml:
            env = dict(os.environ, TMPDIR="/dev/shm")
            if self.options.huge_pages:
                command = self.in_huge_pages(command)
            if not self.kernel.smp:
                cpus, self.core = one_core(cpus)
        self.process = subprocess.Popen(
            [str(c) for c in command], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
            pass_fds=inner, start_new_session=True,
            preexec_fn=lambda: settle(cpus))
        for fd in inner:
            os.close(fd)
        self._carry(pipes[0][0], pipes[1][0], pipes[2][0],
                    self.process.stdout.fileno())

    def _carry(self, out, err, ctl, log):
        """Carry output until the guest is gone or must be ended."""
        texts = {ctl: b"", log: b"", out: b""}
        watch = selectors.DefaultSelector()
        for fd in (out, err, ctl, log):
            os.set_blocking(fd, False)
            watch.register(fd, selectors.EVENT_READ)
        grace = None
        while watch.get_map():
            now = time.monotonic()
            ends = [t for t in (self.deadline, grace, self.cut_at) if t]
            events = watch.select(max(0, min(ends) - now))
            for key, _ in events:
                data = _read(key.fd)
                if not data:
                    watch.unregister(key.fd)
                    continue
                if key.fd in (out, err):
                    pass_on(1 if key.fd == out else 2, data)
                if key.fd == out and self.options.cut_on:
                    texts[out] = (texts[out] + data)[-65536:]
                    if self.options.cut_on.encode() in texts[out]:
                        self.cut = True
                        return
                if key.fd in (ctl, log):
                    *lines, texts[key.fd] = (texts[key.fd] + data).split(b"\n")
                    for line in lines:
                        text = line.decode(errors="replace").rstrip("\r")
                        (self._control if key.fd == ctl else self._log)(text)
            now = time.monotonic()
            if self.status is not None and grace is None:
                grace = now + 15
            if self._hopeless() and grace is None:
                grace = now + 3
            if self.cut_at and now >= self.cut_at:
                self.cut = True
                return
            if grace and now >= grace:
                return
            if now >= self.deadline:
                self.error = TIMED_OUT
                if self.kernel.uml:
                    show_blocked(self.home)
                return
            if not events and self.process.poll() is not None:
                return
            # Leftover helpers may hold the pipes open.
            if self.process.poll() is not None and grace is None:
                grace = now + 0.5

    def _hopeless(self):
        """Return True after a panic, because then no more output comes."""
        return self.watcher.first is not None and any(
            "Kernel panic" in line for line in self.watcher.lines[-60:])

    def _control(self, line):
        word, _, rest = line.partition(" ")
        if word == "status" and rest.isdigit():
            self.status = int(rest)
        elif word == "error":
            say(f"the guest could not set itself up: {rest}")
            self.error = LAB_FAILED

    def _log(self, line):
        self.watcher.feed(line)
        if self.options.cut_after and "lab: command starts" in line:
            self.cut_at = time.monotonic() + self.options.cut_after
        if self.options.verbose:
            print(line, file=sys.stderr)

    def _leaks(self):
        if not self.leak_scan():
            return
        names = [Path(x.split()[1]).stem.replace("-", "_") for x in self.load]
        found = leaks(read(self.home / "leaks"), names)
        if found:
            self.watcher.feed(f"BUG: kmemleak: {len(found)} leaks of ours")
            for line in "".join(found).splitlines():
                self.watcher.feed(line)

    def _end(self):
        """End all processes of this guest."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        reap_orphans()
        if self.core:
            self.core.close()
        # The kernel's last messages are still in the pipe.
        fd = self.process.stdout.fileno()
        os.set_blocking(fd, False)
        rest = b"".join(iter(lambda: _read(fd), b""))
        for line in rest.decode(errors="replace").splitlines():
            self.watcher.feed(line)

    def _verdict(self):
        log = Path(self.options.log or
                   CACHE / "logs" / f"guest-{os.getpid()}.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("\n".join(self.watcher.lines) + "\n", encoding="utf-8")
        if self.watcher.first is not None:
            say(f"the kernel reported a failure (whole log: {log}):")
            print(self.watcher.excerpt(), file=sys.stderr)
            return REPORTED
        if self.error == TIMED_OUT:
            say(f"timed out after {self.options.timeout:g} s, guest killed; "
                f"its last words (whole log: {log}):")
            print("\n".join(last_words(self.watcher.lines)), file=sys.stderr)
            return TIMED_OUT
        if self.cut:
            if not self.options.quiet:
                say("power cut: guest killed as asked")
            return CUT
        if self.error is None and self.status is not None:
            if not self.options.log:
                log.unlink()
            return self.status
        say(f"the guest ended without a word (whole log: {log}); "
            "its last ones:")
        print("\n".join(self.watcher.lines[-25:]), file=sys.stderr)
        return LAB_FAILED


def environment(options, kernel, moddir):
    """Return the environment of every command, in a guest or on the host."""
    return {
        "PATH": PATH, "HOME": "/root", "TERM": os.environ.get("TERM", "dumb"),
        "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
        "DM_DISABLE_UDEV": "1", "SHINGLE_KERNEL": kernel.name,
        "SHINGLE_CLOCK": options.clock, "SHINGLE_MODDIR": moddir or "",
        "SHINGLE_TOP": TOP, "SHINGLE_LAB": "1",
        # The suites are the package guest in tests/.
        "PYTHONPATH": f"{TOP / 'scripts/src'}:{TOP / 'tests'}",
    } | dict(item.split("=", 1) for item in options.env)


def scratch(where):
    """Make a directory for this run; remove those of runs that were killed."""
    for old in where.glob("shingle-lab.*.*"):
        pid = old.name.split(".")[1]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"shingle-lab.{os.getpid()}.",
                                 dir=where))


def pass_on(fd, data):
    with contextlib.suppress(BrokenPipeError):
        while data:
            data = data[os.write(fd, data):]


def _read(fd):
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return b""
    except OSError:
        return b""


def prctl(option, value):
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def adopt_orphans():
    """Make helpers of a killed guest our children, so that this process can end them."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def one_core(cpus):
    """Return a processor for a guest of user-mode Linux, and an open file that keeps it from other
    guests, or None if all are taken.

    Such a guest is one kernel and processes that take turns with it at every system call.  Across
    two processors each turn wakes an idle one, which takes five times as long as all the rest, and
    even more beside another guest.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    for cpu in sorted(cpus):
        handle = open(CACHE / f"cpu{cpu}.lock", "w", encoding="ascii")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return {cpu}, handle
        except BlockingIOError:
            handle.close()
    return {sorted(cpus)[os.getpid() % len(cpus)]}, None


def settle(cpus):
    """In the child: restrict it to these processors, and have the kernel end it when the runner is
    killed."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Without permission the guest is only slower.
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, cpus)


def end_with(caller):
    """Have the kernel end this runner in order, and with it the guest, when its caller is killed.
    """
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != caller:
        sys.exit(143)


def kvm_works(options, kernel):
    """Return whether a guest boots under KVM here; tried once for each boot of the host.

    An openable /dev/kvm is not enough: nested in some virtual machines, guests hang.
    """
    if options.clock == "virtual" or kernel.uml or \
            not os.access("/dev/kvm", os.R_OK | os.W_OK) or \
            not re.search(r"^flags.*\b(vmx|svm)\b", read("/proc/cpuinfo"), re.M):
        return False
    note = CACHE / "kvm"
    boot = read("/proc/sys/kernel/random/boot_id").strip()
    known = read(note).split()
    if known[:1] != [boot]:
        say("trying whether KVM works on this machine (20 s at most) ...")
        trial = Guest(argparse.Namespace(**vars(options) | {
            "command": ["true"], "timeout": 20, "disk": [], "disk_file": [],
            "rw": [], "cut_on": None, "cut_after": None, "use_kvm": True,
            "quiet": True, "log": str(CACHE / "logs/kvm-trial.log")}),
            kernel, None, [])
        with contextlib.redirect_stderr(io.StringIO()):
            works = trial.run() == 0
        known = [boot, "yes" if works else "no"]
        write(note, " ".join(known))
        say("KVM works" if works else "KVM does not work; using emulation")
    return known[1] == "yes"


def show_blocked(home):
    """Have a user-mode kernel log what its tasks wait for; its management console answers when
    that is done."""
    asked = b"sysrq w"
    for path in home.glob("*/mconsole"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as console, \
                contextlib.suppress(OSError):
            console.settimeout(5)
            console.bind(str(home / "asks"))
            console.sendto(struct.pack("<III512s", 0xcafebabe, 2, len(asked), asked), str(path))
            more = True
            while more:
                _, more, _ = struct.unpack_from("<III", console.recv(65536))


def last_words(lines):
    """Return the last lines before show_blocked(), and the lines that it logged."""
    asked = next((i for i, line in enumerate(lines) if "sysrq: Show Blocked State" in line),
                 len(lines))
    return lines[max(asked - 12, 0):]


def children():
    """Return the pids of the children of all threads."""
    found = []
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found += (thread / "children").read_text(encoding="ascii").split()
    return {int(pid) for pid in found}


def reap_orphans():
    """End every child that is left; all of them belonged to the guest."""
    for _ in range(200):
        mine = children()
        if not mine:
            return
        for pid in mine:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in mine:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        time.sleep(0.001)
