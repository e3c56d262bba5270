"""File systems other than local disks, opened with the Spark session's settings for them.

Arrow needs a native library for HDFS, which is part of neither pyarrow nor PySpark. The JVM opens
HDFS instead, without such a library and with the session's credentials (Kerberos, delegation tokens).

Arrow's client of S3 can copy whole objects only. `PartCopier` makes a new object of parts of another one and a new end, by the
AWS SDK of Spark's S3A connector; only the end passes through the driver.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from types import TracebackType
from typing import Self

from py4j.java_gateway import JavaClass, JavaObject, JVMView
from py4j.protocol import Py4JError, Py4JJavaError
from pyarrow.fs import FileInfo, FileSelector, FileType

from hiveacid.errors import StorageError
from hiveacid.orc.wire_format import ProtobufMessage
from hiveacid.ports.file_system import FileSystem
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import JavaPackages
from hiveacid.storage.arrow_file_system import ArrowFileSystem
from hiveacid.storage.file_system_routing import open_arrow, path_only
from hiveacid.storage.paths import KNOWN, OBJECT_STORES, S3, StorageUri, parse_uri, spark_path

_MISSING = ("java.io.FileNotFoundException", "java.nio.file.NoSuchFileException")
_SECRETS = (".key", ".token")
_LISTED_AT_ONCE = 1000  # directories
_DIRECTORY = 1  # of FileStatusProto.FileType
_SCHEMES_OPENED_BY_JVM = KNOWN - OBJECT_STORES
"""Schemes that the JVM opens, because Arrow would need native libraries that are rarely installed."""
_LOG = logging.getLogger(__name__)
_SMALLEST_PART = 5 << 20
"""Bytes that S3 requires of every part but the last; a smaller file is written by the driver."""
_COPIED_AT_ONCE = 1 << 30  # bytes; S3 allows 5 GB


@dataclass(frozen=True)
class SessionFileSystems:
    """Opens a storage URI by the ``fs.…`` settings of the session; settings of the connection win over them.

    Values are looked up when a URI is opened, and are neither stored nor logged.
    """

    env: SparkEnvironment
    connection_settings: Mapping[str, str] = field(repr=False)

    def __call__(self, place: StorageUri) -> FileSystem:
        """Open the file system of a URI. Raises UnsupportedFeatureError, StorageError."""
        if place.scheme in _SCHEMES_OPENED_BY_JVM:
            return open_hadoop(self.env.spark._jvm, self._hadoop, place)  # noqa: SLF001
        opened = open_arrow(place, self.lookup)
        if place.scheme in S3:
            return replace(opened, copier=PartCopier(self.env.spark._jvm, self._hadoop))  # noqa: SLF001
        return opened

    def lookup(self, name: str) -> str | None:
        """Return the value of a Hadoop setting (``fs.s3a.endpoint``), None if it is not set."""
        if name in self.connection_settings:
            return self.connection_settings[name]
        if name.endswith(_SECRETS):
            secret = self._hadoop.getPassword(name)  # may come from a credential provider
            return None if secret is None else "".join(secret)
        setting: str | None = self._hadoop.get(name)
        return setting

    @cached_property
    def _hadoop(self) -> JavaObject:
        """Hadoop's configuration of the session, as its own readers and writers get it."""
        session = self.env.spark
        return session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001


def open_hadoop(jvm: JVMView, conf: JavaObject, place: StorageUri) -> ArrowFileSystem:
    """Open the file system of a URI with Hadoop's configuration. Raises StorageError."""
    try:
        with _as_os_errors(str(place)):
            opened = jvm.org.apache.hadoop.fs.Path(f"{place}/").getFileSystem(conf)
    except OSError as error:
        raise StorageError(f"cannot open {place.scheme}://{place.authority}: {error.strerror}") from error
    packages = JavaPackages(jvm._gateway_client)  # noqa: SLF001 - `jvm` itself would ask Java about each part of a name
    return ArrowFileSystem(HadoopFileSystem(packages, opened), path_only, renames=True)


