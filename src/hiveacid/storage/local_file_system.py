# ruff: noqa: PTH102, PTH104, PTH105, PTH106, PTH108, PTH110, PTH112, PTH114, PTH116, PTH120, PTH123
# Paths are strings for direct system calls: pathlib would add objects and hide errors.
"""Local disks behind the storage port: durable writes, errors with their path, no stale checksum files.

Hadoop's local file system keeps a checksum file ``.NAME.crc`` beside a file and refuses to read the file if they differ.
Every method that changes or moves a file therefore removes its checksum file.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from hiveacid.core.snapshot.directory_listing import FileEntry, ancestors, is_as_listed
from hiveacid.errors import MissingDirectoryError, StorageError
from hiveacid.ports.file_system import FileVersion

_Result = TypeVar("_Result")
_FILE_URI = re.compile(r"file:(?://(?:localhost)?(?=/[^/]|/$))?", re.IGNORECASE)
_NO_LINKS = frozenset({errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
_NO_TARGET = frozenset({errno.ENOENT, errno.ELOOP})
"""Errors of a broken link, and of a link to itself; Hadoop skips both as well."""
_ATTEMPTS = 5
_CLAIM = ".hiveacid-claim"
_MAX_PATHS = 16
_BLOCK = 1 << 20  # bytes read at a time


@dataclass(frozen=True)
class LocalFileSystem:
    """``ports.file_system.FileSystem`` on local disks.

    Paths are absolute, plain (``/wh/t``) or with ``file:`` before them. As in Hadoop's ``Path``, nothing is decoded:
    ``%41`` is three characters of a name, in both forms. ``durable``: call ``fsync`` for files and directories before a
    method returns. OSError becomes StorageError with the path.
    """

    durable: bool = True

    def list_tree(self, root: str) -> tuple[FileEntry, ...]:
        """List everything below ``root``, sorted by path.

        Entries that disappear meanwhile (a cleaner may be running) are left out. Raises MissingDirectoryError if ``root``
        is not a directory, StorageError if symbolic links reach one directory by too many paths.
        """
        top = local_path(root)
        entries: list[FileEntry] = []
        todo = [""]
        directories = _Directories(root)
        with _storage_errors("list", root):
            while todo:
                prefix = todo.pop()
                try:
                    self._list(top, prefix, entries, todo, directories)
                except (FileNotFoundError, NotADirectoryError) as error:
                    if not prefix:
                        raise MissingDirectoryError("the directory is not there", path=root) from error
        entries.sort(key=lambda entry: entry.path)
        return tuple(entries)

    def list_directory(self, root: str) -> tuple[FileEntry, ...]:
        """List one directory, sorted by path. Raises MissingDirectoryError if ``root`` is not a directory."""
        entries: list[FileEntry] = []
        with _storage_errors("list", root):
            try:
                self._list(local_path(root), "", entries, [], _Directories(root))
            except (FileNotFoundError, NotADirectoryError) as error:
                raise MissingDirectoryError("the directory is not there", path=root) from error
        return tuple(sorted(entries, key=lambda entry: entry.path))

    def _list(
        self, top: str, prefix: str, entries: list[FileEntry], todo: list[str], directories: _Directories
    ) -> None:
        with os.scandir(f"{top}/{prefix}") as found:
            for item in found:
                path, is_link = prefix + item.name, item.is_symlink()
                try:
                    is_dir, status = item.is_dir(), item.stat()
                except OSError as error:
                    if error.errno in _NO_TARGET:
                        continue
                    raise
                if not is_dir:
                    special = not stat.S_ISREG(status.st_mode)
                    entries.append(FileEntry(path, is_dir, status.st_size, _milliseconds(status), special))
                elif not (is_link and _leads_upwards(item.path)):
                    entries.append(FileEntry(path, is_dir, modified=_milliseconds(status)))
                    todo.append(path + "/")
                    directories.add(prefix, path, status, is_link=is_link)

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory is there."""
        with _storage_errors("look at", path):
            try:
                os.stat(local_path(path))
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; an existing one is not an error."""
        with _storage_errors("create the directory", path):
            self._make(local_path(path))

    def _make(self, path: str) -> None:
        try:
            self._make_single(path)
        except FileNotFoundError:
            self._make(os.path.dirname(path))
            # only once: /proc reports FileNotFoundError also for directories that cannot be made
            self._make_single(path)

    def _make_single(self, path: str) -> bool:
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
            return False
        self._sync_directory(os.path.dirname(path))
        return True

    def claim_directory(self, path: str, staging: str | None = None) -> bool:
        """Create a directory and its parents; return False if the directory is there already."""
        target = local_path(path)
        with _storage_errors("create the directory", path):
            self._make(os.path.dirname(target))
            if staging is None:
                return self._make_single(target)
            return self._claim_from(local_path(staging), target)

    def _claim_from(self, staging: str, target: str) -> bool:
        """Move a new directory to its place; a file in it keeps a second caller from replacing it."""
        prepared = f"{staging}/{secrets.token_hex(8)}"
        os.mkdir(prepared)  # not its parents: they are gone with the table
        mark = f"{prepared}/{_CLAIM}"
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        try:
            if os.path.lexists(target):
                return False
            os.rename(prepared, target)
        except OSError as error:
            if error.errno == errno.EXDEV:
                return self._make_single(target)
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                return False
            raise
        os.unlink(f"{target}/{_CLAIM}")
        self._sync_directory(os.path.dirname(target))
        return True

    def read_bytes(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Read a range of a file, fewer bytes if it ends earlier (negative ``start``: counted from its end)."""
        # Without a file object: a plan reads the ends of a hundred thousand files.
        with _storage_errors("read", path):
            descriptor = os.open(local_path(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                status = os.fstat(descriptor)
                _require_regular(status, path)
                start = max(0, status.st_size + start) if start < 0 else start
                left = max(0, status.st_size - start)
                left = left if length is None else min(left, length)
                data = os.pread(descriptor, left, start)
                while 0 < len(data) < left and (
                    more := os.pread(descriptor, left - len(data), start + len(data))
                ):
                    data += more
                return data
            finally:
                os.close(descriptor)

    def write_bytes(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Create or replace a small file; readers see either the old or the new content."""
        self.write_pieces(path, (data,), durable=durable)

    def write_pieces(self, path: str, pieces: Iterable[bytes], *, durable: bool = True) -> None:
        """Create or replace a file from successive pieces; it appears after the last one."""
        pieces = iter(pieces)
        first = next(pieces, b"")  # before a directory is made: its source may be gone
        target = local_path(path)
        with _storage_errors("write", path):
            self._make(os.path.dirname(target))
            with self._hidden_beside(target) as scratch:
                with open(scratch, "xb") as file:
                    file.write(first)
                    file.writelines(pieces)
                    file.flush()
                    if durable:
                        self._sync(file.fileno())
                os.replace(scratch, target)
            _forget_checksum(target)
            if durable:
                self._sync_directory(os.path.dirname(target))

    def replace_tail(self, path: str, start: int, tail: bytes) -> None:
        """Overwrite a file from byte ``start`` on and cut it there. Not atomic, and `move_file` syncs it: for staged files."""
        target = local_path(path)
        with _storage_errors("rewrite", path), open(target, "r+b", opener=_open_regular) as file:
            if start > os.fstat(file.fileno()).st_size:
                raise StorageError(f"cannot rewrite {path}: it ends before byte {start}")
            _forget_checksum(target)
            file.seek(start)
            file.write(tail)
            file.truncate()

    def finish_file(self, source: str, target: str, start: int, tail: bytes) -> int:
        """See `ports.file_system.FileSystem`."""
        self.replace_tail(source, start, tail)
        self.move_file(source, target)
        return start + len(tail)

    def move_file(self, source: str, target: str) -> None:
        """Move a file to its final name; missing parent directories are created. An existing target is a StorageError."""
        old, new = local_path(source), local_path(target)
        with _storage_errors(f"move {source} to", target):
            with open(old, "rb", opener=_open_regular) as file:
                self._sync(file.fileno())
            _forget_checksum(old)
            self._with_parents(old, new, self._move_unless_taken)
            _forget_checksum(new)
            self._sync_directory(os.path.dirname(new))

    def renames_directories(self, path: str) -> bool:  # noqa: ARG002 - the same everywhere
        """Return True: a rename is one step."""
        return True

    def replaces_tail_in_place(self, path: str) -> bool:  # noqa: ARG002 - the same everywhere
        """Return True: local files can be overwritten in part."""
        return True

    def move_directory(self, source: str, target: str) -> None:
        """Rename a directory; missing parent directories are created. An existing target is a StorageError."""
        old, new = local_path(source), local_path(target)
        with _storage_errors(f"move {source} to", target):
            if os.path.lexists(new):  # a rename would replace an empty directory
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
            self._with_parents(old, new, os.rename)
            self._sync_directory(os.path.dirname(new))
            self._sync_directory(os.path.dirname(old))

    def _with_parents(self, old: str, new: str, step: Callable[[str, str], _Result]) -> _Result:
        """Take a file or directory to its place, whose parents are made if they are missing and the source is not.

        What a paused writer has staged goes before its directories do, so it makes none in a table made again.
        """
        try:
            return step(old, new)
        except FileNotFoundError:
            if not os.path.exists(old):
                raise
            self._make(os.path.dirname(new))
            return step(old, new)

    def _move_unless_taken(self, old: str, new: str) -> None:
        """Rename a file unless the new name exists. A hard link fails in that case, a rename would replace the file."""
        try:
            os.link(old, new)
        except OSError as error:
            if error.errno == errno.EXDEV:
                self._copy(old, new)
            elif error.errno in _NO_LINKS and not os.path.lexists(new):
                os.rename(old, new)
                return
            else:
                raise
        os.unlink(old)

    def _copy(self, old: str, new: str, length: int | None = None) -> FileVersion:
        """Copy bytes under a hidden name, and rename the complete copy. Returns the version of the copied file."""
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
        with self._hidden_beside(new) as scratch:
            with open(old, "rb", opener=_open_regular) as source, open(scratch, "xb") as target:
                status = os.fstat(source.fileno())
                left = status.st_size if length is None else length
                while left > 0 and (block := source.read(min(left, _BLOCK))):
                    left -= target.write(block)
                target.flush()
                self._sync(target.fileno())
            os.rename(scratch, new)
        return _version(status)

    def copy_file(self, source: str, target: str, length: int | None = None) -> None:
        """Copy a file, or its first ``length`` bytes; missing parent directories are created.

        An existing target is a StorageError.
        """
        old, new = local_path(source), local_path(target)
        with _storage_errors(f"copy {source} to", target):
            self._with_parents(old, new, partial(self._copy, length=length))
            self._sync_directory(os.path.dirname(new))

    def link_file(self, source: str, target: str, version: FileVersion | None = None) -> FileVersion:
        """Give a file a second name, or copy it to another disk; missing parent directories are created."""
        old, new = local_path(source), local_path(target)
        with _storage_errors(f"link {source} to", target):
            found = self._with_parents(old, new, self._link)
            try:
                require_version(source, found, version)
            except StorageError:
                os.unlink(new)
                with suppress(OSError):  # files of others
                    os.rmdir(os.path.dirname(new))
                raise
            self._sync_directory(os.path.dirname(new))
            return found

    def _link(self, old: str, new: str) -> FileVersion:
        try:
            os.link(os.path.realpath(old), new)
            return _version(os.stat(new))  # not of the old name, which may name another file by now
        except OSError as error:
            if error.errno != errno.EXDEV and error.errno not in _NO_LINKS:
                raise
            return self._copy(old, new)

    def file_version(self, path: str) -> FileVersion | None:
        """Return device, inode, size and time of change of a file; of a symbolic link those of its target."""
        with _storage_errors("look at", path):
            try:
                status = os.stat(local_path(path))
            except (FileNotFoundError, NotADirectoryError):
                return None
        return _version(status) if stat.S_ISREG(status.st_mode) else None

    def delete_tree(self, path: str) -> None:
        """Delete a file or directory with its contents; of a symbolic link only the link."""
        target = local_path(path)
        with _storage_errors("delete", path):
            for attempt in range(_ATTEMPTS):
                try:
                    _delete(target)
                    break
                except OSError as error:
                    if error.errno == errno.ENAMETOOLONG:
                        return  # such a name cannot be there
                    if not isinstance(error, FileNotFoundError):
                        raise
                    # another process deletes, too: go on with what is left
                    if not os.path.lexists(target):
                        return
                    if attempt == _ATTEMPTS - 1:
                        raise
            with suppress(FileNotFoundError):
                self._sync_directory(os.path.dirname(target))

    def delete_listed(self, root: str, entries: Sequence[FileEntry]) -> tuple[str, ...]:
        """See `ports.file_system.FileSystem`. A file is compared by one system call and deleted by the next."""
        top = local_path(root)
        paths = {entry.path: f"{top}/{entry.path}".rstrip("/") for entry in entries}
        with _storage_errors("delete", root):
            links = {entry.path for entry in entries if entry.is_dir and os.path.islink(paths[entry.path])}
            within = [
                entry for entry in entries if not links or links.isdisjoint(("", *ancestors(entry.path)))
            ]
            within = [entry for entry in entries if entry.path == "" in links] or within
            deleted = {
                entry.path
                for entry in within
                if (not entry.is_dir or entry.path in links) and _delete_as_listed(paths[entry.path], entry)
            }
            directories = [entry.path for entry in within if entry.is_dir and entry.path not in links]
            for path in sorted(directories, reverse=True):  # what lies in a directory sorts behind it
                if _delete_empty(paths[path]):
                    deleted.add(path)
            for folder in {os.path.dirname(paths[path]) for path in deleted}:
                with suppress(FileNotFoundError, NotADirectoryError):
                    self._sync_directory(folder)
        return tuple(sorted({entry.path for entry in within} - deleted))

    def _sync(self, descriptor: int) -> None:
        if self.durable:
            os.fsync(descriptor)

    def _sync_directory(self, path: str) -> None:
        if self.durable:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    @contextmanager
    def _hidden_beside(self, target: str) -> Iterator[str]:
        """Provide the name of a hidden scratch file in the target's directory; it is removed at the end."""
        folder, name = os.path.split(target)
        scratch = f"{folder}/.{name}.{secrets.token_hex(4)}.tmp"
        try:
            yield scratch
        finally:
            with suppress(FileNotFoundError):
                os.unlink(scratch)


@dataclass
class _Directories:
    """Counter of the paths through symbolic links that lead to each directory of a listing.

    A few dozen directories that link to each other have millions of paths, and a listing would follow every one.
    """

    root: str
    behind: set[str] = field(default_factory=set)
    seen: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, prefix: str, path: str, status: os.stat_result, *, is_link: bool) -> None:
        """Count the path of a directory that is a link or lies behind one; ``prefix``: the parent directory."""
        if not is_link and prefix not in self.behind:
            return
        self.behind.add(f"{path}/")
        key = status.st_dev, status.st_ino
        self.seen[key] = self.seen.get(key, 0) + 1
        if self.seen[key] > _MAX_PATHS:
            raise StorageError(
                f"symbolic links lead to the directory {self.root}/{path} by more than {_MAX_PATHS} paths"
            )


def local_path(path: str) -> str:
    """Return the plain absolute path of a path or ``file:`` URI. Raises StorageError for anything else."""
    uri = _FILE_URI.match(path)
    plain = path[uri.end() :] if uri else path
    if not plain.startswith("/") or (uri and plain.startswith("//") and not plain.startswith("///")):
        raise StorageError(f"not an absolute local path or file: URI: {path}")
    if "\0" in plain:  # Python raises ValueError for it
        raise StorageError(f"not an absolute local path or file: URI, because it has a NUL: {path!r}")
    return os.path.normpath("/" + plain.lstrip("/"))


@contextmanager
def _storage_errors(verb: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot {verb} {path}: {error.strerror or error}") from error


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file or directory, as the ``opener`` of `open`. Raises OSError for a pipe, which would block."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    try:
        _require_regular(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(status: os.stat_result, path: str) -> None:
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise OSError(errno.EINVAL, "it is a named pipe, socket or device, not a file", path)


def _delete(target: str) -> None:
    if os.path.isdir(target) and not os.path.islink(target):
        shutil.rmtree(target)
        return
    with suppress(FileNotFoundError):
        os.unlink(target)
    _forget_checksum(target)


def _delete_as_listed(target: str, entry: FileEntry) -> bool:
    """Delete a file, or a link to a directory, unless it has changed since it was listed; tell whether it is gone."""
    try:
        status = os.stat(target)
        is_dir = stat.S_ISDIR(status.st_mode)
        now = entry._replace(is_dir=is_dir, size=status.st_size, modified=_milliseconds(status))
        if not is_as_listed(now, entry) or (is_dir and not os.path.islink(target)):
            return False
        os.unlink(target)
        _forget_checksum(target)
    except (FileNotFoundError, NotADirectoryError):
        pass
    return True


def _delete_empty(target: str) -> bool:
    """Delete an empty directory, or one with only links that listings leave out; tell whether it is gone."""
    for _ in range(2):
        try:
            os.rmdir(target)
        except (FileNotFoundError, NotADirectoryError):
            return not os.path.lexists(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            with os.scandir(target) as found:
                left = [item.path for item in found]
            if not all(
                os.path.islink(path) and (not os.path.exists(path) or _leads_upwards(path)) for path in left
            ):
                return False
            for path in left:
                os.unlink(path)
        else:
            return True
    return False


def _forget_checksum(path: str) -> None:
    folder, name = os.path.split(path)
    with suppress(FileNotFoundError):
        os.unlink(f"{folder}/.{name}.crc")


def _leads_upwards(link: str) -> bool:
    """Tell whether a link points to a directory above itself, so that following it would never end."""
    real = os.path.realpath(link)
    return (os.path.realpath(os.path.dirname(link)) + "/").startswith(real + "/")


def require_version(path: str, found: FileVersion, wanted: FileVersion | None) -> FileVersion:
    """Return the version of a file. Raises StorageError unless it is the wanted one, if there is one."""
    if wanted not in (None, found):
        raise StorageError(
            f"{path} is not the file that it was: another writer has put one in its place, or changed it; the table or "
            "partition may have been dropped and created again"
        )
    return found


def _version(status: os.stat_result) -> FileVersion:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _milliseconds(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1_000_000
