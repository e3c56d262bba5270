"""``hiveacid doctor`` looks at warehouses that are no local directories, and for all optional packages."""

from __future__ import annotations

import re
from importlib import metadata

import pytest

from hiveacid.cli.doctor import extras, remote_warehouse, transaction_store
from support.servers.absent import skip_without
from support.servers.object_store import WHY_NOT, s3_server


def test_a_bucket_is_reached_with_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without(WHY_NOT)
    with s3_server() as server:
        bucket = server.make_bucket("lake")
        for name, value in {
            "AWS_ACCESS_KEY_ID": "access",
            "AWS_SECRET_ACCESS_KEY": "not-a-secret",
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        server.file_system().write_bytes(f"{bucket}/wh/f", b"1")
        assert [(one.ok, one.found) for one in remote_warehouse(f"{bucket}/wh")] == [(True, f"{bucket}/wh")]
        assert [one.found for one in remote_warehouse(f"{bucket}/new")] == [
            f"{bucket}/new (nothing there yet)"
        ]


def test_what_cannot_be_reached_is_wrong_and_a_store_has_to_be_named() -> None:
    (found,) = remote_warehouse("ftp://host/wh")
    assert not found.ok
    assert "the file system ftp:// is not supported" in found.found
    store = transaction_store("s3a://lake/wh", None)
    assert not store.ok
    assert "--store" in store.advice


def test_each_extra_is_installed_or_named() -> None:
    """But Spark, which has a check of its own, and Kerberos, which needs headers to be built."""
    declared = set(metadata.metadata("hiveacid").get_all("Provides-Extra", ()))
    assert {"web", "streaming", "polars"} < declared
    assert set(re.findall(r"[a-z]+", extras().found)) >= declared - {"spark", "kerberos", "all"}