@dataclass(frozen=True)
class HadoopFileSystem:
    """File system of Hadoop, through the JVM, with the methods of ``pyarrow.fs.FileSystem`` that `storage.arrow_file_system` calls.

    Paths are those of the file system itself, without scheme and host. A listing costs some ten calls into the JVM for
    each level of directories, and one request to the name node for each directory.
    """

    jvm: JVMView
    fs: JavaObject

    def get_file_info(self, what: str | FileSelector) -> FileInfo | list[FileInfo]:
        """Return the entry at a path, or all entries of a selector. Raises FileNotFoundError for a missing path."""
        if isinstance(what, str):
            return self._info_of(what)
        if self._info_of(what.base_dir).type != FileType.Directory:
            raise FileNotFoundError(errno.ENOENT, "not a directory", what.base_dir)
        found = list(self._list([what.base_dir.rstrip("/")]))
        level = _directories(found) if what.recursive else []
        while level:
            inside = list(self._entries_of(level))
            found += inside
            level = _directories(inside)
        return found

    def _info_of(self, path: str) -> FileInfo:
        try:
            with _as_os_errors(path):
                return _file_info(path, self.fs.getFileStatus(self._path(path)))
        except FileNotFoundError:
            return FileInfo(path, FileType.NotFound)

    def _entries_of(self, folders: Sequence[str]) -> Iterator[FileInfo]:
        """Yield the entries of directories, which the JVM lists in one call."""
        for start in range(0, len(folders), _LISTED_AT_ONCE):
            some = folders[start : start + _LISTED_AT_ONCE]
            try:
                yield from self._list(some)
            except FileNotFoundError:  # a cleaner may be at work
                for folder in some if len(some) > 1 else ():
                    yield from self._entries_of([folder])

    def _list(self, folders: Sequence[str]) -> Iterator[FileInfo]:
        with _as_os_errors(folders[0]):
            texts = self.jvm.java.util.regex.Pattern.compile("\0").split(
                "\0".join(one or "/" for one in folders)
            )
            statuses = self.fs.listStatus(self.jvm.org.apache.hadoop.util.StringUtils.stringToPath(texts))
            buffer = self.jvm.org.apache.hadoop.io.DataOutputBuffer()
            self.jvm.org.apache.hadoop.io.ObjectWritable(statuses).write(buffer)
            data = bytes(buffer.getData())
        return map(_parse_status, _written_statuses(data))

    def create_dir(self, path: str, *, recursive: bool) -> None:  # noqa: ARG002 - as Arrow's
        """Create a directory and its parents."""
        with _as_os_errors(path):
            self.fs.mkdirs(self._path(path))

    def delete_file(self, path: str) -> None:
        """Delete a file, or a directory with all it holds."""
        with _as_os_errors(path):
            if not self.fs.delete(self._path(path), True):  # noqa: FBT003 - Java
                raise FileNotFoundError(errno.ENOENT, "not there", path)

    delete_dir = delete_file

    def move(self, source: str, target: str) -> None:
        """Rename a file or directory. Raises OSError if Hadoop refuses, for example for a missing source.

        The target must not exist: HDFS would move the source into an existing directory.
        """
        with _as_os_errors(source):
            if not self.fs.rename(self._path(source), self._path(target)):
                raise OSError(errno.EEXIST, f"Hadoop renames nothing to {target}", source)

    def open_input_file(self, path: str) -> _Input:
        """Open a file to read ranges of it."""
        with _as_os_errors(path):
            size = self.fs.getFileStatus(self._path(path)).getLen()
            return _Input(path, self.fs.open(self._path(path)), self.jvm, int(size))

    def open_output_stream(self, path: str) -> _Output:
        """Create or replace a file."""
        with _as_os_errors(path):
            return _Output(path, self.fs.create(self._path(path), True))  # noqa: FBT003 - Java

    def open_append_stream(self, path: str) -> _Output:
        """Open a file to append to it. Raises OSError if the file system cannot append."""
        with _as_os_errors(path):
            return _Output(path, self.fs.append(self._path(path)))

    def _path(self, path: str) -> JavaObject:
        return self.jvm.org.apache.hadoop.fs.Path(path)


@dataclass
class _Stream:
    path: str
    stream: JavaObject

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        with _as_os_errors(self.path):
            self.stream.close()


@dataclass
class _Input(_Stream):
    jvm: JVMView
    length: int

    def size(self) -> int:
        return self.length

    def seek(self, position: int) -> None:
        with _as_os_errors(self.path):
            self.stream.seek(position)

    def read(self, length: int) -> bytes:
        with _as_os_errors(self.path):
            data: bytes = self.jvm.org.apache.commons.io.IOUtils.toByteArray(self.stream, length)
            return bytes(data)


class _Output(_Stream):
    def write(self, data: bytes) -> None:
        with _as_os_errors(self.path):
            self.stream.write(bytearray(data))


def _file_info(path: str, status: JavaObject) -> FileInfo:
    changed = status.getModificationTime() * 1_000_000
    if status.isDirectory():
        return FileInfo(path, FileType.Directory, mtime_ns=changed)
    return FileInfo(path, FileType.File, size=status.getLen(), mtime_ns=changed)


def _directories(entries: Iterable[FileInfo]) -> list[str]:
    return [entry.path for entry in entries if entry.type == FileType.Directory]


def _written_statuses(data: bytes) -> Iterator[bytes]:
    """Yield the statuses that Hadoop's ``ObjectWritable`` of an array wrote.

    The array begins with the name of its class and the number of its entries, each entry with two names of classes and
    its length in bytes.
    """

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], "big")

    at = 2 + number(0, 2)
    count, at = number(at, 4), at + 4
    for _ in range(count):
        for _name in range(2):
            at += 2 + number(at, 2)
        length, at = number(at, 4), at + 4
        yield data[at : at + length]
        at += length


