"""Choice of a file system by a path's scheme and host; each is opened once.

S3 and Azure are opened with the Hadoop settings that Spark uses for the same paths. Credentials come from these settings.
Without them, Arrow looks where the stores' own tools look (``AWS_…`` variables, profiles, machine roles, Google's default
credentials). Credentials are never logged.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from itertools import chain
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from hiveacid.errors import StorageError, UnsupportedFeatureError
from hiveacid.ports.file_system import FileSystem, FileVersion
from hiveacid.storage.arrow_file_system import ArrowFileSystem, blocks
from hiveacid.storage.local_file_system import LocalFileSystem, require_version
from hiveacid.storage.paths import OBJECT_STORES, S3, StorageUri, is_local, parse_uri

if TYPE_CHECKING:
    import pyarrow.fs

P = ParamSpec("P")
T = TypeVar("T")
Lookup = Callable[[str], str | None]
"""Returns the value of a Hadoop setting (``fs.s3a.endpoint``), None if it is not set."""
_AMAZON = re.compile(r"\.amazonaws\.com(\.cn)?\Z")
_REGION = re.compile(r"(?:^|[.-])([a-z]{2}(?:-[a-z]{1,20}){1,3}-\d)(?=\.(?:vpce\.)?amazonaws\.com)")
# Hosts that Arrow derives from the region, or cannot use (accelerated hosts accept no bucket in the path).
_DEFAULT_HOSTS = re.compile(
    r"s3(?:[.-][a-z]{2}(?:-[a-z]+)+-\d|-external-1|-accelerate(?:\.dualstack)?)?\.amazonaws\.com(\.cn)?"
)
_ENCRYPTION = ("encryption.algorithm", "server-side-encryption-algorithm")
_DELAYED_OPEN_SINCE = 19
"""First version of Arrow that writes a small object with one request instead of three."""


def from_environment(name: str) -> str | None:
    """Look up a Hadoop setting in the environment: the endpoint only, because Arrow reads the other variables itself."""
    if name != "fs.s3a.endpoint":
        return None
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def open_arrow(uri: StorageUri, lookup: Lookup) -> ArrowFileSystem:
    """Open the file system of a URI. Raises UnsupportedFeatureError, StorageError."""
    try:
        if uri.scheme in S3:
            return ArrowFileSystem(_s3(uri.authority, lookup), bucket_and_key)
        if uri.scheme == "gs":
            from pyarrow.fs import GcsFileSystem  # noqa: PLC0415 - Arrow only when it is needed

            return ArrowFileSystem(GcsFileSystem(), bucket_and_key)
        if uri.scheme in ("abfs", "abfss"):
            from pyarrow.fs import AzureFileSystem  # noqa: PLC0415

            host = uri.authority.rpartition("@")[2]
            key = lookup(f"fs.azure.account.key.{host}")
            return ArrowFileSystem(AzureFileSystem(host.partition(".")[0], account_key=key), bucket_and_key)
        if uri.scheme in ("hdfs", "viewfs"):
            from pyarrow.fs import HadoopFileSystem  # noqa: PLC0415

            host, _, port = uri.authority.partition(":")
            return ArrowFileSystem(
                HadoopFileSystem(host or "default", int(port or 0)), path_only, renames=True
            )
    except ImportError as error:
        raise UnsupportedFeatureError(
            f"{uri}: this pyarrow was built without support for {uri.scheme}://: {error}"
        ) from error
    except OSError as error:
        raise StorageError(f"cannot open {uri.scheme}://{uri.authority}: {error}") from error
    raise UnsupportedFeatureError(
        f"{uri}: without a JVM in this process, a file system {uri.scheme}:// cannot be opened"
    )


def bucket_and_key(path: str) -> str:
    """Return ``bucket/key`` of an object store's URI (Azure: container and path, without the account)."""
    uri = parse_uri(path)
    return f"{uri.authority.partition('@')[0]}{uri.path}"


def path_only(path: str) -> str:
    """Return the path of a URI without scheme and host."""
    return parse_uri(path).path or "/"


