# SPDX-License-Identifier: GPL-2.0
"""The functions and structures of shingle-kv.h for ctypes."""

from __future__ import annotations

import ctypes
import os
from ctypes import (
    POINTER, c_char_p, c_int, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p)

LEVELS = 7
READ_ONLY, NO_THREAD, NO_LOG, STREAM, NO_LIVE = (1 << i for i in range(5))
SYNC = 1
REPAIR_UNREADABLE = 1


class FormatOptions(ctypes.Structure):
    """struct kv_format_options"""
    _fields_ = [("size", c_size_t), ("bytes", c_uint64), ("band_bytes", c_uint32),
                ("organisation", c_int)]


class Options(ctypes.Structure):
    """struct kv_options"""
    _fields_ = [("size", c_size_t), ("flags", c_uint32), ("log_buffer_bytes", c_uint32),
                ("cache_bytes", c_uint64), ("around_bytes", c_uint32),
                ("memtable_bytes", c_uint32), ("l0_trigger", c_uint32),
                ("l0_slowdown", c_uint32), ("slowdown_us", c_uint32), ("lead_bytes", c_uint32),
                ("idle_ms", c_uint32), ("offload", c_char_p)]


class Stats(ctypes.Structure):
    """struct kv_stats"""
    _fields_ = [(name, c_uint64) for name in
                "size bands bands_free bands_log bands_pinned band_bytes".split()] + \
        [("level_bands", c_uint64 * LEVELS), ("level_bytes", c_uint64 * LEVELS)] + \
        [(name, c_uint64) for name in (
            "unsorted_bands unsorted_bytes offload_bands offload_bands_free memtable_bytes "
            "puts deletes gets user_bytes offloaded_writes offloaded_bytes log_bytes "
            "flush_bytes compact_read_bytes compact_written_bytes table_bytes pad_bytes "
            "read_bytes syncs flushes compactions moves discards levels_told bloom_checks "
            "bloom_passes bloom_wrong flush_us compact_us slow_us ring_error").split()]


class Shape(ctypes.Structure):
    """struct kv_shape"""
    _fields_ = [("size", c_size_t), ("uuid", c_uint8 * 16), ("organisation", c_int),
                ("band_bytes", c_uint32), ("bands", c_uint32), ("generation", c_uint64)]


REPORT = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)

# For each function the types of its result and of its arguments.
_KEY = [c_char_p, c_size_t]
_FUNCTIONS = {
    "kv_error": (c_char_p, []),
    "kv_format": (c_int, [c_char_p, POINTER(FormatOptions)]),
    "kv_open": (c_int, [POINTER(c_void_p), c_char_p, POINTER(Options)]),
    "kv_close": (c_int, [c_void_p]),
    "kv_lost": (c_char_p, [c_void_p]),
    "kv_repair": (c_int, [c_char_p, POINTER(Options), c_uint32, REPORT, c_void_p]),
    "kv_put": (c_int, [c_void_p, *_KEY, *_KEY, c_uint32]),
    "kv_delete": (c_int, [c_void_p, *_KEY, c_uint32]),
    "kv_delete_range": (c_int, [c_void_p, *_KEY, *_KEY, c_uint32]),
    "kv_batch_new": (c_void_p, []),
    "kv_batch_put": (c_int, [c_void_p, *_KEY, *_KEY]),
    "kv_batch_delete": (c_int, [c_void_p, *_KEY]),
    "kv_batch_clear": (None, [c_void_p]),
    "kv_batch_free": (None, [c_void_p]),
    "kv_write": (c_int, [c_void_p, c_void_p, c_uint32]),
    "kv_sync": (c_int, [c_void_p]),
    "kv_get_into": (c_int, [c_void_p, c_void_p, *_KEY, c_void_p, c_size_t, POINTER(c_size_t)]),
    "kv_snapshot_new": (c_void_p, [c_void_p]),
    "kv_snapshot_free": (None, [c_void_p, c_void_p]),
    "kv_iter_new": (c_int, [c_void_p, c_void_p, POINTER(c_void_p)]),
    "kv_iter_seek": (c_int, [c_void_p, *_KEY]),
    "kv_iter_seek_last": (c_int, [c_void_p]),
    "kv_iter_seek_for_prev": (c_int, [c_void_p, *_KEY]),
    "kv_iter_next": (c_int, [c_void_p]),
    "kv_iter_prev": (c_int, [c_void_p]),
    "kv_iter_key": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "kv_iter_value": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "kv_iter_free": (None, [c_void_p]),
    "kv_flush": (c_int, [c_void_p]),
    "kv_compact": (c_int, [c_void_p]),
    "kv_compact_range": (c_int, [c_void_p, *_KEY, *_KEY]),
    "kv_approximate_size": (c_int, [c_void_p, *_KEY, *_KEY, POINTER(c_uint64)]),
    "kv_settle": (c_int, [c_void_p]),
    "kv_stats": (c_int, [c_void_p, POINTER(Stats)]),
    "kv_shape": (c_int, [c_void_p, POINTER(Shape)]),
    "kv_check": (c_int, [c_void_p, REPORT, c_void_p]),
    "kv_checkpoint": (c_int, [c_void_p, c_char_p, POINTER(FormatOptions)]),
    "kv_live_stats": (c_int, [c_char_p, POINTER(Stats)]),
    "kv_live_checkpoint": (c_int, [c_char_p, c_char_p]),
}


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(os.environ.get("SHINGLE_KV_LIBRARY", "libshingle-kv.so.1"))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


lib = _load()
