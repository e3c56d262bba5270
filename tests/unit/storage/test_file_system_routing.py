"""Settings of Hadoop become those of Arrow's file systems."""

from __future__ import annotations

import pytest

from hiveacid.errors import StorageError, UnsupportedFeatureError
from hiveacid.storage.file_system_routing import (
    AnyFileSystem,
    bucket_and_key,
    open_arrow,
    path_only,
    s3_options,
)
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.paths import parse_uri

KEYS = {"fs.s3a.access.key": "a", "fs.s3a.secret.key": "s"}


def options(settings: dict[str, str]) -> dict[str, object]:
    return s3_options("lake", settings.get)


def test_without_settings_the_environment_decides() -> None:
    assert options({}) == {}


def test_keys_count_together_and_those_of_the_bucket_first() -> None:
    assert options(KEYS) == {"access_key": "a", "secret_key": "s", "session_token": None}
    assert options({"fs.s3a.access.key": "a"}) == {}
    own = {
        "fs.s3a.bucket.lake.access.key": "b",
        "fs.s3a.bucket.other.access.key": "c",
        "fs.s3a.session.token": "t",
    }
    assert options({**KEYS, **own}) == {"access_key": "b", "secret_key": "s", "session_token": "t"}


def test_providers_may_ask_for_nobody_or_for_a_role() -> None:
    anonymous = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    assert options({**KEYS, "fs.s3a.aws.credentials.provider": anonymous}) == {"anonymous": True}
    role = {
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
        "fs.s3a.assumed.role.arn": "arn:aws:iam::1:role/r",
    }
    assert options(role) == {"role_arn": "arn:aws:iam::1:role/r"}


@pytest.mark.parametrize(
    ("endpoint", "ssl", "expected"),
    [
        ("http://host:9000", "", {"endpoint_override": "host:9000", "scheme": "http", "region": "us-east-1"}),
        ("https://host/", "false", {"endpoint_override": "host", "scheme": "https", "region": "us-east-1"}),
        ("host:9000", "false", {"endpoint_override": "host:9000", "scheme": "http", "region": "us-east-1"}),
        ("host:9000", "true", {"endpoint_override": "host:9000", "scheme": "https", "region": "us-east-1"}),
        ("s3.amazonaws.com", "", {}),
        ("s3.eu-west-1.amazonaws.com", "", {"region": "eu-west-1"}),
        ("https://s3-us-gov-west-1.amazonaws.com/", "", {"region": "us-gov-west-1"}),
        ("s3.cn-north-1.amazonaws.com.cn", "", {"region": "cn-north-1"}),
        ("https://bucket.vpce-1a2b-3c.s3.eu-central-1.vpce.amazonaws.com", "", {
            "endpoint_override": "bucket.vpce-1a2b-3c.s3.eu-central-1.vpce.amazonaws.com",
            "scheme": "https", "region": "eu-central-1",
        }),
        ("s3-fips.us-east-2.amazonaws.com", "", {
            "endpoint_override": "s3-fips.us-east-2.amazonaws.com", "scheme": "https", "region": "us-east-2",
        }),
        ("amazonaws.com.example", "", {
            "endpoint_override": "amazonaws.com.example", "scheme": "https", "region": "us-east-1",
        }),
    ],
)  # fmt: skip
def test_an_endpoint_tells_host_and_scheme(endpoint: str, ssl: str, expected: dict[str, object]) -> None:
    assert options({"fs.s3a.endpoint": endpoint, "fs.s3a.connection.ssl.enabled": ssl}) == expected


def test_a_region_is_passed_on() -> None:
    settings = {"fs.s3a.endpoint.region": "eu-west-1", "fs.s3a.endpoint": "http://h"}
    assert options(settings)["region"] == "eu-west-1"


def test_an_encryption_that_arrow_cannot_ask_for_is_refused_without_telling_its_key() -> None:
    assert options({"fs.s3a.encryption.algorithm": "AES256"}) == {}
    settings = {"fs.s3a.encryption.algorithm": "SSE-KMS", "fs.s3a.encryption.key": "hidden"}
    with pytest.raises(UnsupportedFeatureError, match="default encryption") as caught:
        options(settings)
    assert "hidden" not in str(caught.value)


def test_paths_lose_what_the_opened_file_system_knows() -> None:
    assert bucket_and_key("s3a://lake/a b/%41") == "lake/a b/%41"
    assert bucket_and_key("abfss://box@acc.dfs.core.windows.net/x") == "box/x"
    assert path_only("hdfs://host:8020/x/y") == "/x/y"
    assert path_only("hdfs://host:8020") == "/"


def test_each_place_is_opened_once_and_by_its_own_name() -> None:
    opened: list[str] = []

    def opener(place: object) -> LocalFileSystem:
        opened.append(str(place))
        return LocalFileSystem()

    fs = AnyFileSystem(opener)  # type: ignore[arg-type]
    first = fs.at("s3a://one/a")
    assert fs.at("s3a://one/b/c") is first
    assert fs.at("s3a://two/a") is not first
    assert fs.at("/here") is fs.at("file:///there") is fs.local
    assert opened == ["s3a://one/a", "s3a://two/a"]


def test_what_nobody_can_open_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="without a JVM"):
        open_arrow(parse_uri("webhdfs://host/x"), {}.get)
    with pytest.raises(StorageError, match="has no bucket"):
        AnyFileSystem().exists("s3a:///x")