def _parse_status(data: bytes) -> FileInfo:
    """Return an entry from Hadoop's ``FileStatusProto``."""
    status = ProtobufMessage.parse(data)
    path = parse_uri(status.text(2) or "").path
    times = (status.integer(7) or 0) * 1_000_000
    if status.integer(1) == _DIRECTORY:
        return FileInfo(path, FileType.Directory, mtime_ns=times)
    return FileInfo(path, FileType.File, size=status.integer(3) or 0, mtime_ns=times)


@contextmanager
def _as_os_errors(path: str) -> Iterator[None]:
    """Raise OSError, with the first line of the message, for Java's errors."""
    try:
        yield
    except Py4JJavaError as error:
        java = error.java_exception
        name = java.getClass().getName()
        message = str(java.getMessage() or name).partition("\n")[0]
        if name in _MISSING:
            raise FileNotFoundError(errno.ENOENT, message, path) from error
        raise OSError(errno.EIO, message, path) from error


@dataclass(frozen=True)
class PartCopier:
    """`storage.arrow_file_system.Copier` for S3. ``conf``: Hadoop's configuration of the session.

    S3A gives its client since Hadoop 3.4. If anything fails, the upload is aborted and the driver copies the file.
    """

    jvm: JVMView
    conf: JavaObject

    def __call__(self, source: str, target: str, start: int, tail: bytes) -> bool:
        """Make the object; tell whether it was made."""
        if start < _SMALLEST_PART:
            return False
        try:
            upload = _Upload.begin(self.jvm, self._client(target), source, target)
        except (Py4JError, TypeError) as error:  # TypeError: Py4J lacks the class
            _LOG.info("S3 copies no parts of %s: %s", source, error)
            return False
        try:
            upload.finish(start, tail)
        except Py4JError as error:
            _LOG.warning("S3 did not copy parts of %s, the driver does: %s", source, error)
            with suppress(Py4JError):
                upload.abort()
            return False
        return True

    def _client(self, path: str) -> JavaObject:
        files = self.jvm.org.apache.hadoop.fs.Path(spark_path(path)).getFileSystem(self.conf)
        return files.getS3AInternals().getAmazonS3Client("hiveacid")


@dataclass(frozen=True)
class _Upload:
    jvm: JVMView
    client: JavaObject
    source: tuple[str, str]
    target: tuple[str, str]
    upload_id: str

    @classmethod
    def begin(cls, jvm: JVMView, client: JavaObject, source: str, target: str) -> _Upload:
        (bucket, key), model = _bucket_and_key(target), jvm.software.amazon.awssdk.services.s3.model
        request = model.CreateMultipartUploadRequest.builder().bucket(bucket).key(key).build()
        upload_id = client.createMultipartUpload(request).uploadId()
        return cls(jvm, client, _bucket_and_key(source), (bucket, key), upload_id)

    @property
    def _model(self) -> JavaObject:
        return self.jvm.software.amazon.awssdk.services.s3.model

    def finish(self, start: int, tail: bytes) -> None:
        count = -(-start // _COPIED_AT_ONCE)
        bounds = [start * index // count for index in range(count + 1)]
        ranges = [(first, after - 1) for first, after in pairwise(bounds)]
        tags = [self._copy(number, *part) for number, part in enumerate(ranges, start=1)]
        tags.append(self._send(len(ranges) + 1, tail))
        parts = self.jvm.java.util.ArrayList()
        for number, tag in enumerate(tags, start=1):
            parts.add(self._model.CompletedPart.builder().partNumber(number).eTag(tag).build())
        whole = self._model.CompletedMultipartUpload.builder().parts(parts).build()
        request = self._of_target(self._model.CompleteMultipartUploadRequest).multipartUpload(whole)
        self.client.completeMultipartUpload(request.build())

    def abort(self) -> None:
        self.client.abortMultipartUpload(self._of_target(self._model.AbortMultipartUploadRequest).build())

    def _of_target(self, kind: JavaClass) -> JavaObject:
        bucket, key = self.target
        return kind.builder().bucket(bucket).key(key).uploadId(self.upload_id)

    def _copy(self, number: int, first: int, last: int) -> str:
        (bucket, key), (from_bucket, from_key) = self.target, self.source
        request = self._model.UploadPartCopyRequest.builder().sourceBucket(from_bucket).sourceKey(from_key)
        request = request.destinationBucket(bucket).destinationKey(key).uploadId(self.upload_id)
        request = request.partNumber(number).copySourceRange(f"bytes={first}-{last}")
        tag: str = self.client.uploadPartCopy(request.build()).copyPartResult().eTag()
        return tag

    def _send(self, number: int, data: bytes) -> str:
        request = self._of_target(self._model.UploadPartRequest).partNumber(number).build()
        body = self.jvm.software.amazon.awssdk.core.sync.RequestBody.fromBytes(bytearray(data))
        tag: str = self.client.uploadPart(request, body).eTag()
        return tag


def _bucket_and_key(path: str) -> tuple[str, str]:
    uri = parse_uri(path)
    return uri.authority, uri.path.lstrip("/")
