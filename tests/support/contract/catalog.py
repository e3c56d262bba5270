"""Contract: databases, tables, partitions, views."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from hiveacid.core.model import (
    Column,
    Constraint,
    ConstraintKind,
    DatabaseDefinition,
    Partition,
    TableDefinition,
    TableName,
    ViewDefinition,
    WriteId,
)
from hiveacid.core.schema.partitions import format_partition
from hiveacid.errors import (
    AlreadyExistsError,
    CatalogError,
    NoSuchDatabaseError,
    NoSuchTableError,
    WriteConflictError,
)
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.ports.transactions import current_write_ids_of
from support.samples import CLIENT, ORDERS, STOCK, Store, database, table

ODD = "d'b\"; drop table x; -- ü😀%_\\"


def view(name: str = "best", database: str = "shop") -> ViewDefinition:
    """Return a view with something in every field."""
    return ViewDefinition(
        name=TableName(database, name),
        columns=(Column("n", "int", "it's"), Column("m", "struct<a:int>")),
        text="SELECT `id`, `item` FROM `shop`.`orders` -- ünï😀",
        original="SELECT * FROM orders -- ünï😀",
        outputs=("id", "Item"),
        database="bank",
        properties=(("k", "v;'\""),),
        comment="the 'best'",
        owner="ann",
        created_at=1_700_000_000,
    )


def _definition(store: Store, name: TableName) -> TableDefinition:
    found = store.get_table(name)
    assert found is not None
    return found


class ViewRules:
    """Views: what their definitions mean is not the store's business."""

    def test_views(self, store: Store) -> None:
        """Made, listed beside the tables, changed as a whole, renamed, dropped."""
        with pytest.raises(NoSuchDatabaseError):
            store.create_view(view())
        with pytest.raises(NoSuchDatabaseError):
            store.list_views("shop")
        store.create_database(database())
        store.create_database(database("bank"))
        assert store.list_views("shop") == ()
        store.create_view(view())
        store.create_view(view("another"))
        store.create_view(view(ODD))
        store.create_table(table())
        assert store.get_view(TableName("shop", "best")) == view()
        assert store.list_views("shop") == tuple(sorted(("another", "best", ODD)))
        assert store.list_views("bank") == ()
        assert store.list_tables("shop") == ("orders",)
        assert store.get_table(TableName("shop", "best")) is None
        assert store.get_view(ORDERS) is None
        changed = replace(view(), text="SELECT 1", outputs=(), comment=None, properties=())
        store.alter_view(changed.name, changed)
        assert store.get_view(changed.name) == changed
        moved = replace(changed, name=TableName("bank", "worst"))
        store.alter_view(changed.name, moved)
        assert store.get_view(changed.name) is None
        assert store.get_view(moved.name) == moved
        store.drop_view(moved.name)
        assert store.list_views("bank") == ()
        for absent in (moved.name, ORDERS):
            with pytest.raises(NoSuchTableError, match="view"):
                store.drop_view(absent)
            with pytest.raises(NoSuchTableError, match="view"):
                store.alter_view(absent, view())

    def test_tables_and_views_share_their_names(self, store: Store) -> None:
        """Neither takes the other's, whichever came first, renamed or with a commit."""
        for name in ("shop", "bank"):
            store.create_database(database(name))
        store.create_table(table())
        store.create_view(view())
        with pytest.raises(AlreadyExistsError, match="table"):
            store.create_view(view("orders"))
        with pytest.raises(AlreadyExistsError, match="view"):
            store.create_view(view())
        with pytest.raises(AlreadyExistsError, match="table"):
            store.alter_view(view().name, view("orders"))
        with pytest.raises(NoSuchDatabaseError):
            store.alter_view(view().name, view(database="none"))
        taken = table(TableName("shop", "best"))
        with pytest.raises(AlreadyExistsError, match="view"):
            store.create_table(taken)
        with pytest.raises(AlreadyExistsError, match="view"):
            store.alter_table(ORDERS, taken)
        (txn_id,) = store.open_txns(CLIENT)
        with pytest.raises(AlreadyExistsError, match="view"):
            store.commit_txn(txn_id, CatalogChanges(tables=(taken,)))
        store.abort_txns([txn_id], "test")
        store.create_view(view(database="bank"))
        with pytest.raises(CatalogError, match="not empty"):
            store.drop_database("bank")
        store.drop_view(view(database="bank").name)
        store.drop_database("bank")

    @pytest.mark.parametrize("bad", ["", "a\0b", "\udfff", "x" * 257])
    def test_impossible_names_of_views_are_refused(self, store: Store, bad: str) -> None:
        """As a table's are."""
        store.create_database(database())
        for verb in (store.get_view, store.drop_view):
            with pytest.raises(CatalogError):
                verb(TableName("shop", bad))
        with pytest.raises(CatalogError):
            store.create_view(view(bad))


