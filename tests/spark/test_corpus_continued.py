"""Tables of Hive and Trino, taken over and gone on with: every statement against a plain model of it.

The model starts from the rows read (`test_corpus.py` proves those), applies each statement to a list of
dicts, and knows of each row whether the statement touched it: an untouched row keeps its row id, and a
compaction changes nothing at all. What lies on disk is read again by the independent `sort_merge_reader`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from engine_rows import IDENTITY, Row, plain, rows_of, same, without_ids
from golden_tables import Golden, find
from sort_merge_reader import read_table

if TYPE_CHECKING:
    from hiveacid import AcidSession
    from hiveacid.table.acid_table import AcidTable

FULL_ACID = [
    ("hive-3.1.3", "aborted", "3_aborted_iow"),
    ("hive-3.1.3", "all_types", "2_crud"),
    ("hive-3.1.3", "convert_orig", "2_crud"),
    ("hive-3.1.3", "load_data", "2_crud"),
    ("hive-3.1.3", "merge", "2_merge2"),
    ("hive-3.1.3", "part_bucketed", "4_iow_dynamic"),
    ("hive-3.1.3", "streaming", "4_delete_and_insert_after"),
    ("hive-4.0.1", "bucketed", "2_minor_uncleaned"),
    ("hive-4.0.1", "convert_orig_bucketed", "2_crud"),
    ("hive-4.0.1", "iow", "7_after_truncate"),
    ("hive-4.0.1", "minor_major", "4_major_uncleaned"),
    ("hive-4.0.1", "multi_insert", "4_update"),
    ("hive-4.0.1", "open_txn", "1_open_in_middle"),
    ("hive-4.0.1", "schema_evo", "3_int_to_bigint"),
    ("trino-476", "aborted", ""),
    ("trino-476", "bucket", ""),
    ("trino-476", "crud", ""),
    ("trino-476", "original", ""),
    ("trino-476", "part_ctas", ""),
    ("trino-476", "repeat", ""),
    ("trino-476", "types", ""),
]
INSERT_ONLY = [
    ("hive-3.1.3", "insert_only_orc", "3_minor_uncleaned"),
    ("hive-3.1.3", "insert_only_textfile", "2_aborted"),
    ("hive-4.0.1", "insert_only_parquet", "5_iow_union"),
]


@dataclass
class Continued:
    """An adopted table, the rows it must hold, and the columns that statements use.

    ``key`` is the first column, ``changed`` one that may be updated. Rows whose id is not known yet (new
    ones, new versions) have None there until the next look.
    """

    acid: AcidSession
    table: AcidTable
    rows: list[Row]

    @property
    def key(self) -> str:
        return self.table.definition.columns[0].name

    @property
    def changed(self) -> str:
        definition = self.table.definition
        fixed = {self.key, *(definition.bucketing.columns if definition.bucketing else ())}
        free = [c for c in definition.columns if c.name not in fixed]
        texts = [c.name for c in free if c.type.startswith(("string", "varchar"))]
        return texts[0] if texts else free[0].name

    @property
    def partition_names(self) -> list[str]:
        return [c.name for c in self.table.definition.partition_columns]

    def keys(self) -> list[int]:
        return sorted({row[self.key] for row in self.rows if row[self.key] is not None})

    def new_text(self, alias: str = "") -> str:
        """Return the expression that statements set `changed` to; `changed_value` computes the same."""
        column = f"{alias}`{self.changed}`"
        return f"concat(coalesce({column}, ''), '+')" if self.is_text else f"coalesce({column}, 0) + 1"

    def changed_value(self, value: Any) -> Any:
        return f"{value or ''}+" if self.is_text else (value or 0) + 1

    @property
    def is_text(self) -> bool:
        types = {c.name: c.type for c in self.table.definition.columns}
        return types[self.changed].startswith(("string", "varchar"))

    def new_row(self, key: int, changed: Any) -> Row:
        """Return a row that is NULL but for its key, the changed column and a partition that exists."""
        names = [c.name for c in (*self.table.definition.columns, *self.table.definition.partition_columns)]
        here = {name: self.rows[0][name] for name in self.partition_names}
        return {IDENTITY: None, **dict.fromkeys(names), self.key: key, self.changed: changed, **here}

    def changes(self, chosen: Callable[[Any], bool]) -> None:
        """Say that an update reached the rows whose key is chosen."""
        for row in self.rows:
            if row[self.key] is not None and chosen(row[self.key]):
                row[self.changed] = self.changed_value(row[self.changed])
                row[IDENTITY] = None

    def look(self) -> None:
        """Compare with the table, here and through the independent reader; learn the ids of new rows."""
        seen = rows_of(self.table.scan(row_ids=True).to_df())
        assert same(without_ids(seen)) == same(without_ids(self.rows))
        kept = Counter(same(row for row in self.rows if row[IDENTITY] is not None))
        assert kept <= Counter(same(seen))
        identities = [(self.place(row), row[IDENTITY]) for row in seen]
        assert len(set(identities)) == len(identities)
        self.rows = seen
        assert self.on_disk() == sorted(
            repr((self.place(row), row[IDENTITY], row[self.key], row[self.changed])) for row in seen
        )

    def place(self, row: Row) -> str:
        values = {name: row[name] for name in self.partition_names}
        return "/".join(
            f"{name}={'__HIVE_DEFAULT_PARTITION__' if value is None else value}"
            for name, value in values.items()
        )

    def on_disk(self) -> list[str]:
        store, name = self.acid.context.store, self.table.name
        write_ids = store.valid_write_ids(store.valid_txns(), [name])[name]
        found = read_table(
            Path(self.table.definition.location), write_ids.to_string(), len(self.partition_names)
        )
        at = [c.name for c in self.table.definition.columns].index(self.changed)
        return sorted(
            repr((unquote(place), _identity(row), row[3][0], plain(row[3][at])))
            for place, rows in found.items()
            for row in rows
        )


def _identity(row: Iterable[Any]) -> Any:
    from golden_tables import RowId  # noqa: PLC0415

    return RowId(*tuple(row)[:3])


def _literal(value: Any) -> str:
    return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)


def _insert(it: Continued) -> None:
    top = it.keys()[-1]
    new = [it.new_row(top + n, "new" if it.is_text else n) for n in (1, 2)]
    columns = [it.key, it.changed, *it.partition_names]
    values = ", ".join(f"({', '.join(_literal(row[c]) for c in columns)})" for row in new)
    listed = ", ".join(f"`{column}`" for column in columns)
    it.acid.sql(f"INSERT INTO {it.table.name} ({listed}) VALUES {values}")
    it.rows += new


def _update(it: Continued) -> None:
    it.acid.sql(
        f"UPDATE {it.table.name} SET `{it.changed}` = {it.new_text()} WHERE `{it.key}` % 2 = 0 AND `{it.key}` >= 0"
    )
    it.changes(lambda key: key % 2 == 0 and key >= 0)


def _delete(it: Continued) -> None:
    gone = it.keys()[0]
    it.table.delete(f"`{it.key}` = {gone}")
    it.rows = [row for row in it.rows if row[it.key] != gone]


def _merge(it: Continued) -> None:
    keys = it.keys()
    deleted, updated, new = keys[-1], keys[-2], keys[-1] + 5
    row = it.new_row(new, None)
    columns = [it.key, it.changed, *it.partition_names]
    values = ", ".join(["s.k", "NULL", *(_literal(row[name]) for name in it.partition_names)])
    it.acid.sql(
        f"""MERGE INTO {it.table.name} AS t
            USING (SELECT * FROM VALUES ({deleted}, 'd'), ({updated}, 'u'), ({new}, 'i') AS v(k, op)) AS s
            ON t.`{it.key}` = s.k
            WHEN MATCHED AND s.op = 'd' THEN DELETE
            WHEN MATCHED THEN UPDATE SET `{it.changed}` = {it.new_text("t.")}
            WHEN NOT MATCHED THEN INSERT ({", ".join(f"`{c}`" for c in columns)}) VALUES ({values})"""
    )
    it.changes(lambda key: key == updated)
    it.rows = [*(old for old in it.rows if old[it.key] != deleted), row]


@pytest.mark.parametrize("which", FULL_ACID, ids="/".join)
def test_statements_and_compactions_on_an_adopted_table(
    which: tuple[str, str, str], adopt_golden: Callable[[Golden], AcidTable], golden_session: AcidSession
) -> None:
    table = adopt_golden(find(*which))
    it = Continued(golden_session, table, rows_of(table.scan(row_ids=True).to_df()))
    for statement in (_insert, _update, _delete, _merge):
        statement(it)
        it.look()
    table.compact("minor")
    it.look()
    _update(it)
    golden_session.sql(f"ALTER TABLE {table.name} COMPACT 'major' AND WAIT")
    it.look()


@pytest.mark.parametrize("which", INSERT_ONLY, ids="/".join)
def test_an_adopted_insert_only_table_is_filled_compacted_and_overwritten(
    which: tuple[str, str, str], adopt_golden: Callable[[Golden], AcidTable], golden_session: AcidSession
) -> None:
    table = adopt_golden(find(*which))
    before = rows_of(table.to_df())
    golden_session.sql(f"INSERT INTO {table.name} VALUES (100, 'new'), (101, NULL)")
    golden_session.sql(f"INSERT INTO {table.name} SELECT a + 200, b FROM {table.name} WHERE a = 100")
    rows = [*before, {"a": 100, "b": "new"}, {"a": 101, "b": None}, {"a": 300, "b": "new"}]
    assert same(rows_of(table.to_df())) == same(rows)
    table.compact("minor")
    assert same(rows_of(table.to_df())) == same(rows)
    # One delta without a base is nothing to compact for Hive either: a second delta makes it two.
    golden_session.sql(f"INSERT INTO {table.name} VALUES (400, 'last')")
    rows.append({"a": 400, "b": "last"})
    table.compact("major")
    assert same(rows_of(table.to_df())) == same(rows)
    golden_session.sql(f"INSERT OVERWRITE TABLE {table.name} SELECT a, b FROM {table.name} WHERE a >= 100")
    assert same(rows_of(table.to_df())) == same(row for row in rows if row["a"] >= 100)
