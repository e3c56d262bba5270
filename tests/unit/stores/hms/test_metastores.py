from __future__ import annotations

import pytest

from hiveacid.errors import ConfigError, UnsupportedFeatureError
from hiveacid.stores.hms.metastores import MetastoreAddress, is_metastore, parse_metastore_url


def test_one_metastore_and_several() -> None:
    assert parse_metastore_url("thrift://hms:9083") == MetastoreAddress((("hms", 9083),))
    assert parse_metastore_url("thrift://a,b:9084").servers == (("a", 9083), ("b", 9084))
    assert parse_metastore_url(" thrift://a:1, thrift://b:2/ ").servers == (("a", 1), ("b", 2))
    assert parse_metastore_url("THRIFT://[::1]:9083,[fe80::2]").servers == (("::1", 9083), ("fe80::2", 9083))


def test_options() -> None:
    found = parse_metastore_url("thrift://a:1?tls=true&ca=/etc/ca.pem&timeout=30s&connect_timeout=2.5")
    assert found == MetastoreAddress((("a", 1),), True, "/etc/ca.pem", 30.0, 2.5)
    assert str(found) == "thrift://a:1"


def test_kerberos() -> None:
    found = parse_metastore_url("thrift://a?auth=kerberos&principal=hive/_HOST@REALM")
    assert found.principal == "hive/_HOST@REALM"


@pytest.mark.parametrize(
    "url",
    [
        "thrift://",
        "thrift://:9083",
        "thrift://a:0",
        "thrift://a:65536",
        "thrift://a:b",
        "thrift://a/db",
        "thrift://a,http://b",
        "thrift://a?colour=red",
        "thrift://a?tls=maybe",
        "thrift://a?ca=x",
        "thrift://a?tls=true&tls=false",
        "thrift://a?TLS=true",
        "thrift://a?tls=",
        "thrift://a?timeout=0",
        "thrift://a?timeout=inf",
        "thrift://a?timeout=soon",
        "thrift://a?auth=kerberos",
        "thrift://a?auth=kerberos&principal=hive@REALM",
        "thrift://a?principal=hive/_HOST@REALM",
        "thrift://a?hive.metastore.sasl.enabled=true",
    ],
)
def test_what_makes_no_sense_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        parse_metastore_url(url)


@pytest.mark.parametrize("url", ["thrift://a?auth=ldap", "thrift://ann:secret@a:9083"])
def test_authentication_is_refused_in_so_many_words(url: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"not supported") as caught:
        parse_metastore_url(url)
    assert "secret" not in str(caught.value)


def test_whose_urls_these_are() -> None:
    assert is_metastore("thrift://a")
    assert is_metastore(" THRIFT://a")
    assert not is_metastore("postgresql+psycopg://a/b")
    assert not is_metastore(None)


def test_catalogs_other_than_hives_are_refused() -> None:
    assert parse_metastore_url("thrift://a?catalog=hive") == parse_metastore_url("thrift://a")
    with pytest.raises(UnsupportedFeatureError, match="catalog=spark: a metastore numbers writes"):
        parse_metastore_url("thrift://a?catalog=spark")