class CatalogRules:
    """The catalog by itself."""

    def test_databases(self, store: Store) -> None:
        """Created once, listed sorted, dropped when empty."""
        for name in ("shop", "bank", ODD):
            store.create_database(database(name))
        assert store.list_databases() == tuple(sorted(("bank", ODD, "shop")))
        assert store.get_database(ODD) == database(ODD)
        assert store.get_database("none") is None
        with pytest.raises(AlreadyExistsError):
            store.create_database(DatabaseDefinition("shop", "elsewhere"))
        store.create_table(table())
        for change in (
            replace(database("bank"), comment="it's", properties=(("a", "1"),), owner="ann"),
            replace(database("bank"), location=f"{database('bank').location}/inside"),
            replace(database("bank"), location="file:/moved/bank"),
        ):
            store.alter_database(change)
            assert store.get_database("bank") == change
        with pytest.raises(WriteConflictError, match="altered meanwhile"):
            store.alter_database(database("bank"), database("bank"))
        with pytest.raises(CatalogError, match="not free"):
            store.alter_database(replace(database("bank"), location=table().location))
        assert store.get_database("bank") == change
        assert store.get_table(table().name) == table()
        with pytest.raises(NoSuchDatabaseError):
            store.alter_database(database("none"))
        with pytest.raises(CatalogError, match="not empty"):
            store.drop_database("shop")
        store.drop_database("bank")
        with pytest.raises(NoSuchDatabaseError):
            store.drop_database("bank")
        assert store.list_databases() == tuple(sorted((ODD, "shop")))

    def test_a_definition_comes_back_whole(self, store: Store) -> None:
        """Every field, quotes and unicode included."""
        store.create_database(database())
        plain = replace(
            table(STOCK), partition_columns=(), bucketing=None, properties=(), comment=None, external=True
        )
        store.create_table(table())
        store.create_table(plain)
        assert store.get_table(ORDERS) == table()
        assert store.get_table(STOCK) == plain
        assert store.get_table(TableName("shop", "none")) is None
        assert store.get_table(TableName("none", "orders")) is None

    def test_tables(self, store: Store) -> None:
        """A table has a database and is there once."""
        with pytest.raises(NoSuchDatabaseError):
            store.create_table(table())
        with pytest.raises(NoSuchDatabaseError):
            store.list_tables("shop")
        store.create_database(database())
        assert store.list_tables("shop") == ()
        for name in ("orders", "a", ODD):
            store.create_table(table(TableName("shop", name)))
        assert store.list_tables("shop") == tuple(sorted(("a", ODD, "orders")))
        with pytest.raises(AlreadyExistsError):
            store.create_table(table())
        store.drop_table(TableName("shop", ODD))
        with pytest.raises(NoSuchTableError):
            store.drop_table(TableName("shop", ODD))
        assert store.list_tables("shop") == ("a", "orders")

    def test_no_two_tables_share_a_place(self, store: Store) -> None:
        """Neither the same, nor one in the other's; nor do they with a commit."""
        store.create_database(database())
        store.create_table(table(ORDERS, "file:/wh/a/b"))
        for place in ("file:/wh/a/b", "file:/wh/a/b/", "file:/wh/a", "file:/wh/a/b/c"):
            with pytest.raises(CatalogError, match="is not free: table shop"):
                store.create_table(table(STOCK, place))
            (txn_id,) = store.open_txns(CLIENT)
            with pytest.raises(CatalogError, match="is not free"):
                store.commit_txn(txn_id, CatalogChanges(tables=(table(STOCK, place),)))
            assert store.txn_state(txn_id) == "open"
        store.create_table(table(STOCK, "file:/wh/a/bc"))
        assert store.list_tables("shop") == ("orders", "stock")

    def test_no_partition_shares_a_place(self, store: Store) -> None:
        """With another table, its partitions, an empty one too, nor with another one of its own table; nor a table with it."""
        store.create_database(database())
        for name in (ORDERS, STOCK):
            store.create_table(table(name))
        there = Partition(("2026-01-01", "oslo"), "file:/ext/p")
        store.add_partitions(ORDERS, [there])
        store.add_partitions(ORDERS, [there])
        for place in ("file:/ext/p", "file:/ext/p/q", "file:/ext", "file:/wh", table(STOCK).location):
            taken = Partition(("2026-01-02", "oslo"), place)
            for name in (ORDERS, STOCK) if place != table(STOCK).location else (ORDERS,):
                with pytest.raises(CatalogError, match="is not free"):
                    store.add_partitions(name, [taken])
                (txn_id,) = store.open_txns(CLIENT)
                with pytest.raises(CatalogError, match="is not free"):
                    store.commit_txn(txn_id, CatalogChanges(partitions=(NewPartition(name, taken),)))
                assert taken not in store.list_partitions(name)
        for place in ("file:/ext/p", "file:/ext"):
            with pytest.raises(CatalogError, match=r"is not free: a partition of shop\.orders"):
                store.create_table(table(TableName("shop", "new"), place))
            with pytest.raises(CatalogError, match=r"is not free: a partition of shop\.orders"):
                store.create_database(replace(database("other"), location=place))
        place_of = {place.owner: place.location for place in store.places()}
        assert place_of == {
            "database shop": database().location,
            "table shop.orders": table(ORDERS).location,
            "table shop.stock": table(STOCK).location,
            "a partition of shop.orders": "file:/ext/p",
        }
        renamed = TableName("shop", "renamed")
        store.alter_table(ORDERS, table(renamed, table(ORDERS).location))
        with pytest.raises(CatalogError, match=r"is not free: a partition of shop\.renamed"):
            store.add_partitions(STOCK, [there])
        store.drop_partitions(renamed, [there])
        store.add_partitions(STOCK, [there])
        store.drop_table(STOCK)
        store.create_table(table(STOCK, "file:/ext"))

    def test_no_database_holds_what_is_of_others(self, store: Store) -> None:
        """It is neither at, nor around, another database or a table, nor in a table."""
        store.create_database(database())
        store.create_table(table(ORDERS, "file:/wh/a/b"))
        for place in (database().location, "file:/wh", "file:/wh/a/b", "file:/wh/a", "file:/wh/a/b/c"):
            with pytest.raises(CatalogError, match="is not free"):
                store.create_database(replace(database("other"), location=place))
        store.create_database(replace(database("other"), location=f"{database().location}/inside"))
        assert store.list_databases() == ("other", "shop")

    def test_of_those_who_take_one_place_at_once_one_gets_it(self, store: Store) -> None:
        """Tables and partitions of two tables, all at the same time."""
        store.create_database(database())
        for name in (ORDERS, STOCK):
            store.create_table(table(name))
        there = Partition(("2026-01-01", "oslo"), "file:/ext/p")
        deeds: list[Callable[[], None]] = [
            *(partial(store.add_partitions, name, [there]) for name in (ORDERS, STOCK)),
            *(partial(store.create_table, table(TableName("shop", f"t{n}"), "file:/ext")) for n in range(3)),
            # at the partition's place: a database may hold tables and partitions of others, if it is there first
            partial(store.create_database, replace(database("other"), location="file:/ext/p")),
        ]

        def succeeds(deed: Callable[[], None]) -> bool:
            try:
                deed()
            except CatalogError:
                return False
            return True

        with ThreadPoolExecutor(len(deeds)) as pool:
            assert list(pool.map(succeeds, deeds)).count(True) == 1

    @pytest.mark.parametrize("bad", ["", "a\0b", "\udfff", "x" * 257])
    def test_impossible_names_are_refused(self, store: Store, bad: str) -> None:
        """NUL, half characters, nothing, more than Hive allows."""
        store.create_database(database())
        with pytest.raises(CatalogError):
            store.create_database(database(bad))
        with pytest.raises(CatalogError):
            store.create_table(table(TableName("shop", bad)))
        with pytest.raises(CatalogError):
            store.get_table(TableName("shop", bad))
        with pytest.raises(CatalogError):
            store.drop_table(TableName(bad, "orders"))

    def test_altering(self, store: Store) -> None:
        """The definition is replaced as a whole; partitions stay."""
        store.create_database(database())
        store.create_table(table())
        one = Partition(("2026-01-01", "oslo"), "file:/p1")
        store.add_partitions(ORDERS, [one])
        changed = replace(table(), columns=(Column("only", "bigint"),), properties=(("k", "v"),))
        store.alter_table(ORDERS, changed)
        assert store.get_table(ORDERS) == changed
        assert store.list_partitions(ORDERS) == (one,)
        with pytest.raises(NoSuchTableError):
            store.alter_table(STOCK, table(STOCK))

    def test_a_definition_that_changed_since_it_was_seen_is_not_replaced(self, store: Store) -> None:
        """A client that was paused beyond the time-out of its lock would take back what others changed."""
        store.create_database(database())
        store.create_table(table())
        seen = store.get_table(ORDERS)
        assert seen is not None
        newer = seen.with_properties({"k": "newer"})
        store.alter_table(ORDERS, newer, seen=seen)
        with pytest.raises(WriteConflictError, match="was altered meanwhile"):
            store.alter_table(ORDERS, seen.with_properties({"k": "older"}), seen=seen)
        with pytest.raises(WriteConflictError, match="was altered meanwhile"):
            store.put_constraints(seen, [])
        (txn_id,) = store.open_txns(CLIENT)
        with pytest.raises(WriteConflictError, match="was altered meanwhile"):
            store.commit_txn(txn_id, CatalogChanges(altered=(seen,), seen=(seen,)))
        assert (store.get_table(ORDERS), store.txn_state(txn_id)) == (newer, "aborted")
        (txn_id,) = store.open_txns(CLIENT)
        store.commit_txn(txn_id, CatalogChanges(altered=(seen,), seen=(newer,)))
        assert store.get_table(ORDERS) == seen
        store.create_view(view())
        other = replace(view(), text="SELECT 1", outputs=())
        store.alter_view(view().name, other, view())
        with pytest.raises(WriteConflictError, match="was altered meanwhile"):
            store.alter_view(view().name, replace(view(), comment="older"), view())
        assert store.get_view(view().name) == other

    def test_constraints(self, store: Store) -> None:
        """They come back as they were given, and stay over a change of the definition."""
        store.create_database(database())
        check = Constraint(ConstraintKind.CHECK, "ck", None, f"item <> '{ODD}'", rely=False)
        key = Constraint(
            ConstraintKind.FOREIGN_KEY, "fk", enabled=False, key=("id",), parent=STOCK, parent_key=("x",)
        )
        made = replace(table(), constraints=(check, key))
        store.create_table(made)
        assert store.get_table(ORDERS) == made
        assert store.constraints(made, keys=True) == (check, key)
        store.put_constraints(made, [key])
        assert store.get_table(ORDERS) == replace(made, constraints=(key,))
        changed = replace(made, columns=(Column("id", "bigint"),), constraints=(key,))
        store.alter_table(ORDERS, changed)
        assert store.get_table(ORDERS) == changed

    def test_renaming(self, store: Store) -> None:
        """Into another database too, with all partitions; never onto another table."""
        for name in ("shop", "bank"):
            store.create_database(database(name))
        for existing in (ORDERS, STOCK):
            store.create_table(table(existing))
        one = Partition(("2026-01-01", "oslo"), "file:/p1")
        store.add_partitions(ORDERS, [one])
        with pytest.raises(AlreadyExistsError):
            store.alter_table(ORDERS, table(STOCK))
        with pytest.raises(NoSuchDatabaseError):
            store.alter_table(ORDERS, table(TableName("none", "orders")))
        moved = table(TableName("bank", "old_orders"))
        store.alter_table(ORDERS, moved)
        assert store.get_table(ORDERS) is None
        assert store.get_table(moved.name) == moved
        assert store.list_partitions(moved.name) == (one,)
        with pytest.raises(NoSuchTableError):
            store.list_partitions(ORDERS)
        store.drop_table(STOCK)
        store.drop_database("shop")

    def test_a_table_takes_the_place_of_another(self, store: Store) -> None:
        """In one step: partitions and write ids are those of the new one."""
        store.create_database(database())
        for existing in (ORDERS, STOCK):
            store.create_table(table(existing))
        store.add_partitions(ORDERS, [Partition(("2026-01-01", "oslo"), "file:/p1")])
        one = Partition(("2026-01-02", "oslo"), "file:/p2")
        store.add_partitions(STOCK, [one])
        store.seed_write_ids(ORDERS, WriteId(7), ())
        store.seed_write_ids(STOCK, WriteId(3), ())
        new = replace(table(ORDERS), location=table(STOCK).location)
        store.alter_table(STOCK, new, replacing=store.get_table(ORDERS))
        assert store.get_table(ORDERS) == new
        assert store.get_table(STOCK) is None
        assert store.list_partitions(ORDERS) == (one,)
        assert current_write_ids_of(store, ORDERS).high_watermark == 3
        other = table(TableName("shop", "other"))
        store.alter_table(ORDERS, other, replacing=other)  # which is gone already
        assert store.get_table(other.name) == other

    def test_a_later_table_of_the_same_name_is_not_touched(self, store: Store) -> None:
        """By a client that has read the earlier one, and was paused until it lost its lock."""
        store.create_database(database())
        store.create_table(table())
        earlier = store.get_table(ORDERS)
        store.drop_table(ORDERS, earlier)
        store.create_table(table())
        kept = Partition(("2026-01-01", "oslo"), "file:/p1")
        store.add_partitions(ORDERS, [kept], seen=store.get_table(ORDERS))
        (txn_id,) = store.open_txns(CLIENT)
        store.allocate_write_ids([txn_id], ORDERS)
        store.commit_txn(txn_id)
        content = table(STOCK)
        store.create_table(content)
        changes: tuple[Callable[[], None], ...] = (
            lambda: store.drop_table(ORDERS, earlier),
            lambda: store.add_partitions(
                ORDERS, [Partition(("2026-01-02", "oslo"), "file:/p2")], seen=earlier
            ),
            lambda: store.drop_partitions(ORDERS, [kept], earlier),
            lambda: store.alter_table(STOCK, replace(content, name=ORDERS), replacing=earlier),
        )
        for change in changes:
            with pytest.raises(WriteConflictError, match="dropped and created again"):
                change()
        assert [partition.values for partition in store.list_partitions(ORDERS)] == [kept.values]
        assert current_write_ids_of(store, ORDERS).high_watermark == 1
        assert store.get_table(STOCK) is not None

    def test_each_creation_has_an_incarnation_of_its_own(self, store: Store) -> None:
        """RENAME and ALTER keep it; DROP and CREATE in the same second give another, which an older definition cannot change."""
        store.create_database(database())
        store.create_table(replace(table(), incarnation="of another store"))
        first = _definition(store, ORDERS)
        assert first.incarnation not in ("", "of another store")
        store.alter_table(ORDERS, first.with_properties({"k": "v"}))
        (txn_id,) = store.open_txns(CLIENT)
        store.commit_txn(txn_id, CatalogChanges(altered=(first.with_properties({"k": "w"}),)))
        store.alter_table(ORDERS, table(STOCK))
        renamed = _definition(store, STOCK)
        assert first.is_same_table(renamed)
        store.drop_table(STOCK)
        store.create_table(table())
        second = _definition(store, ORDERS)
        assert second == first
        assert not first.is_same_table(second)
        assert not first.is_same_table(None)
        (txn_id,) = store.open_txns(CLIENT)
        with pytest.raises(WriteConflictError, match="created again"):
            store.alter_table(ORDERS, first.with_properties({"k": "v"}))
        with pytest.raises(WriteConflictError, match="created again"):
            store.commit_txn(txn_id, CatalogChanges(altered=(first,)))
        assert _definition(store, ORDERS) == second
        (txn_id,) = store.open_txns(CLIENT)
        store.commit_txn(txn_id, CatalogChanges(tables=(table(STOCK, "file:/wh/other"),)))
        new = _definition(store, STOCK)
        assert new.incarnation not in ("", second.incarnation)
        store.alter_table(STOCK, replace(new, name=ORDERS), replacing=second)
        assert new.is_same_table(_definition(store, ORDERS))

    def test_partitions(self, store: Store) -> None:
        """Added once, sorted by values, dropped by values; none and empty are the default partition."""
        store.create_database(database())
        store.create_table(table())
        store.create_table(table(STOCK))
        assert store.list_partitions(ORDERS) == ()
        default = Partition((None, "a/b=c'\""), "file:/p0", (("k", "v\0"),))
        later = Partition(("2026-01-02", "ö"), "file:/p2")
        early = Partition(("2026-01-01", "z" * 3000), "file:/p1")
        store.add_partitions(ORDERS, [later, default])
        for elsewhere in (replace(later, location="elsewhere"), Partition(("", "a/b=c'\""), "elsewhere")):
            with pytest.raises(WriteConflictError, match="lies in file:/p"):
                store.add_partitions(ORDERS, [early, elsewhere, early])
        assert store.list_partitions(ORDERS) == (later, default)
        store.add_partitions(ORDERS, [early, later, early])
        store.add_partitions(ORDERS, [])
        assert store.list_partitions(ORDERS) == (early, later, default)
        assert store.list_partitions(STOCK) == ()
        store.drop_partitions(ORDERS, [replace(early, location="any"), Partition(("x", "y"), "not there")])
        assert store.list_partitions(ORDERS) == (later, default)
        store.drop_partitions(ORDERS, [default, later])
        assert store.list_partitions(ORDERS) == ()

    def test_a_partition_remembers_whose_writers_had_ended_before_it(self, store: Store) -> None:
        """The lowest open write id of the table, the creator's own among them; a higher one that came with it stays."""
        store.create_database(database())
        store.create_table(table())

        def record(city: str, lowest: int = 0) -> int:
            partition = Partition(("2026-01-01", city), f"file:/{city}", min_write_id=lowest)
            store.add_partitions(ORDERS, [partition])
            return _lowest(city)

        def _lowest(city: str) -> int:
            (found,) = (p for p in store.list_partitions(ORDERS) if p.values == ("2026-01-01", city))
            return found.min_write_id

        assert (record("a"), record("b", 7)) == (1, 7)
        aborted, creator, other = store.open_txns(CLIENT, 3)
        store.allocate_write_ids([aborted, creator, other], ORDERS)
        assert (record("c"), int(store.ended_up_to(ORDERS))) == (1, 0)
        store.abort_txns([aborted], "test")
        new = NewPartition(ORDERS, Partition(("2026-01-01", "d"), "file:/d"))
        store.commit_txn(creator, CatalogChanges(partitions=(new,)))
        assert (_lowest("d"), record("e"), int(store.ended_up_to(ORDERS))) == (2, 3, 2)
        store.commit_txn(other, CatalogChanges(partitions=(new,)))
        assert (_lowest("d"), record("f"), int(store.ended_up_to(ORDERS))) == (2, 4, 3)
        assert store.list_partitions(ORDERS)[0].min_write_id == 1

    def test_partitions_of_no_table(self, store: Store) -> None:
        """Nothing to add to, list or drop from."""
        store.create_database(database())
        one = Partition(("1", "2"), "file:/p")
        for verb in (store.add_partitions, store.drop_partitions):
            with pytest.raises(NoSuchTableError):
                verb(ORDERS, [one])
        with pytest.raises(NoSuchTableError):
            store.list_partitions(ORDERS)

    def test_partitions_go_with_their_table(self, store: Store) -> None:
        """A new table of the same name has none."""
        names = table().partition_column_names
        store.create_database(database())
        store.create_table(table())
        # at their default locations, which the store need not compare with each other
        places = [
            (values, format_partition(names, values)) for values in ((f"{n}", "x") for n in range(2000))
        ]
        new = [Partition(values, f"{table().location}/{place}") for values, place in places]
        store.add_partitions(ORDERS, new)
        assert len(store.list_partitions(ORDERS)) == 2000
        store.drop_table(ORDERS)
        store.create_table(table())
        assert store.list_partitions(ORDERS) == ()
