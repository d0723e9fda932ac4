# SPDX-License-Identifier: GPL-2.0
"""The common way in which these programs write a file that the user names.

A regular file is replaced as a whole: it has either its old or its new content, its mode and its
owner stay, and a link keeps pointing to it.  Any other writable file, such as a pipe, a terminal or
/dev/null, is opened and written to, and keeps its type.  A block device is refused.
"""

import contextlib
import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

StrPath = str | os.PathLike[str]


def _descriptor(path: StrPath) -> int | None:
    """Return the descriptor of this process that @path leads to, as /dev/stdout does, or None.  The
    file behind it is already open, so replacing that file would not reach its reader."""
    path, seen = os.path.abspath(path), set[str]()
    while path not in seen:
        seen.add(path)
        found = re.fullmatch(r"/(?:dev|proc/(?:self|thread-self|\d+))/fd/(\d+)", path)
        if found:
            return int(found[1])
        if not os.path.islink(path):
            return None
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
    return None


def _status(path: StrPath) -> os.stat_result | None:
    """Return the result of stat(), or None if there is no such file.  OSError if it cannot be an
    output."""
    try:
        st = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISBLK(st.st_mode):
        raise OSError(errno.ENOTSUP, "it is a block device, which is not overwritten by a file",
                      str(path))
    if stat.S_ISDIR(st.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return st


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class _Output:
    """One file of whole(); part is the name to write to."""

    def __init__(self, path: StrPath):
        self.path = Path(path)
        self.before, self.descriptor = _status(path), _descriptor(path)
        self.replaced = self.descriptor is None and \
            (not self.before or stat.S_ISREG(self.before.st_mode))
        self.target = Path(os.path.realpath(path))
        # Never a name that exists: it may be a file of the user, or a link.
        try:
            handle, name = tempfile.mkstemp(prefix=".shingle-output.",
                                            dir=self.target.parent if self.replaced else None)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        if self.replaced and not self.before:
            os.fchmod(handle, 0o666 & ~_umask())
        os.close(handle)
        self.part = Path(name)

    def finish(self) -> None:
        """Move the part to its place, or copy it into a file that is not regular."""
        if not self.replaced:
            into = self.path if self.descriptor is None else os.dup(self.descriptor)
            with self.part.open("rb") as have, open(into, "wb") as stream:
                shutil.copyfileobj(have, stream)
            return
        with self.part.open("rb+") as part:
            if self.before:
                # The owner first: changing it clears bits of the mode.
                with contextlib.suppress(PermissionError):
                    os.fchown(part.fileno(), self.before.st_uid, self.before.st_gid)
                os.fchmod(part.fileno(), stat.S_IMODE(self.before.st_mode))
            os.fsync(part.fileno())
        os.replace(self.part, self.target)


@contextlib.contextmanager
def whole(*paths: StrPath) -> Iterator[list[Path]]:
    """Yields a name to write to for each of @paths.

    At the end each regular file takes the place of its path, in their order.  If not all could be
    written, for example because the disk is full, @paths stay as they were.  OSError names the path;
    a block device and a directory are refused before anything is written."""
    outputs = []
    try:
        for path in paths:
            outputs.append(_Output(path))
        yield [o.part for o in outputs]
        for o in outputs:
            o.finish()
    except OSError as error:
        if not error.filename or not any(o.replaced for o in outputs):
            error.filename = str(paths[-1])
        raise
    finally:
        for o in outputs:
            o.part.unlink(missing_ok=True)


def check(path: StrPath) -> None:
    """Raise OSError if @path cannot be an output, for programs that compute for hours first."""
    _Output(path).part.unlink(missing_ok=True)


def store(path: StrPath, text: str, errors: str = "strict") -> StrPath:
    """Write @text as the whole content of @path, in UTF-8.  Return: @path."""
    with whole(path) as (part,):
        part.write_text(text, encoding="utf-8", errors=errors)
    return path
