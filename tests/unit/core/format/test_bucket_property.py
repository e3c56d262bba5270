"""The bucket property, both codec versions and the overflow rule of Hive 4."""

import pytest

from hiveacid.core.format.bucket_property import BucketProperty, decode
from hiveacid.errors import BadFileError, ConfigError


@pytest.mark.parametrize(
    ("encoded", "bucket", "statement"),
    [
        (536870912, 0, 0),
        (536936448, 1, 0),
        (537001984, 2, 0),
        (536870913, 0, 1),
        (0x2FFF0FFF, 4095, 4095),
    ],
)
def test_version_1(encoded: int, bucket: int, statement: int) -> None:
    assert decode(encoded) == BucketProperty(1, bucket, statement)
    assert BucketProperty(1, bucket, statement).encode() == encoded


def test_version_0_is_the_bucket_itself() -> None:
    assert decode(7) == BucketProperty(0, 7)
    assert decode(100_000).bucket == 100_000
    assert BucketProperty(0, 100_000).encode() == 100_000


@pytest.mark.parametrize("bad", [2 << 29, 7 << 29, -1, -(1 << 31)])
def test_other_versions_are_refused(bad: int) -> None:
    with pytest.raises(BadFileError):
        decode(bad)


@pytest.mark.parametrize(
    "bad",
    [
        BucketProperty(1, 4096),
        BucketProperty(1, -1),
        BucketProperty(1, 0, 4096),
        BucketProperty(1, 0, -1),
        BucketProperty(0, 1 << 29),
        BucketProperty(0, -1),
        BucketProperty(0, 1, 1),
        BucketProperty(2, 1),
    ],
)
def test_numbers_that_do_not_fit_are_refused(bad: BucketProperty) -> None:
    with pytest.raises(ConfigError):
        bad.encode()
