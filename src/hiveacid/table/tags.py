"""Tags: CREATE TAG names a state of a table, which the cleaner keeps until DROP TAG or the end of its time."""

from __future__ import annotations

import re
from dataclasses import replace

from hiveacid.config.property_definitions import TAGS
from hiveacid.core.model import TableDefinition, TableKind, TableName
from hiveacid.core.snapshot.tags import Tag, TagName, format_tags
from hiveacid.errors import AlreadyExistsError, CatalogError, ConfigError, UnsupportedFeatureError
from hiveacid.table.context import Context
from hiveacid.table.definition import exclusive_table, put_definition
from hiveacid.table.partitions import partitions_of
from hiveacid.table.read.history_and_time_travel import PointInTime, find_tag, live_tags, write_ids_at
from hiveacid.table.read.visible_locations import list_as_of

_MOST_TAGS = 1000
_NAME = re.compile(r"[\w.+:-]{1,128}")  # nothing that a literal of SQL would have to escape


def create_tag(
    context: Context,
    table_name: TableName,
    name: str,
    past: PointInTime | None = None,
    *,
    retain: float | None = None,
    or_replace: bool = False,
    if_not_exists: bool = False,
) -> None:
    """Name the state of a table at a point in time, or the present one; keep its files for ``retain`` seconds (None: for ever).

    Raises UnsupportedFeatureError on a metastore, whose cleaner knows no tags, and for plain tables; AlreadyExistsError;
    ConfigError for a name of digits only, or with other characters; NotEnoughHistoryError if the state is not complete any more.
    """
    name = name.lower()
    if not _NAME.fullmatch(name) or name.isdecimal():
        raise ConfigError(
            f"{name[:200]!r} is no name of a tag: use 1 to 128 letters, digits and characters of _.+:- and not only digits"
        )
    if not context.store.maintained_by_hiveacid():
        raise UnsupportedFeatureError(
            f"{table_name}: a Hive Metastore keeps no tags: CREATE TABLE ... AS SELECT copies the present state"
        )
    with exclusive_table(context, table_name) as (table, txn):
        if table.kind is TableKind.PLAIN:
            raise UnsupportedFeatureError(
                f"{table_name} is not transactional: only transactional tables have tags"
            )
        tags = {tag.name: tag for tag in live_tags(context, table)}
        if name in tags and if_not_exists:
            return
        if name in tags and not or_replace:
            raise AlreadyExistsError(
                f"{table_name} has a {TagName(name)} already: CREATE OR REPLACE TAG moves it"
            )
        with context.read_leases.acquire(context.settings) as reader:
            if past is None:
                write_ids = reader.committed_write_ids(table.name)
            else:
                write_ids = write_ids_at(context, table, reader, past)
                # the listing finds what another engine's cleaner took away before the table was adopted
                list_as_of(context, table, partitions_of(context, table, reader), write_ids, reader, past)
        until = None if retain is None else context.store.now() + int(1000 * retain)
        tags[name] = Tag(name, replace(write_ids, table=None), until)
        if len(tags) > _MOST_TAGS:
            raise CatalogError(
                f"{table_name} has {_MOST_TAGS} tags: ALTER TABLE {table_name} DROP TAG removes one"
            )
        put_definition(context, table, table.with_properties({TAGS.name: format_tags(tags.values())}), txn)


def drop_tag(context: Context, table_name: TableName, name: str, *, if_exists: bool = False) -> None:
    """Remove a tag; the next cleaning removes what only it kept. Raises NotEnoughHistoryError if there is none."""
    with exclusive_table(context, table_name) as (table, txn):
        if not if_exists:
            find_tag(context, table, name.lower())
        tags = [tag for tag in live_tags(context, table) if tag.name != name.lower()]
        changed = (
            table.with_properties({TAGS.name: format_tags(tags)})
            if tags
            else table.without_properties(TAGS.name)
        )
        put_definition(context, table, changed, txn)


def require_no_tags(context: Context, table: TableDefinition, verb: str) -> None:
    """Raise UnsupportedFeatureError if a statement would change the rows of a tag."""
    tags = live_tags(context, table)
    if tags:
        raise UnsupportedFeatureError(
            f"{verb}: {table.name} has the {TagName(tags[0].name)}, whose rows would change: "
            f"ALTER TABLE {table.name} DROP TAG {tags[0].name} first, or use DELETE or LOAD DATA, which keep them"
        )
