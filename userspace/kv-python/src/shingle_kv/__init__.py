# SPDX-License-Identifier: GPL-2.0
"""The key-value store kv of dm-shingle.

    shingle_kv.format("disk.img", band_bytes=1 << 20)
    with shingle_kv.open("disk.img") as store:
        store.put(b"sky", b"blue", sync=True)

Keys and values are bytes.  Documentation/kv.rst of dm-shingle describes the guarantees of each
call.
Any thread may use a store; an iterator and a batch belong to one thread at a time.
"""

from __future__ import annotations

import ctypes
import errno
import os
import uuid as _uuid
from typing import Any, Callable, Dict, Iterator as _Iterator, List, NamedTuple, Optional, \
    Tuple, Union

from . import _library
from ._library import lib as _lib

__all__ = ["Batch", "Error", "Iterator", "Shape", "Snapshot", "Store", "format",
           "live_checkpoint", "live_stats", "open", "repair"]

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
ORGANISATIONS = ("soc", "loc", "buffered")


class Error(OSError):
    """An error of the library, with its errno and its message."""


class Shape(NamedTuple):
    """Identity and layout of a store."""
    uuid: _uuid.UUID
    organisation: str
    band_bytes: int
    bands: int
    generation: int


def _checked(result: int) -> None:
    if result:
        raise Error(-result, (_lib.kv_error() or b"").decode(errors="replace"))


def _found(result: int) -> bool:
    if result == -errno.ENOENT:
        return False
    _checked(result)
    return True


def _struct(kind: Any, **fields: Any) -> Any:
    """A structure of the library.  ctypes drops the bits of a number that have no room."""
    made = kind(size=ctypes.sizeof(kind), **fields)
    for name, value in fields.items():
        if isinstance(value, int) and getattr(made, name) != value:
            raise OverflowError(f"{name}: {value} is out of range")
    return made


def _format_options(nbytes: int, band_bytes: int, organisation: str) -> _library.FormatOptions:
    if organisation not in ORGANISATIONS:
        raise ValueError(f"organisation {organisation!r} is none of {', '.join(ORGANISATIONS)}")
    return _struct(_library.FormatOptions, bytes=nbytes, band_bytes=band_bytes,
                   organisation=ORGANISATIONS.index(organisation))


def _figures(stats: _library.Stats) -> Dict[str, Any]:
    return {name: list(getattr(stats, name)) if name.startswith("level_") else
            getattr(stats, name) for name, *_ in stats._fields_ if name != "size"}


def _stats(ask: Callable[[Any], int]) -> Dict[str, Any]:
    stats = _struct(_library.Stats)
    _checked(ask(ctypes.byref(stats)))
    return _figures(stats)


def format(path: Path, *, bytes: int = 0, band_bytes: int = 0,
           organisation: str = "soc") -> None:
    """Make an empty store on a block device, or in a file that has its size.  The old contents are
    lost."""
    options = _format_options(bytes, band_bytes, organisation)
    _checked(_lib.kv_format(os.fsencode(path), ctypes.byref(options)))


def repair(path: Path, *, offload: Optional[Path] = None, unreadable: bool = False) -> List[str]:
    """Recover the whole chunks of a damaged log.  The result has a message for each lost piece."""
    given_up: List[str] = []
    report = _library.REPORT(lambda _, text: given_up.append(text.decode(errors="replace")))
    options = _struct(_library.Options,
                      offload=None if offload is None else os.fsencode(offload))
    _checked(_lib.kv_repair(os.fsencode(path), ctypes.byref(options),
                            _library.REPAIR_UNREADABLE if unreadable else 0, report, None))
    return given_up


def live_stats(path: Path) -> Dict[str, Any]:
    """Statistics of a store that another program has open."""
    return _stats(lambda stats: _lib.kv_live_stats(os.fsencode(path), stats))


def live_checkpoint(path: Path, to: Path) -> None:
    """Let the program that has a store open copy it."""
    _checked(_lib.kv_live_checkpoint(os.fsencode(path), os.fsencode(to)))


