# SPDX-License-Identifier: GPL-2.0
"""Tests of the Python binding of kv, with the shared library."""

import ctypes
import errno
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import typing
import zipfile

import pytest
from programs import TOP, make

BINDING = TOP / "userspace/kv-python"
HEADER = (TOP / "userspace/include/shingle-kv.h").read_text(encoding="utf-8")
MIB = 1 << 20


@pytest.fixture(scope="module", name="kv")
def binding():
    make("userspace/kv")
    os.environ["SHINGLE_KV_LIBRARY"] = str(TOP / "build/userspace/libshingle-kv.so.1")
    try:
        yield importlib.import_module("shingle_kv")
    finally:
        del os.environ["SHINGLE_KV_LIBRARY"]


@pytest.fixture(name="device")
def make_device(tmp_path, kv):
    path = tmp_path / "device"
    with open(path, "wb") as f:
        f.truncate(8 * MIB)
    kv.format(path, band_bytes=65536, organisation="loc")
    return path


def test_structs_match_the_header(kv):
    """The binding declares the structs by hand. They must have the names, order and widths of
    the header."""
    widths = {"uint64_t": ctypes.c_uint64, "uint32_t": ctypes.c_uint32,
              "uint8_t": ctypes.c_uint8, "size_t": ctypes.c_size_t, "const char": ctypes.c_char_p,
              "enum kv_organisation": ctypes.c_int}
    for name, ours in (("kv_format_options", kv._library.FormatOptions),
                       ("kv_options", kv._library.Options), ("kv_stats", kv._library.Stats),
                       ("kv_shape", kv._library.Shape)):
        body = re.search(rf"^struct {name} {{\n(.*?)^}};", HEADER, re.M | re.S)[1]
        wanted = []
        for kind, names in re.findall(r"^\t(const char|enum \w+|\w+) \*?(.+);$", body, re.M):
            for field in names.split(", "):
                field, _, count = field.partition("[")
                width = widths[kind]
                if count:
                    width = width * {"KV_LEVELS]": 7, "16]": 16}[count]
                wanted.append((field, width))
        assert [(n, ctypes.sizeof(w)) for n, w in ours._fields_] == \
            [(n, ctypes.sizeof(w)) for n, w in wanted], name


def test_constants_match_the_header(kv):
    """The binding's flags have the values of the header."""
    for name in ("READ_ONLY", "NO_THREAD", "NO_LOG", "STREAM", "NO_LIVE", "SYNC",
                 "REPAIR_UNREADABLE"):
        bit = int(re.search(rf"KV_{name} = 1 << (\d)", HEADER)[1])
        assert getattr(kv._library, name) == 1 << bit


def test_put_get_delete(kv, device):
    with kv.open(device) as store:
        store.put(b"sky", b"blue", sync=True)
        store[b"empty"] = b""
        store[b"long"] = bytes(8000)
        assert store.get(b"sky") == b"blue" and store[b"empty"] == b""
        assert store[b"long"] == bytes(8000)
        assert b"sky" in store and b"fog" not in store
        assert store.get(b"fog") is None and store.get(b"fog", b"grey") == b"grey"
        with pytest.raises(KeyError):
            store[b"fog"]
        del store[b"sky"]
        assert list(store) == [b"empty", b"long"]
        assert store.stats()["puts"] == 3 and store.stats()["deletes"] == 1
    with pytest.raises(ValueError, match="closed"):
        store.get(b"sky")
    with kv.open(device, read_only=True) as store:
        assert list(store.keys()) == [b"empty", b"long"]
        with pytest.raises(kv.Error, match="read-only") as refused:
            store.put(b"a", b"b")
        assert isinstance(refused.value, OSError) and refused.value.errno == 30


