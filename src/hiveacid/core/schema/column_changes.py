"""Changes of a table's columns that leave its files as they are: rename, comment, wider type, other place, new columns.

Columns of ORC files (by `core.schema.evolution`) and of text files are found by position, those of Parquet and Avro files by name.
Hive 3 finds those of ORC files by name as well. A change is possible if every file that exists, or that a running statement still writes, gives
each column its values. Any other one is refused, as Hive refuses it (``AlterTableChangeColumnOperation``,
``AlterTableReplaceColumnsOperation``, the metastore's rule of compatible types) or, where Hive does not, because columns would
show NULL or values of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.schema.evolution import ORC_POSITIONAL, Matching, is_widening, matching
from hiveacid.core.schema.storage_formats import FileKind, supported_file_kind
from hiveacid.core.schema.types import Primitive, parse_type
from hiveacid.errors import SchemaMismatchError, UnsupportedFeatureError, no_such_column

FIRST = ""
"""Place of a column before all others (``ColumnChange.after``)."""
_NEW_TABLE = "CREATE TABLE ... AS SELECT a new table"
_TEXTS = ("char", "varchar", "string")  # each can become a later one


@dataclass(frozen=True)
class ColumnChange:
    """Change of one column by ALTER TABLE; what is None stays as it is.

    ``after``: the column that comes before it then, or `FIRST`.
    """

    column: str
    name: str | None = None
    type: str | None = None
    comment: str | None = None
    after: str | None = None


def change_column(table: TableDefinition, level: LayoutLevel, change: ColumnChange) -> TableDefinition:
    """Return the definition with one column changed.

    Raises NoSuchColumnError, SchemaMismatchError (the column of a partition); UnsupportedFeatureError for a change after which
    older rows could not be read right.
    """
    index = _index(table, change.column)
    old = table.columns[index]
    comment = old.comment if change.comment is None else change.comment
    new = Column(change.name or old.name, change.type or old.type, comment)
    _require_readable(table, old, new, level)
    columns = [*table.columns]
    columns[index] = new
    if change.after is not None:
        del columns[index]
        names = [column.name for column in columns]
        if change.after != FIRST and change.after not in names:
            raise no_such_column(table.name, change.after, names)
        target = 0 if change.after == FIRST else names.index(change.after) + 1
        columns.insert(target, new)
        # ORC, although now perhaps by name: the rule may be another one later
        if target != index and (kind := supported_file_kind(table)) in (FileKind.ORC, FileKind.TEXTFILE):
            raise UnsupportedFeatureError(
                f"{table.name}: the columns of {kind.upper()} files are found by position, so {old.name} cannot move (Hive refuses it, "
                f"too): name the columns in queries in the order that you want, or {_NEW_TABLE}"
            )
    return _with_columns(table, columns)


def replace_columns(table: TableDefinition, level: LayoutLevel, columns: Sequence[Column]) -> TableDefinition:
    """Return the definition with other columns: those that it has, in their places, perhaps renamed or wider, then new ones.

    Raises UnsupportedFeatureError as `change_column` does.
    """
    if len(columns) < len(table.columns):
        raise _drop_refused(table, table.columns[len(columns)].name)
    names = table.column_names[: len(table.columns)]
    for old, new in zip(table.columns, columns, strict=False):
        if new.name != old.name and new.name in names:
            raise UnsupportedFeatureError(
                f"{table.name}: {new.name} would show the values of {old.name}: REPLACE COLUMNS cannot change the order; {_NEW_TABLE}"
            )
        _require_readable(table, old, new, level)
    return _with_columns(table, columns)


def drop_columns(table: TableDefinition, names: Sequence[str], *, if_exists: bool) -> TableDefinition:
    """Return the definition without columns; that is possible only for those that it lacks already, with ``if_exists``.

    Raises NoSuchColumnError, SchemaMismatchError, UnsupportedFeatureError. Files keep a dropped column: by position the ones behind
    it would show its values, and by name a later one of that name would.
    """
    present = [name for name in names if name in table.column_names]
    if not if_exists or present:
        for name in present or names:
            _index(table, name)
        raise _drop_refused(table, (present or names)[0])
    return table


def _index(table: TableDefinition, name: str) -> int:
    if name in table.partition_column_names:
        raise SchemaMismatchError(
            f"{table.name} is partitioned by {name}, which names its directories and cannot be changed: {_NEW_TABLE}"
        )
    names = [column.name for column in table.columns]
    if name not in names:
        raise no_such_column(table.name, name, names)
    return names.index(name)


def _drop_refused(table: TableDefinition, name: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{table.name}: column {name} cannot be dropped, because files keep it (Hive refuses it, too): leave it out by a view, or "
        f"{_NEW_TABLE}, DROP TABLE {table.name}, ALTER TABLE ... RENAME TO {table.name}"
    )


def _with_columns(table: TableDefinition, columns: Sequence[Column]) -> TableDefinition:
    """Return the definition with these columns. Names that older files lack bind the table to positions, in every session."""
    kept = zip(table.columns, columns, strict=False)
    if supported_file_kind(table) is FileKind.ORC and any(old.name != new.name for old, new in kept):
        table = table.with_properties({ORC_POSITIONAL: "true"})
    return replace(table, columns=tuple(columns))


def _require_readable(table: TableDefinition, old: Column, new: Column, level: LayoutLevel) -> None:
    """Raise UnsupportedFeatureError unless files with ``old`` give ``new`` its values."""
    kind = supported_file_kind(table)
    if new.name != old.name:
        # Hive 3 reads by name, whatever the table's property says
        by_name = level is LayoutLevel.HIVE3 or matching(table, level) is Matching.NAME
        if by_name if kind is FileKind.ORC else kind is not FileKind.TEXTFILE:
            raise UnsupportedFeatureError(
                f"{table.name}: its {kind.upper()} files hold columns by name, so rows written before would show NULL in {new.name} "
                f"instead of their {old.name}: rename it in a view, or {_NEW_TABLE}"
            )
    bucketing = table.bucketing
    buckets = (*bucketing.columns, *bucketing.sort_columns) if bucketing else ()
    if old.name in buckets and (new.name, new.type) != (old.name, old.type):
        raise UnsupportedFeatureError(
            f"{table.name} is CLUSTERED BY {old.name}: name and type of the column cannot change, as the buckets of its rows depend on it; {_NEW_TABLE}"
        )
    if new.type != old.type and not _widens(kind, old.type, new.type):
        raise UnsupportedFeatureError(
            f"{table.name}: {old.name} is {old.type} and cannot become {new.type}: a type changes only to a wider one, as int to bigint or "
            f"decimal, float to double, varchar(3) to varchar(5) or string{'' if kind is FileKind.ORC else ' (the last two alone in ' + kind.upper() + ' files)'}"
            f"; {_NEW_TABLE}"
        )


def _widens(kind: FileKind, old: str, new: str) -> bool:
    """Tell whether files of a kind that hold one type are read as the other, by every reader and without loss."""
    stored, wanted = parse_type(old), parse_type(new)
    if not isinstance(stored, Primitive) or not isinstance(wanted, Primitive):
        return False
    if stored.name in _TEXTS and wanted.name in _TEXTS:
        is_longer = not wanted.args or (bool(stored.args) and stored.args <= wanted.args)
        is_kept = kind is FileKind.ORC or (kind is not FileKind.AVRO and stored.name != "char")
        return is_kept and is_longer and _TEXTS.index(stored.name) <= _TEXTS.index(wanted.name)
    is_exact = (stored.name, wanted.name) != ("bigint", "double")
    return kind is FileKind.ORC and is_exact and is_widening(stored, wanted)