class _Closing:
    """An object that is closed by close(), at the end of a with block, or with its store.

    The store has the handle and the function that frees it, but no reference to the object.  So the
    handle is freed once, and before the store, in whatever order the garbage collector calls
    finalizers."""

    def __init__(self, store: "Store", handle: int) -> None:
        self._store = store
        self._handle: Optional[int] = handle
        store._children[handle] = self._free

    @staticmethod
    def _free(store: int, handle: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Close the object; further calls have no effect."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._store._close_child(handle)

    def _open(self) -> int:
        if self._handle is None or self._store._handle is None:
            raise ValueError(f"a {type(self).__name__.lower()} that is closed")
        return self._handle

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


class Snapshot(_Closing):
    """The contents of the store when the snapshot was made; a context manager."""

    @staticmethod
    def _free(store: int, handle: int) -> None:
        _lib.kv_snapshot_free(store, handle)

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Batch(_Closing):
    """Writes that happen together or not at all: by write(), or at the end of the with block, if
    there was no exception."""

    def __init__(self, store: "Store", sync: bool) -> None:
        handle = _lib.kv_batch_new()
        if not handle:
            raise MemoryError
        super().__init__(store, handle)
        self._sync = sync

    @staticmethod
    def _free(store: int, handle: int) -> None:
        _lib.kv_batch_free(handle)

    def put(self, key: bytes, value: bytes) -> None:
        """Add a value."""
        _checked(_lib.kv_batch_put(self._open(), key, len(key), value, len(value)))

    def delete(self, key: bytes) -> None:
        """Add a deletion."""
        _checked(_lib.kv_batch_delete(self._open(), key, len(key)))

    def clear(self) -> None:
        """Drop the collected writes."""
        _lib.kv_batch_clear(self._open())

    def write(self) -> None:
        """Write the batch; it is empty afterwards."""
        _checked(_lib.kv_write(self._store._open(), self._open(),
                               _library.SYNC if self._sync else 0))
        self.clear()

    def __enter__(self) -> "Batch":
        return self

    def __exit__(self, kind: Optional[type], *_: object) -> None:
        try:
            if kind is None:
                self.write()
        finally:
            self.close()


class Iterator(_Closing):
    """Walks through keys in order, or back.  Each move returns True if it has reached a key."""

    def __init__(self, store: "Store", snapshot: Optional[Snapshot]) -> None:
        handle = ctypes.c_void_p()
        _checked(_lib.kv_iter_new(store._open(), snapshot._open() if snapshot else None,
                                  ctypes.byref(handle)))
        super().__init__(store, handle.value or 0)

    @staticmethod
    def _free(store: int, handle: int) -> None:
        _lib.kv_iter_free(handle)

    def seek(self, key: bytes = b"") -> bool:
        """Go to the first key that is not below this one."""
        return _found(_lib.kv_iter_seek(self._open(), key, len(key)))

    def seek_last(self) -> bool:
        """Go to the last key."""
        return _found(_lib.kv_iter_seek_last(self._open()))

    def seek_for_prev(self, key: bytes) -> bool:
        """Go to the last key that is not above this one."""
        return _found(_lib.kv_iter_seek_for_prev(self._open(), key, len(key)))

    def next(self) -> bool:
        """Go to the next key."""
        return _found(_lib.kv_iter_next(self._open()))

    def prev(self) -> bool:
        """Go to the key before."""
        return _found(_lib.kv_iter_prev(self._open()))

    def _bytes(self, function: Callable[..., Optional[int]]) -> bytes:
        size = ctypes.c_size_t()
        at = function(self._open(), ctypes.byref(size))
        if at is None:
            raise ValueError("the iterator is at no key")
        return ctypes.string_at(at, size.value)

    @property
    def key(self) -> bytes:
        """The current key."""
        return self._bytes(_lib.kv_iter_key)

    @property
    def value(self) -> bytes:
        """The current value."""
        return self._bytes(_lib.kv_iter_value)

    def __enter__(self) -> "Iterator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Store:
    """An open store; a context manager.  open() makes one."""

    def __init__(self, path: Path, **options: Any) -> None:
        self._handle: Optional[int] = None
        self._children: Dict[int, Callable[[int, int], None]] = {}
        flags = 0
        for name in ("read_only", "no_thread", "no_log", "stream", "no_live"):
            if options.pop(name, False):
                flags |= getattr(_library, name.upper())
        offload = options.pop("offload", None)
        known = {name for name, *_ in _library.Options._fields_} - {"size", "flags"}
        if set(options) - known:
            raise TypeError(f"unknown options: {', '.join(sorted(set(options) - known))}")
        given = _struct(_library.Options, flags=flags,
                        offload=None if offload is None else os.fsencode(offload), **options)
        handle = ctypes.c_void_p()
        _checked(_lib.kv_open(ctypes.byref(handle), os.fsencode(path), ctypes.byref(given)))
        self._handle = handle.value

    def _open(self) -> int:
        if self._handle is None:
            raise ValueError("a store that is closed")
        return self._handle

    def _close_child(self, child: int) -> None:
        free = self._children.pop(child, None)
        if free and self._handle is not None:
            free(self._handle, child)

    def close(self) -> None:
        """Sync and close the store; its iterators, snapshots and batches are closed first."""
        if self._handle is None:
            return
        for child in list(self._children):
            self._close_child(child)
        handle, self._handle = self._handle, None
        _checked(_lib.kv_close(handle))

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    # --- reading

    def get(self, key: bytes, default: Optional[bytes] = None, *,
            snapshot: Optional[Snapshot] = None) -> Optional[bytes]:
        """The value of a key, or the default if it has none."""
        room = 4096
        then = snapshot._open() if snapshot else None
        while True:
            value = ctypes.create_string_buffer(room)
            size = ctypes.c_size_t()
            result = _lib.kv_get_into(self._open(), then, key, len(key), value, room,
                                      ctypes.byref(size))
            if result != -errno.ENOBUFS:
                return value.raw[:size.value] if _found(result) else default
            # Another thread may write a longer value meanwhile.
            room = size.value

    def __getitem__(self, key: bytes) -> bytes:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: bytes) -> bool:
        return self.get(key) is not None

    def iterator(self, *, snapshot: Optional[Snapshot] = None) -> Iterator:
        """An iterator, which is not at a key yet."""
        return Iterator(self, snapshot)

    def items(self, start: bytes = b"", stop: Optional[bytes] = None, *, reverse: bool = False,
              snapshot: Optional[Snapshot] = None) -> _Iterator[Tuple[bytes, bytes]]:
        """Keys from start to before stop, each with its value."""
        with self.iterator(snapshot=snapshot) as it:
            if not reverse:
                there = it.seek(start)
            elif stop is None:
                there = it.seek_last()
            else:
                there = it.seek_for_prev(stop)
                if there and it.key == stop:
                    there = it.prev()
            while there and (it.key >= start if reverse else stop is None or it.key < stop):
                yield it.key, it.value
                there = it.prev() if reverse else it.next()

    def keys(self, start: bytes = b"", stop: Optional[bytes] = None, *, reverse: bool = False,
             snapshot: Optional[Snapshot] = None) -> _Iterator[bytes]:
        """The keys of items()."""
        return (key for key, _ in self.items(start, stop, reverse=reverse, snapshot=snapshot))

    def __iter__(self) -> _Iterator[bytes]:
        return self.keys()

    def snapshot(self) -> Snapshot:
        """Make a snapshot of the current contents."""
        handle = _lib.kv_snapshot_new(self._open())
        if not handle:
            raise MemoryError((_lib.kv_error() or b"").decode(errors="replace"))
        return Snapshot(self, handle)

    # --- writing

    def put(self, key: bytes, value: bytes, *, sync: bool = False) -> None:
        """Set the value of a key."""
        _checked(_lib.kv_put(self._open(), key, len(key), value, len(value),
                             _library.SYNC if sync else 0))

    def delete(self, key: bytes, *, sync: bool = False) -> None:
        """Delete a key, if it exists."""
        _checked(_lib.kv_delete(self._open(), key, len(key), _library.SYNC if sync else 0))

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.put(key, value)

    def __delitem__(self, key: bytes) -> None:
        self.delete(key)

    def delete_range(self, start: bytes = b"", stop: bytes = b"", *, sync: bool = False) -> None:
        """Delete the keys from start to before stop; an empty bound is no limit."""
        _checked(_lib.kv_delete_range(self._open(), start, len(start), stop, len(stop),
                                      _library.SYNC if sync else 0))

    def batch(self, *, sync: bool = False) -> Batch:
        """Begin to collect writes that happen together."""
        return Batch(self, sync)

    def sync(self) -> None:
        """Make all writes so far durable."""
        _checked(_lib.kv_sync(self._open()))

    # --- maintenance

    def flush(self) -> None:
        """Write the memtable as a band of level 0."""
        _checked(_lib.kv_flush(self._open()))

    def compact(self, start: bytes = b"", stop: bytes = b"") -> None:
        """Compact the bands that have keys from start to before stop."""
        _checked(_lib.kv_compact_range(self._open(), start, len(start), stop, len(stop)))

    def settle(self) -> None:
        """Merge until no merge is due."""
        _checked(_lib.kv_settle(self._open()))

    def approximate_size(self, start: bytes = b"", stop: bytes = b"") -> int:
        """Bytes on the disk of the keys from start to before stop."""
        size = ctypes.c_uint64()
        _checked(_lib.kv_approximate_size(self._open(), start, len(start), stop, len(stop),
                                          ctypes.byref(size)))
        return size.value

    def stats(self) -> Dict[str, Any]:
        """The fields of struct kv_stats by name."""
        return _stats(lambda stats: _lib.kv_stats(self._open(), stats))

    def shape(self) -> Shape:
        """Identity and layout of the store."""
        shape = _struct(_library.Shape)
        _checked(_lib.kv_shape(self._open(), ctypes.byref(shape)))
        return Shape(_uuid.UUID(bytes=bytes(shape.uuid)), ORGANISATIONS[shape.organisation],
                     shape.band_bytes, shape.bands, shape.generation)

    def lost(self) -> Optional[str]:
        """A message about what the log has lost, if the store is opened to be read; or None."""
        text = _lib.kv_lost(self._open())
        return None if text is None else text.decode(errors="replace")

    def check(self) -> List[str]:
        """Read and verify everything.  The result has a message for each finding."""
        found: List[str] = []
        report = _library.REPORT(lambda _, text: found.append(text.decode(errors="replace")))
        result = _lib.kv_check(self._open(), report, None)
        if result != -errno.EUCLEAN:
            _checked(result)
        return found

    def checkpoint(self, to: Path) -> None:
        """Copy the current contents to another device, file or directory."""
        _checked(_lib.kv_checkpoint(self._open(), os.fsencode(to), None))


def open(path: Path, **options: Any) -> Store:
    """Open a store.  Options: read_only, no_thread, no_log, stream and no_live; offload; and the
    numbers of struct kv_options, for example cache_bytes."""
    return Store(path, **options)