def test_batches_are_all_or_nothing(kv, device):
    """A batch is written at the end of its block; if the block raises an error, nothing is
    written."""
    with kv.open(device) as store:
        with store.batch(sync=True) as batch:
            batch.put(b"a", b"1")
            batch.put(b"b", b"2")
            batch.delete(b"a")
            assert store.get(b"b") is None
        assert dict(store.items()) == {b"b": b"2"}
        with pytest.raises(RuntimeError):
            with store.batch() as batch:
                batch.put(b"c", b"3")
                raise RuntimeError
        assert b"c" not in store
        with pytest.raises(kv.Error, match="a key of 0 bytes"):
            store.put(b"", b"x")


def test_iteration_in_both_directions(kv, device):
    pairs = {b"%03d" % i: b"value %d" % i for i in range(0, 1000, 3)}
    with kv.open(device, memtable_bytes=16384) as store:
        for key, value in pairs.items():
            store[key] = value
        assert dict(store.items()) == pairs
        ours = sorted(pairs)
        assert list(store.keys(reverse=True)) == ours[::-1]
        assert list(store.keys(b"100", b"200")) == [k for k in ours if b"100" <= k < b"200"]
        assert list(store.keys(b"102", b"201", reverse=True)) == \
            [k for k in ours[::-1] if b"102" <= k < b"201"]
        with store.iterator() as it:
            with pytest.raises(ValueError, match="no key"):
                it.key
            assert it.seek_for_prev(b"500") and it.key == b"498"
            assert it.next() and it.key == b"501" and it.prev() and it.key == b"498"
            assert it.seek(b"999") and not it.next()
        store.compact(b"1", b"5")
        assert 0 < store.approximate_size(b"1", b"5") < store.approximate_size()
        store.delete_range(b"1", b"5", sync=True)
        assert list(store.keys()) == [k for k in ours if not b"1" <= k < b"5"]
        assert store.check() == []


def test_snapshots_and_iterators_after_their_end(kv, device):
    """A snapshot keeps its view. Snapshots and iterators that are used after their end, or after
    the store's, raise ValueError and do not crash."""
    store = kv.open(device)
    store[b"a"] = b"1"
    with store.snapshot() as then:
        store[b"a"] = b"2"
        store[b"b"] = b"3"
        assert store.get(b"a", snapshot=then) == b"1"
        assert dict(store.items(snapshot=then)) == {b"a": b"1"}
    with pytest.raises(ValueError, match="closed"):
        store.get(b"a", snapshot=then)
    # Closing a store closes its snapshots and iterators.
    left, it = store.snapshot(), store.iterator()
    walk = store.items()
    assert next(walk) == (b"a", b"2")
    store.close()
    store.close()
    left.close()
    with pytest.raises(ValueError, match="closed"):
        it.seek()
    with pytest.raises(ValueError, match="closed"):
        next(walk)


def in_child(function):
    """Run @function in a child of fork(), as a multiprocessing worker does. Return a function
    that waits for the child and returns its exit status."""
    pid = os.fork()
    if pid:
        return lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    # A child that hangs ends with SIGALRM.
    signal.alarm(60)
    status = 1
    try:
        function()
        status = 0
    finally:
        os._exit(status)


@pytest.mark.parametrize("no_thread", [False, True], ids=["thread", "no_thread"])
def test_a_child_of_fork_leaves_the_store_to_its_parent(kv, device, no_thread):
    """In a child of fork() each call on the store fails with EPERM. The child may close the
    store, as at its exit; this writes nothing, and the parent's store works on."""
    store = kv.open(device, no_thread=no_thread)
    snapshot, it = store.snapshot(), store.iterator()
    store[b"not synced"] = b"1"
    # The child closes the store when the parent has written more.
    wait, go = os.pipe()

    def child():
        os.read(wait, 1)
        for call in (lambda: store.put(b"child", b"1"), lambda: store.get(b"not synced"),
                     store.iterator, store.sync, store.flush, store.compact, store.settle,
                     store.stats, store.shape, store.check, it.seek, it.seek_last,
                     store.approximate_size, store.delete_range,
                     lambda: store.checkpoint(device.with_name("copy"))):
            with pytest.raises(kv.Error, match="before a fork") as refused:
                call()
            assert refused.value.errno == errno.EPERM
        with pytest.raises(MemoryError, match="before a fork"):
            store.snapshot()
        snapshot.close()
        it.close()
        store.close()
    ended = in_child(child)
    for i in range(200):
        store.put(b"%d" % i, b"x" * 300, sync=True)
    os.write(go, b"x")
    assert ended() == 0
    if not no_thread:
        assert kv.live_stats(device)["puts"] == 201
    for i in range(200, 400):
        store.put(b"%d" % i, b"x" * 300, sync=True)
    # A copy of the file is the store after a kill: it must contain all synced writes.
    shutil.copy(device, device.with_name("killed"))
    with kv.open(device.with_name("killed")) as killed:
        assert len(list(killed)) == 401 and killed.check() == []
    snapshot.close()
    store.close()


