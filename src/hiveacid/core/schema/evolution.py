"""Schema evolution: the column of a file for each column of a table, and the changes of columns that files survive.

ALTER TABLE adds, renames, moves and widens columns, and does not change the files. Hive 4 and Trino match the columns
of ORC files by position, Hive 3 by name (without case). All of them match fields of nested structs by name
(``SchemaEvolution`` matches by position only at the top level). Files of Hive 2 and older have no names (``_col0``,
``_col1`` …) and are matched by position. ORC converts the values, as in Hive. A conversion that gives different
results in different versions of Hive is an error.

ALTER TABLE may rename, comment, widen, move or add a column if every file, also of a statement that still runs,
gives each column its values. Columns of text files are found by position, those of Parquet and Avro files by name. Any
other change is refused, as Hive refuses it (``AlterTableChangeColumnOperation``, ``AlterTableReplaceColumnsOperation``,
the metastore's rule of compatible types) or, where Hive does not, because columns would show NULL or values of others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.schema import types as hive_types
from hiveacid.core.schema.storage_formats import FileKind, supported_file_kind
from hiveacid.core.schema.types import Primitive, parse_type
from hiveacid.errors import SchemaMismatchError, UnsupportedFeatureError, no_such_column

ORC_POSITIONAL = "orc.force.positional.evolution"
"""Table property (ORC's own name), true or false; it overrides the rule of the layout level."""
FIRST = ""
"""Place of a column before all others (``ColumnChange.after``)."""
_NEW_TABLE = "CREATE TABLE ... AS SELECT a new table"
_TEXTS = ("char", "varchar", "string")  # each can become a later one
_NAMELESS = re.compile(r"_col[0-9]+")
_TEXT = frozenset({"string", "varchar", "char"})
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_TIME = frozenset({"timestamp", hive_types.LOCAL_TIMESTAMP})
_NUMBER = hive_types.NUMERIC_TYPES | {"boolean"}


class Matching(StrEnum):
    """Rule that matches the columns of an ORC file to those of the table."""

    POSITION = "position"
    NAME = "name"


def matching(table: TableDefinition, level: LayoutLevel) -> Matching:
    """Return the rule for a table's ORC files: its property decides, or else its layout level."""
    forced = (table.property(ORC_POSITIONAL) or "").strip().lower()
    if forced in ("true", "false"):
        return Matching.POSITION if forced == "true" else Matching.NAME
    return Matching.NAME if level is LayoutLevel.HIVE3 else Matching.POSITION


@dataclass(frozen=True)
class ColumnSource:
    """Source of one column of the table in a file.

    ``name``: name under which the reader finds the column (None: the file has no such column, its value is NULL).
    ``type``: type to request from the reader: that of the table's column, with the field names of nested structs as
    in the file. ``cut``: texts may be longer than the column allows. ``problem``: why the values cannot be read; a
    query that needs the column fails with this text. ``converted``: values of the one type are no values of the other.
    """

    name: str | None
    type: hive_types.HiveType
    cut: bool = False
    problem: str | None = None
    converted: bool = False


@dataclass(frozen=True)
class ColumnMapping:
    """Mapping of a table's columns to a file's, with the types to read.

    ``columns``: one source for each column of the table. ``positional``: None if the names in the file are usable.
    Otherwise the types to request for all columns of the file, in its order, under the names ``c0``, ``c1`` ….
    """

    columns: tuple[ColumnSource, ...]
    positional: tuple[hive_types.HiveType, ...] | None = None


def identity_mapping(columns: Sequence[Column]) -> ColumnMapping:
    """Return the mapping of files whose columns are exactly those of the table."""
    fields = (hive_types.Field(c.name, parse_type(c.type)) for c in columns)
    return map_columns(columns, hive_types.Struct(tuple(fields)), Matching.POSITION)


def map_columns(columns: Sequence[Column], file: hive_types.Struct, how: Matching) -> ColumnMapping:
    """Decide how a file whose row has the fields ``file`` (names as written) is read for a table's columns."""
    names = [field.name for field in file.fields]
    if names and all(map(_NAMELESS.fullmatch, names)):
        how = Matching.POSITION
    places = [_position_in_file(number, column, names, how) for number, column in enumerate(columns)]
    if _names_are_usable(names):
        sources = (_by_name(column, place, file) for column, place in zip(columns, places, strict=True))
        return ColumnMapping(tuple(sources))
    columns_by_place = {
        place: column for column, place in zip(columns, places, strict=True) if place is not None
    }
    requested = {
        place: _request(file.fields[place].type, parse_type(c.type)) for place, c in columns_by_place.items()
    }
    sources = (
        ColumnSource(None, parse_type(column.type))
        if place is None
        else _source(f"c{place}", column, file.fields[place], requested[place])
        for column, place in zip(columns, places, strict=True)
    )
    types = (
        requested[place].type if place in requested and not requested[place].problem else field.type
        for place, field in enumerate(file.fields)
    )
    return ColumnMapping(tuple(sources), tuple(types))


def _position_in_file(number: int, column: Column, names: Sequence[str], how: Matching) -> int | None:
    if how is Matching.POSITION:
        return number if number < len(names) else None
    positions = [position for position, name in enumerate(names) if name.lower() == column.name]
    return positions[-1] if positions else None  # if names differ only in case, ORC takes the last


def _names_are_usable(names: Sequence[str]) -> bool:
    """Tell whether a reader finds fields by these names.

    ORC ignores names like ``_col0``; Spark asks for a name with a back-quote in a way that ORC misreads.
    """
    if names and all(map(_NAMELESS.fullmatch, names)):
        return False
    return len({name.lower() for name in names}) == len(names) and not any("`" in name for name in names)


def _by_name(column: Column, place: int | None, file: hive_types.Struct) -> ColumnSource:
    if place is None:
        taken = any(field.name.lower() == column.name for field in file.fields)
        return ColumnSource(None if taken or "`" in column.name else column.name, parse_type(column.type))
    field = file.fields[place]
    return _source(field.name, column, field, _request(field.type, parse_type(column.type)))


@dataclass(frozen=True)
class _Request:
    type: hive_types.HiveType
    cut: bool = False
    problem: str | None = None


def _source(name: str, column: Column, field: hive_types.Field, requested: _Request) -> ColumnSource:
    if requested.problem is None:
        converted = _is_converted(field.type, requested.type)
        return ColumnSource(name, requested.type, requested.cut, converted=converted)
    problem = f"column {column.name} is {column.type}, but {field.name} in the file is {field.type}: {requested.problem}"
    return ColumnSource(None, parse_type(column.type), problem=problem)


def _is_converted(have: hive_types.HiveType, want: hive_types.HiveType) -> bool:
    if not isinstance(have, Primitive) or not isinstance(want, Primitive):
        return False
    families = (hive_types.INTEGER_TYPES, _TEXT, ("float", "double"))
    return have.name != want.name and not any({have.name, want.name} <= {*family} for family in families)


def _request(have: hive_types.HiveType, want: hive_types.HiveType) -> _Request:
    """Return the type to request for values that are stored as ``have`` in a column of type ``want``."""
    match have, want:
        case Primitive(), Primitive():
            if not _is_convertible(have.name, want.name):
                return _Request(
                    want,
                    problem="ORC cannot convert these types, or versions of Hive convert them differently",
                )
            bounded = have.name in ("varchar", "char") and want.args and have.args[0] <= want.args[0]
            return _Request(want, cut=want.name == "varchar" and not bounded)
        case hive_types.Array(element=stored), hive_types.Array(element=wanted):
            item = _request(stored, wanted)
            return _Request(hive_types.Array(item.type), item.cut, item.problem)
        case hive_types.Map(key=stored_key, value=stored), hive_types.Map(key=wanted_key, value=wanted):
            key, item = _request(stored_key, wanted_key), _request(stored, wanted)
            return _Request(
                hive_types.Map(key.type, item.type), key.cut or item.cut, key.problem or item.problem
            )
        case hive_types.Struct(), hive_types.Struct():
            return _request_struct(have, want)
    return _Request(want, problem="a nested type cannot be read as another kind of type")


def _request_struct(have: hive_types.Struct, want: hive_types.Struct) -> _Request:
    by_name = {field.name.lower(): field for field in have.fields}
    fields: list[hive_types.Field] = []
    cut, problem = False, None
    for field in want.fields:
        stored = by_name.get(field.name)
        if stored is None:
            fields.append(field)
            continue
        requested = _request(stored.type, field.type)
        fields.append(hive_types.Field(stored.name, requested.type))
        cut, problem = cut or requested.cut, problem or requested.problem
    if any("`" in field.name for field in (*fields, *have.fields)):
        problem = "a field name contains a back-quote, which Spark cannot read"
    return _Request(hive_types.Struct(tuple(fields)), cut, problem)


def _is_convertible(have: str, want: str) -> bool:
    """Tell whether ORC converts one type to the other with the same result in every version of Hive.

    Rules: ``ConvertTreeReaderFactory.canConvert``. Hive 3 and 4 convert between numbers and timestamps differently
    (in the zone of the reader, or in UTC).
    """
    if have == want or want in _TEXT or have in _TEXT:
        return True
    if have in _NUMBER:
        return want in _NUMBER
    if have in _TIME or have == "date":
        return want in _TIME or want == "date"
    return False


def is_widening(stored_type: Primitive, table_type: Primitive) -> bool:
    """Tell whether every stored value has one value of the other type, perhaps cut or rounded; Spark's reads convert more."""
    if stored_type == table_type or (stored_type.name in _TEXT and table_type.name in _TEXT):
        return True
    if stored_type.name in hive_types.INTEGER_TYPES:
        if table_type.name in hive_types.INTEGER_TYPES:
            return hive_types.INTEGER_TYPES.index(stored_type.name) <= hive_types.INTEGER_TYPES.index(
                table_type.name
            )
        if table_type.name == "decimal":
            return table_type.args[0] - table_type.args[1] >= _DIGITS[stored_type.name]
        return table_type.name in ("double", "string")
    if stored_type.name == table_type.name == "decimal":
        whole = table_type.args[0] - table_type.args[1] >= stored_type.args[0] - stored_type.args[1]
        return whole and table_type.args[1] >= stored_type.args[1]
    return (stored_type.name, table_type.name) == ("float", "double")


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

    Raises NoSuchColumnError, SchemaMismatchError, UnsupportedFeatureError. Files keep a dropped column: by position the
    ones behind it would show its values, and by name a later one of that name would.
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