def s3_options(bucket: str, lookup: Lookup) -> dict[str, str | bool | None]:
    """Return arguments of ``pyarrow.fs.S3FileSystem`` that follow ``fs.s3a.*`` and ``fs.s3a.bucket.NAME.*``.

    Raises UnsupportedFeatureError for an encryption that Arrow cannot request.
    """

    def get(name: str) -> str:
        return (lookup(f"fs.s3a.bucket.{bucket}.{name}") or lookup(f"fs.s3a.{name}") or "").strip()

    encryption = next((get(name) for name in _ENCRYPTION if get(name)), "")
    if encryption and encryption != "AES256":
        raise UnsupportedFeatureError(
            f"s3a://{bucket}: Arrow cannot request fs.s3a.encryption.algorithm={encryption}; make it the bucket's "
            "default encryption instead, and remove the setting"
        )
    options: dict[str, str | bool | None] = {}
    access, secret = get("access.key"), get("secret.key")
    provider = get("aws.credentials.provider")
    if "Anonymous" in provider:
        options["anonymous"] = True
    elif access and secret:
        options |= {"access_key": access, "secret_key": secret, "session_token": get("session.token") or None}
    elif get("assumed.role.arn") and "AssumedRole" in provider:
        options["role_arn"] = get("assumed.role.arn")
    if get("endpoint.region"):
        options["region"] = get("endpoint.region")
    endpoint = get("endpoint")
    bare = (endpoint.partition("://")[2] or endpoint).rstrip("/")
    host = bare.partition("/")[0].partition(":")[0].lower()
    region = _REGION.search(host)
    if region:
        options.setdefault("region", region[1])
    if endpoint and not _DEFAULT_HOSTS.fullmatch(host):
        insecure = endpoint.startswith("http://") or (
            "://" not in endpoint and get("connection.ssl.enabled").lower() == "false"
        )
        options |= {"endpoint_override": bare, "scheme": "http" if insecure else "https"}
        if not _AMAZON.search(host):
            options.setdefault("region", "us-east-1")
    return options


def _s3(bucket: str, lookup: Lookup) -> pyarrow.fs.FileSystem:
    import pyarrow as pa  # noqa: PLC0415 - Arrow only when it is needed
    from pyarrow import fs  # noqa: PLC0415

    options = s3_options(bucket, lookup)
    if int(pa.__version__.partition(".")[0]) >= _DELAYED_OPEN_SINCE:
        options["allow_delayed_open"] = True
    return fs.S3FileSystem(**options)


Opener = Callable[[StorageUri], FileSystem]


def _of_its_path(
    method: Callable[Concatenate[FileSystem, P], T],
) -> Callable[Concatenate[AnyFileSystem, P], T]:
    """Return the method of `AnyFileSystem` that calls this one of the file system of its first argument."""

    @wraps(method)
    def call(self: AnyFileSystem, /, *args: P.args, **options: P.kwargs) -> T:
        path = str(next(iter((*args, *options.values()))))
        answer: T = getattr(self.at(path), method.__name__)(*args, **options)
        return answer

    return call


