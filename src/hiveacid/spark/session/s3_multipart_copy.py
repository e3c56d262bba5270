"""Copies inside S3: a new object of parts of another one and a new end, by the AWS SDK of Spark's S3A connector.

Only the end passes through the driver. Arrow's client can copy whole objects only.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from py4j.protocol import Py4JError

from hiveacid.storage.paths import parse_uri, spark_path

_LOG = logging.getLogger(__name__)
_SMALLEST_PART = 5 << 20
"""Bytes that S3 requires of every part but the last; a smaller file is written by the driver."""
_COPIED_AT_ONCE = 1 << 30  # bytes; S3 allows 5 GB


@dataclass(frozen=True)
class PartCopier:
    """`storage.arrow_file_system.Copier` for S3. ``conf``: Hadoop's configuration of the session.

    S3A gives its client since Hadoop 3.4. If anything fails, the upload is aborted and the driver copies the file.
    """

    jvm: Any
    conf: Any

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

    def _client(self, path: str) -> Any:
        files = self.jvm.org.apache.hadoop.fs.Path(spark_path(path)).getFileSystem(self.conf)
        return files.getS3AInternals().getAmazonS3Client("hiveacid")


def part_ranges(length: int) -> list[tuple[int, int]]:
    """Divide the first ``length`` bytes into parts that S3 copies at once: first and last byte of each."""
    count = -(-length // _COPIED_AT_ONCE)
    bounds = [length * index // count for index in range(count + 1)]
    return [(first, after - 1) for first, after in pairwise(bounds)]


@dataclass(frozen=True)
class _Upload:
    jvm: Any
    client: Any
    source: tuple[str, str]
    target: tuple[str, str]
    upload_id: str

    @classmethod
    def begin(cls, jvm: Any, client: Any, source: str, target: str) -> _Upload:
        (bucket, key), model = _bucket_and_key(target), jvm.software.amazon.awssdk.services.s3.model
        request = model.CreateMultipartUploadRequest.builder().bucket(bucket).key(key).build()
        upload_id = client.createMultipartUpload(request).uploadId()
        return cls(jvm, client, _bucket_and_key(source), (bucket, key), upload_id)

    @property
    def _model(self) -> Any:
        return self.jvm.software.amazon.awssdk.services.s3.model

    def finish(self, start: int, tail: bytes) -> None:
        ranges = part_ranges(start)
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

    def _of_target(self, kind: Any) -> Any:
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
