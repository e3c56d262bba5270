"""A metastore gives write ids before locks: what others commit between the two is neither lost nor doubled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hive_server import HiveServers

import hiveacid
from hiveacid.errors import WriteConflictError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession


@pytest.fixture(scope="module")
def other(hive: HiveServers, spark: SparkSession) -> Iterator[AcidSession]:
    connection = hiveacid.connect(spark, store=hive.url)
    yield connection
    connection.close()


@contextmanager
def just_before_the_lock(acid: AcidSession, act: Callable[[], object]) -> Iterator[None]:
    """Let somebody else act when a statement has its write id and is about to ask for its lock."""
    client: Any = acid.context.store.client  # type: ignore[attr-defined]
    call, done = client.call, []

    def calling(method: str, *values: object) -> object:
        if method == "lock" and not done:
            done.append(method)
            act()
        return call(method, *values)

    client.call = calling
    try:
        yield
    finally:
        client.call = call
    assert done


def made(acid: AcidSession, name: str, *, partitioned: bool = False) -> None:
    by = "PARTITIONED BY (p STRING) " if partitioned else ""
    acid.sql(
        f"CREATE TABLE {name} (id INT, v STRING) {by}STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    into = " PARTITION (p='a')" if partitioned else ""
    acid.sql(f"INSERT INTO {name}{into} VALUES (1,'one'),(2,'two')")


def rows(acid: AcidSession, name: str) -> list[tuple[int, str]]:
    return sorted(tuple(row) for row in acid.sql(f"SELECT id, v FROM {name}").collect())


@pytest.mark.parametrize("partitioned", [False, True])
def test_an_insert_below_a_younger_base_is_refused(
    acid: AcidSession, other: AcidSession, *, partitioned: bool
) -> None:
    """Nobody would ever read its rows; run again they are there."""
    name = f"passed_{'parts' if partitioned else 'flat'}"
    made(acid, name, partitioned=partitioned)
    into = f"TABLE {name} PARTITION (p='a')" if partitioned else f"TABLE {name}"
    insert = f"INSERT INTO {into} VALUES (3,'three')"
    with (
        just_before_the_lock(acid, lambda: other.sql(f"INSERT OVERWRITE {into} VALUES (9,'nine')")),
        pytest.raises(WriteConflictError, match="overwrote"),
    ):
        acid.sql(insert)
    assert rows(acid, name) == [(9, "nine")]
    acid.sql(insert)
    assert rows(acid, name) == [(3, "three"), (9, "nine")]


STATEMENTS = {
    "update": "UPDATE @ SET v = 'new'",
    "overwrite": "INSERT OVERWRITE TABLE @ SELECT id, 'new' FROM @",
    "merge": "MERGE INTO @ t USING (SELECT explode(array(1, 2, 3)) AS id) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = 'new'",
}


@pytest.mark.parametrize("verb", STATEMENTS)
def test_rows_of_a_younger_insert_are_not_doubled(acid: AcidSession, other: AcidSession, verb: str) -> None:
    """They come after the statement: it can neither delete them nor hide them."""
    name = f"younger_{verb}"
    made(acid, name)
    with just_before_the_lock(acid, lambda: other.sql(f"INSERT INTO {name} VALUES (3,'three')")):
        acid.sql(STATEMENTS[verb].replace("@", name))
    assert rows(acid, name) == [(1, "new"), (2, "new"), (3, "three")]
