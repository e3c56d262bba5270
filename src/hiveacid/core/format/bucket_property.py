"""The bucket property: one 32-bit integer that holds codec version, bucket and statement id of a row.

Rules: Hive's ``BucketCodec``. Version 1, all that Hive 3 and later write: 3 bits version,
1 reserved, 12 bits bucket, 4 reserved, 12 bits statement id. Version 0, older data: the bucket alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.errors import BadFileError, ConfigError

MAX_BUCKET = 4095
MAX_STATEMENT_ID = 4095
_BUCKET_SHIFT = 16
_VERSION_SHIFT = 29
_V0_LIMIT = 1 << _VERSION_SHIFT


@dataclass(frozen=True, order=True)
class BucketProperty:
    """Decoded bucket property.

    ``bucket`` is the number in the name of the file that holds the row, and in the name of the delete
    delta's file that holds its delete event. ``statement_id`` is the statement of its transaction.
    """

    version: int
    bucket: int
    statement_id: int = 0

    def encode(self) -> int:
        """Return the 32-bit integer. Raises ConfigError for numbers that do not fit."""
        if self.version == 0:
            if self.statement_id != 0 or not 0 <= self.bucket < _V0_LIMIT:
                msg = f"codec version 0 holds a bucket below 2^29 and no statement id, not {self}"
                raise ConfigError(msg)
            return self.bucket
        if self.version != 1:
            raise ConfigError(f"no such version of the bucket codec: {self.version}")
        if not 0 <= self.statement_id <= MAX_STATEMENT_ID:
            raise ConfigError(f"statement id {self.statement_id} is not between 0 and {MAX_STATEMENT_ID}")
        if not 0 <= self.bucket <= MAX_BUCKET:
            raise ConfigError(f"bucket {self.bucket} is not between 0 and {MAX_BUCKET}")
        return 1 << _VERSION_SHIFT | self.bucket << _BUCKET_SHIFT | self.statement_id


def decode(bucket_property: int) -> BucketProperty:
    """Decode a bucket property. Raises BadFileError if its version is neither 0 nor 1."""
    version = (bucket_property & 0xFFFFFFFF) >> _VERSION_SHIFT
    if version == 0:
        return BucketProperty(0, bucket_property)
    if version == 1:
        bucket = bucket_property >> _BUCKET_SHIFT & MAX_BUCKET
        return BucketProperty(1, bucket, bucket_property & MAX_STATEMENT_ID)
    raise BadFileError(f"bucket property {bucket_property} has codec version {version}; only 0 and 1 exist")