def test_a_child_of_fork_keeps_no_lock(kv, device):
    """A child of fork() does not keep the lock of the store: once the parent has closed it, it
    can be opened again while the child lives."""
    store = kv.open(device)
    wait, go = os.pipe()
    ended = in_child(lambda: os.read(wait, 1))
    store.close()
    with kv.open(device) as again:
        again[b"a"] = b"1"
    os.write(go, b"x")
    assert ended() == 0


def test_children_of_fork_read_a_read_only_store(kv, device):
    """A store that is open to read only can be used in children of fork()."""
    with kv.open(device) as store:
        store[b"a"] = b"1"
    store = kv.open(device, read_only=True)

    def child():
        assert store[b"a"] == b"1" and list(store) == [b"a"]
        store.close()
    assert in_child(child)() == 0
    assert store[b"a"] == b"1"
    store.close()


def test_store_in_a_reference_cycle_is_collected(kv, device):
    """The collector clears weak references before it calls finalizers, and calls these in any
    order.  Iterators, snapshots and batches must be freed before their store, and once."""
    program = f"""
import gc
import shingle_kv
class Owner:
    pass
for i in range(20):
    owner = Owner()
    owner.itself = owner
    owner.store = shingle_kv.open({str(device)!r})
    owner.store[b"%d" % i] = bytes(1000)
    owner.iterator = owner.store.iterator()
    owner.iterator.seek()
    owner.snapshot = owner.store.snapshot()
    owner.batch = owner.store.batch()
    owner.batch.put(b"a", b"b")
    del owner
    gc.collect()
with shingle_kv.open({str(device)!r}) as store:
    assert len(list(store)) == 20
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False, env=dict(os.environ, PYTHONPATH=str(BINDING / "src"),
                                                MALLOC_PERTURB_="165"))
    assert (done.returncode, done.stderr) == (0, "")


def test_numbers_too_large_raise_overflow_error(kv, device):
    """A number that does not fit its field raises OverflowError. ctypes would drop the upper
    bits without an error."""
    for option, value in (("memtable_bytes", (1 << 32) + 65536), ("cache_bytes", -1),
                          ("l0_trigger", 1 << 32)):
        with pytest.raises(OverflowError, match=option):
            kv.open(device, **{option: value})
    for option, value in (("band_bytes", (1 << 32) + 65536), ("bytes", -1)):
        with pytest.raises(OverflowError, match=option):
            kv.format(device, **{option: value})
    kv.open(device, memtable_bytes=65536, cache_bytes=1 << 33).close()


def test_library_threads_take_no_signals(kv, device):
    """A program that blocks a signal after it has opened a store can wait for it: no thread of the
    library takes it, which would end the program without a close."""
    program = f"""
import os, signal, time
import shingle_kv
def sleeping(thread):
    with open(f"/proc/self/task/{{thread}}/stat") as f:
        return f.read().rpartition(")")[2].split()[0] == "S"
def all_sleep():
    try:
        return all(map(sleeping, set(os.listdir("/proc/self/task")) - {{str(os.getpid())}}))
    except OSError:         # a thread has just ended
        return False
