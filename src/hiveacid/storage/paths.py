# ruff: noqa: PTH100, PTH111, PTH114 - texts, as in storage/local_file_system.py
"""Local paths and URIs of other file systems, each in one normal form."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass

from hiveacid.errors import StorageError, UnsupportedFeatureError
from hiveacid.storage.local_file_system import local_path

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_FILE = re.compile(r"file:", re.IGNORECASE)
S3 = frozenset({"s3", "s3a", "s3n"})
"""Three schemes of one store; Hadoop's current connector is s3a."""
OBJECT_STORES = S3 | {"gs", "abfs", "abfss"}
KNOWN = OBJECT_STORES | {"hdfs", "viewfs", "webhdfs", "swebhdfs", "o3fs", "ofs"}


@dataclass(frozen=True)
class StorageUri:
    """Parts of a URI: ``s3a://bucket/wh/t`` is s3a, bucket, ``/wh/t`` (without a trailing slash)."""

    scheme: str
    authority: str
    path: str

    def __str__(self) -> str:
        """Return the URI."""
        return f"{self.scheme}://{self.authority}{self.path}"


def is_local(path: str) -> bool:
    """Tell whether a path or URI is in this machine's file tree; it may still be on a network mount."""
    return path.startswith("/") or bool(_FILE.match(path)) or not _SCHEME.match(path)


def parse_uri(path: str) -> StorageUri:
    """Return the parts of a URI, normalised but not decoded. Raises StorageError if a part is missing."""
    found = _SCHEME.match(path)
    if found is None:
        raise StorageError(f"not a URI: {path}")
    authority, _, rest = path[found.end() :].partition("/")
    scheme = found[1].lower()
    if not authority and scheme not in ("hdfs", "viewfs"):
        raise StorageError(
            f"{path} has no {'bucket' if scheme in S3 | {'gs'} else 'host'}: write {scheme}://NAME/…"
        )
    return StorageUri(scheme, authority, posixpath.normpath(f"/{rest}").replace("//", "/").rstrip("/"))


def absolute(path: str) -> str:
    """Return a user's path (relative to the working directory, or a URI) in its normal form.

    Local paths become plain absolute paths. Raises UnsupportedFeatureError for unknown schemes, StorageError for hosts in
    ``file:`` URIs.
    """
    if is_local(path):
        return local_path(path if _FILE.match(path) else os.path.abspath(os.path.expanduser(path)))
    uri = parse_uri(path)
    if uri.scheme not in KNOWN:
        raise UnsupportedFeatureError(
            f"{path}: the file system {uri.scheme}:// is not supported; use a local path or "
            + ", ".join(f"{scheme}://" for scheme in sorted(KNOWN))
        )
    return str(uri)


def real_path(path: str) -> str:
    """Return a path with every symbolic link resolved, so that a directory has only one path."""
    if is_local(path):
        return os.path.realpath(local_path(path))
    uri = parse_uri(path)
    return str(StorageUri("s3a", uri.authority, uri.path) if uri.scheme in S3 else uri)


def real_paths() -> Callable[[str], str]:
    """Return `real_path` for many paths at one moment: each directory above them is resolved once."""
    folders: dict[str, str] = {}

    def resolve(path: str) -> str:
        folder, _, name = local_path(path).rstrip("/").rpartition("/") if is_local(path) else ("", "", "")
        if not folder or not name:
            return real_path(path)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        plain = f"{folders[folder].rstrip('/')}/{name}"
        return os.path.realpath(plain) if os.path.islink(plain) else plain

    return resolve


def spark_path(path: str) -> str:
    """Return a path as Hadoop's ``Path`` takes it: with its scheme, nothing URL-encoded; S3 is always ``s3a``.

    Spark reads ``*?[]{}`` in it as patterns.
    """
    return f"file://{local_path(path)}" if is_local(path) else real_path(path)