@dataclass(frozen=True)
class AnyFileSystem:
    """``ports.file_system.FileSystem`` for every path: local disks, and remote file systems that ``opener`` opens once each."""

    opener: Opener = field(default_factory=lambda: partial(open_arrow, lookup=from_environment))
    local: FileSystem = field(default_factory=LocalFileSystem)
    _opened: dict[tuple[str, str], FileSystem] = field(default_factory=dict, compare=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)

    def at(self, path: str) -> FileSystem:
        """Return the file system of a path. Raises UnsupportedFeatureError, StorageError."""
        if is_local(path):
            return self.local
        uri = parse_uri(path)
        key = uri.scheme, uri.authority
        with self._lock:
            if key not in self._opened:
                self._opened[key] = self.opener(uri)
            return self._opened[key]

    renames_directories = _of_its_path(FileSystem.renames_directories)
    replaces_tail_in_place = _of_its_path(FileSystem.replaces_tail_in_place)
    list_tree = _of_its_path(FileSystem.list_tree)
    list_directory = _of_its_path(FileSystem.list_directory)
    exists = _of_its_path(FileSystem.exists)
    make_directory = _of_its_path(FileSystem.make_directory)
    read_bytes = _of_its_path(FileSystem.read_bytes)
    write_bytes = _of_its_path(FileSystem.write_bytes)
    write_pieces = _of_its_path(FileSystem.write_pieces)
    replace_tail = _of_its_path(FileSystem.replace_tail)
    file_version = _of_its_path(FileSystem.file_version)
    delete_tree = _of_its_path(FileSystem.delete_tree)
    delete_listed = _of_its_path(FileSystem.delete_listed)

    def claim_directory(self, path: str, staging: str | None = None) -> bool:
        """See `ports.file_system.FileSystem`; from another file system nothing is moved."""
        fs = self.at(path)
        return fs.claim_directory(path, staging if staging is not None and self.at(staging) is fs else None)

    def finish_file(self, source: str, target: str, start: int, tail: bytes) -> int:
        """See `ports.file_system.FileSystem`; between two file systems the file is copied through this process."""
        fs, other = self.at(target), self.at(source)
        if other is fs:
            return fs.finish_file(source, target, start, tail)
        fs.write_pieces(target, chain(blocks(other, source, 0, start), [tail]))
        return start + len(tail)

    def move_file(self, source: str, target: str) -> None:
        """See `ports.file_system.FileSystem`; between two file systems the file is copied through this process."""
        fs = self.at(target)
        if self.at(source) is fs:
            fs.move_file(source, target)
            return
        self.copy_file(source, target)
        self.delete_tree(source)

    def copy_file(self, source: str, target: str, length: int | None = None) -> None:
        """See `ports.file_system.FileSystem`."""
        fs, other = self.at(target), self.at(source)
        if other is fs:
            fs.copy_file(source, target, length)
            return
        if fs.exists(target):
            raise StorageError(f"cannot copy {source} to {target}: the target exists")
        size = length if length is not None else size_of(other, source)
        fs.write_pieces(target, blocks(other, source, 0, size))

    def link_file(self, source: str, target: str, version: FileVersion | None = None) -> FileVersion:
        """See `ports.file_system.FileSystem`."""
        fs = self.at(target)
        if self.at(source) is fs:
            return fs.link_file(source, target, version)
        found = require_version(source, self.file_version(source) or (), version)
        self.copy_file(source, target)
        return found

    def move_directory(self, source: str, target: str) -> None:
        """See `ports.file_system.FileSystem`; both paths are in one file system."""
        self.at(target).move_directory(source, target)


@dataclass(frozen=True)
class OpenedBefore:
    """Opener for tasks in other processes: file systems that this one has opened, by scheme and host.

    It can be pickled. The pickle holds the credentials that this process has from settings; no text shows them.
    """

    opened: Mapping[tuple[str, str], ArrowFileSystem] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, fs: FileSystem, paths: Iterable[str]) -> OpenedBefore | None:
        """Return the opener for the files of these paths; None if other processes cannot open them in the same way.

        Those of HDFS cannot: this process opens it by its JVM, and Arrow would begin a JVM in each Python worker.
        """
        opened = {}
        for uri in {replace(parse_uri(path), path="") for path in paths if not is_local(path)}:
            found = fs.at(str(uri)) if isinstance(fs, AnyFileSystem) and uri.scheme in OBJECT_STORES else None
            if not isinstance(found, ArrowFileSystem):
                return None
            opened[uri.scheme, uri.authority] = replace(found, copier=None)
        return cls(opened)

    def __call__(self, uri: StorageUri) -> FileSystem:
        """Return a file system. Raises StorageError for one that was not opened."""
        found = self.opened.get((uri.scheme, uri.authority))
        if found is None:
            raise StorageError(f"this task has no access to {uri.scheme}://{uri.authority}")
        return found


def size_of(fs: FileSystem, path: str) -> int:
    """Return a file's length in bytes. Raises StorageError if it does not exist."""
    folder, _, name = path.rpartition("/")
    found = next((one.size for one in fs.list_directory(folder) if one.path == name and not one.is_dir), None)
    if found is None:
        raise StorageError(f"cannot read {path}: no such file")
    return found