signal.signal(signal.SIGTERM, signal.SIG_DFL)
with shingle_kv.open({str(device)!r}) as store:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    store[b"a"] = b"1"
    # A thread that is about to start has all signals blocked.
    while not all_sleep():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    assert signal.sigwaitinfo([signal.SIGTERM]).si_signo == signal.SIGTERM
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False, env=dict(os.environ, PYTHONPATH=str(BINDING / "src")))
    assert (done.returncode, done.stderr) == (0, "")
    with kv.open(device, read_only=True) as store:
        assert store[b"a"] == b"1"


def test_threads_share_a_store(kv, device):
    """Threads can share a store, and each gets its own error message."""
    said = {}

    def use(store, name):
        for i in range(300):
            store.put(b"%s %d" % (name, i), name * 20)
        try:
            store.put(b"x" * (1100 + len(name)), b"")
        except kv.Error as error:
            said[name] = str(error)
    with kv.open(device) as store:
        threads = [threading.Thread(target=use, args=(store, b"n" * i)) for i in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(list(store)) == 1200
    assert all(f"a key of {1100 + len(name)} bytes" in text for name, text in said.items())
    assert len(said) == 4


def test_checkpoint_live_figures_and_repair(kv, device, tmp_path):
    with kv.open(device) as store:
        with store.batch(sync=True) as batch:
            for i in range(100):
                batch.put(b"%d" % i, b"x")
        store.checkpoint(tmp_path / "copy")
        assert kv.live_stats(device)["puts"] == 100
        kv.live_checkpoint(device, tmp_path / "another")
        shape = store.shape()
    with pytest.raises(kv.Error, match="not open in a program"):
        kv.live_stats(device)
    for name in ("copy", "another"):
        with kv.open(tmp_path / name, read_only=True) as copy:
            assert len(list(copy)) == 100 and copy.lost() is None
            assert copy.shape().uuid != shape.uuid and copy.shape().organisation == "loc"
    raw = bytearray(device.read_bytes())
    raw[raw.index(b"KVLOG\0\0\0") + 100] ^= 1
    device.write_bytes(raw)
    with pytest.raises(kv.Error, match="damaged at byte 0"):
        kv.open(device)
    with kv.open(device, read_only=True) as store:
        assert "damaged" in store.lost() and "damaged" in store.check()[0]
    assert any("are given up" in text for text in kv.repair(device))
    assert kv.repair(device) == []
    with kv.open(device) as store:
        assert list(store) == []


def test_unknown_arguments_are_refused(kv, device):
    with pytest.raises(TypeError, match="cash_bytes"):
        kv.open(device, cash_bytes=1)
    with pytest.raises(ValueError, match="none of soc, loc, buffered"):
        kv.format(device, organisation="lsm")
    with pytest.raises(kv.Error, match="nowhere") as missing:
        kv.open("nowhere")
    assert missing.value.errno == 2


def test_functions_are_annotated(kv):
    """Each public function has annotations and a docstring."""
    assert (BINDING / "src/shingle_kv/py.typed").exists()
    for kind in (kv.Store, kv.Batch, kv.Iterator, kv.Snapshot):
        for name, member in vars(kind).items():
            function = member.fget if isinstance(member, property) else member
            if callable(function):
                assert "return" in typing.get_type_hints(function), f"{kind.__name__}.{name}"
                assert function.__doc__ or name.startswith("_"), f"{kind.__name__}.{name}"
    assert set(kv.__all__) <= set(dir(kv))


def test_content_of_the_wheel(tmp_path):
    """The wheel contains the package and its py.typed marker, but no library, which the
    distribution provides."""
    pytest.importorskip("flit_core")
    source = tmp_path / "source"
    shutil.copytree(BINDING, source)
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index",
                    "--no-build-isolation", "--wheel-dir", tmp_path, source], check=True)
    wheel, = tmp_path.glob("*.whl")
    release = re.search(r'^PACKAGE_VERSION="(.*)"', (TOP / "dkms.conf").read_text(), re.M)[1]
    assert wheel.name == f"shingle_kv-{release}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert {"shingle_kv/__init__.py", "shingle_kv/_library.py", "shingle_kv/py.typed"} <= \
        set(names)
    assert not [n for n in names if n.endswith(".so")]
