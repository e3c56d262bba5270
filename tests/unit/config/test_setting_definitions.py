"""Settings: Hive's names, defaults and spellings."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hiveacid
from hiveacid.config import Settings, setting_definitions
from hiveacid.config.property_definitions import compactor_settings
from hiveacid.config.setting_types import parse_bool, parse_duration, parse_float, parse_int, parse_size
from hiveacid.errors import ConfigError


def test_defaults_are_hives() -> None:
    settings = Settings()
    assert settings.get(setting_definitions.TXN_TIMEOUT) == 300.0
    assert settings.get(setting_definitions.XLOCK_WRITE) is False
    assert settings.get(setting_definitions.XLOCK_OVERWRITE) is True
    assert settings.get(setting_definitions.DYNAMIC_PARTITION_MODE) == "nonstrict"
    assert settings.get(setting_definitions.ORC_COMPRESS) == "AUTO"
    assert settings.get(setting_definitions.DELTA_PCT_THRESHOLD) == 0.1
    assert settings.get("hive.compactor.delta.num.threshold") == 10


@pytest.mark.parametrize("name", sorted(setting_definitions.REGISTRY))
def test_every_default_fits_its_own_type(name: str) -> None:
    setting = setting_definitions.REGISTRY[name]
    assert setting.parse(setting.default) is not None
    assert setting.doc.endswith(".")


def test_every_constant_is_in_one_section() -> None:
    constants = [
        value
        for value in vars(setting_definitions).values()
        if hasattr(value, "parse") and hasattr(value, "kind")
    ]
    listed = [setting for section in setting_definitions.SECTIONS for setting in section.entries]
    assert sorted(setting.name for setting in constants) == sorted(setting.name for setting in listed)
    assert len(setting_definitions.REGISTRY) == len(listed)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300s", 300.0),
        ("300", 300.0),
        ("5min", 300.0),
        ("5m", 300.0),
        ("12h", 43_200.0),
        ("7d", 604_800.0),
        (" 7 DAYS ", 604_800.0),
        ("5000ms", 5.0),
        ("250us", 0.00025),
        ("999999999999d", 1e9),  # waits and databases refuse so many seconds
    ],
)
def test_durations_are_spelt_as_in_hive(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


def test_a_bare_number_has_the_unit_of_its_setting() -> None:
    assert Settings().get(setting_definitions.WAIT_TIMEOUT) == 300.0  # 300000, in milliseconds
    assert Settings.of({"hive.compactor.wait.timeout": "2500"}).get(setting_definitions.WAIT_TIMEOUT) == 2.5
    assert Settings.of({"hive.compactor.aborted.txn.time.threshold": "1"}).get(
        setting_definitions.ABORTED_TXN_TIME_THRESHOLD
    ) == pytest.approx(3_600.0)


def test_only_the_age_of_aborted_transactions_may_be_negative() -> None:
    """As in Hive, a negative age turns this trigger of compactions off."""
    name = "hive.compactor.aborted.txn.time.threshold"
    assert Settings.of({name: "-1h"}).get(setting_definitions.ABORTED_TXN_TIME_THRESHOLD) == -3_600.0
    with pytest.raises(ConfigError, match=r"hive\.txn\.timeout: expected a duration"):
        Settings.of({"hive.txn.timeout": "-1h"})


@pytest.mark.parametrize(
    ("text", "size"), [("67108864", 67_108_864), ("64mb", 67_108_864), ("1 GB", 1 << 30), ("3k", 3072)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_bool, "yes"),
        (parse_bool, ""),
        (parse_int, "1.5"),
        (parse_float, "much"),
        (parse_float, "nan"),
        (parse_float, "-inf"),
        (parse_float, "1e999"),
        (parse_duration, "5 parsecs"),
        (parse_duration, "s"),
        (parse_duration, "-1"),
        (parse_size, "-1"),
        (parse_size, "1 yb"),
    ],
)
def test_nonsense_is_refused(parse: type, text: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        parse(text)


def test_a_change_makes_a_new_value() -> None:
    before = Settings()
    after = before.with_value(" hive.txn.timeout ", "10min")
    assert before.get(setting_definitions.TXN_TIMEOUT) == 300.0
    assert after.get(setting_definitions.TXN_TIMEOUT) == 600.0
    assert after.text("hive.txn.timeout") == "10min"
    assert after.changed == (("hive.txn.timeout", "10min"),)
    assert after.without("hive.txn.timeout") == before


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("hive.txn.timeout", "soon", "hive.txn.timeout: expected a duration"),
        ("hive.exec.dynamic.partition.mode", "lax", "expected one of nonstrict, strict"),
        ("hive.txn.timeout", "0s", "hive.txn.timeout: must be longer than 0"),
        ("hive.max.open.txns", "0", "must be at least 1"),
        ("hiveacid.no.such.key", "1", "not a setting"),
        ("", "1", "not a setting"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(name: str, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Settings().with_value(name, text)


def test_code_reads_every_setting() -> None:
    """A setting that nothing reads is removed, so that SET says that it means nothing."""
    code = Path(hiveacid.__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in code.rglob("*.py")]
    read = {name for text in texts for name in re.findall(r"\bsetting_definitions\.([A-Z_]+)\b", text)}
    assert {
        getattr(setting_definitions, name).name
        for name in read
        if hasattr(getattr(setting_definitions, name), "parse")
    } == set(setting_definitions.REGISTRY)


@pytest.mark.parametrize(
    "name",
    [
        "hive.acid.truncate.usebase",
        "hive.compactor.max.num.delta",
        "hive.exec.default.partition.name",
        "hive.exec.max.dynamic.partitions",
        "hive.txn.nonacid.read.locks",
        "hive.txn.read.locks",
        "hive.txn.strict.locking.mode",
        "hive.txn.write.acid.version.file",
        "metastore.txn.opentxn.timeout",
    ],
)
def test_a_setting_of_hive_without_a_meaning_here_is_kept_as_unknown(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="hiveacid"):
        assert Settings().with_value(name, "any text").get(name) == "any text"
    assert f"hiveacid does not know the setting {name};" in caplog.text


def test_a_row_index_stride_is_one_that_orc_can_write() -> None:
    name = setting_definitions.ORC_ROW_INDEX_STRIDE.name
    assert [
        Settings.of({name: text}).get(setting_definitions.ORC_ROW_INDEX_STRIDE) for text in ("0", "1000")
    ] == [
        0,
        1000,
    ]
    for text in ("-1", "999"):
        with pytest.raises(ConfigError, match="must be 0 or at least 1000"):
            Settings.of({name: text})


def test_choices_do_not_mind_case() -> None:
    assert (
        Settings.of({"hive.exec.orc.default.compress": "zstd"}).get(setting_definitions.ORC_COMPRESS)
        == "ZSTD"
    )


def test_an_unknown_key_of_hive_is_kept_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="hiveacid"):
        settings = Settings().with_value("hive.vectorized.execution.enabled", "true")
    assert settings.get("hive.vectorized.execution.enabled") == "true"
    assert "hive.vectorized.execution.enabled" in caplog.text


def test_asking_for_an_unset_unknown_key_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"hive\.no\.such\.key"):
        Settings().get("hive.no.such.key")


def test_a_duration_without_a_unit_has_that_of_its_default_as_the_settings_page_says() -> None:
    durations = [one for one in vars(setting_definitions).values() if getattr(one, "kind", "") == "duration"]
    units = {one.name: one.default.lstrip("0123456789") for one in durations}
    assert [name for name, unit in units.items() if not unit] == [
        "hive.compactor.wait.timeout"
    ]  # says its own
    bare = {one.name: one.parse("7") for one in durations}
    assert bare == {name: parse_duration(f"7{unit or 'ms'}") for name, unit in units.items()}


def test_items_hold_defaults_and_changes() -> None:
    items = dict(Settings.of({"hive.foo": "1", "hive.lock.numretries": "7"}).items())
    assert items["hive.foo"] == "1"
    assert items["hive.lock.numretries"] == "7"
    assert items["hive.txn.timeout"] == "300s"
    assert list(items) == sorted(items)


def test_importing_the_package_is_cheap() -> None:
    code = (
        "import sys; import hiveacid; hiveacid.errors\n"
        "heavy = {'pyspark', 'sqlalchemy', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_public_names_are_all_there() -> None:
    assert dir(hiveacid) == [
        "AcidSession",
        "AcidTable",
        "ArrowTable",
        "ArrowWarehouse",
        "HiveAcidError",
        "Scan",
        "ScanPlan",
        "__version__",
        "configure",
        "connect",
        "errors",
        "open",
    ]
    assert all(getattr(hiveacid, name).__name__ == name for name in dir(hiveacid) if name[0].isupper())
    with pytest.raises(AttributeError, match="no_such_name"):
        hiveacid.no_such_name  # noqa: B018


def test_a_table_overrides_what_its_database_and_the_session_say_of_compaction() -> None:
    session = Settings.of({"hive.compactor.delta.num.threshold": "7", "hive.lock.numretries": "3"})
    database = [
        ("CompactorThreshold.hive.compactor.delta.num.threshold", "5"),
        ("compactor.mapreduce.x", "1"),
    ]
    table = [("compactor.hive.compactor.delta.num.threshold", "4"), ("hive.compactor.worker.pool", "night")]
    found = compactor_settings(session, database, table)
    assert found.get(setting_definitions.DELTA_NUM_THRESHOLD) == 4
    assert found.get(setting_definitions.WORKER_POOL) == "night"
    assert found.get(setting_definitions.LOCK_NUMRETRIES) == 3
    assert compactor_settings(session, database).get(setting_definitions.DELTA_NUM_THRESHOLD) == 5
    assert compactor_settings(session, [("compactor.hiveacid.compactor.priority", "")]) == session
    with pytest.raises(ConfigError, match=r"hive\.compactor\.delta\.num\.threshold"):
        compactor_settings(session, [("compactorthreshold.hive.compactor.delta.num.threshold", "many")])


@pytest.mark.parametrize("parse", [parse_duration, parse_size])
def test_thousands_of_digits_are_refused_as_any_wrong_text(parse: Callable[[str], object]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse("9" * 5000)
    assert len(str(caught.value)) < 200
