"""Give a flat ORC file its true schema by rewriting only its footer.

Spark writes flat columns ``operation, originalTransaction, bucket, rowId, currentTransaction, row, c0 … cn``; ``row``
is a boolean placeholder. The rewrite makes ``row`` the struct of the columns after it. ORC numbers columns in
pre-order, so no column id changes. Streams, stripes and statistics stay as they are. This costs a third of a nested
write. Hive 3.1.3 and 4.0.1, Trino 476, Spark, pyorc and pyarrow accept the result. In delete events ``row`` is null in
every row, and readers ignore the children of null structs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hiveacid.core.format.record_keys import FORMAT_VERSION, KEY_INDEX, STATISTICS, AcidStatistics
from hiveacid.core.model import Column
from hiveacid.core.schema.types import Array, Map, Primitive, Struct, Union, parse_type
from hiveacid.core.schema.types import HiveType as Type
from hiveacid.errors import BadFileError
from hiveacid.orc.key_order import key_index, require_valid_events
from hiveacid.orc.schema import HIVE_NAMES
from hiveacid.orc.tail import ACID_FIELDS, ROW, OrcKind, OrcTail, OrcType, TailBytes
from hiveacid.orc.wire_format import compress, encode_field, encode_packed

_TYPES, _USER_METADATA = 4, 5  # of the footer
_PLAIN_KINDS = {
    **{name: kind for kind, name in HIVE_NAMES.items()},
    "varchar": OrcKind.VARCHAR,
    "char": OrcKind.CHAR,
    "decimal": OrcKind.DECIMAL,
}
_TEXTS = frozenset({OrcKind.STRING, OrcKind.VARCHAR, OrcKind.CHAR})
_TIMES = frozenset({OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT})


def acid_metadata(tail: OrcTail, path: str, *, deletes: bool) -> dict[str, str]:
    """Return the user metadata that Hive's writer would give a staged file of insert or delete events.

    The entries are ``hive.acid.version``, exact ``hive.acid.stats`` (``inserts,updates,deletes``) and, if stripe
    statistics determine it, ``hive.acid.key.index``. Hive 3.1.3 cannot read a delete delta without statistics, and
    ignores its deletes if they say 0. Raises BadFileError if statistics show wrong events or a wrong key order.
    """
    if not tail.source:
        raise BadFileError("an empty file has no footer", path=path)
    require_valid_events(tail, deletes=deletes)
    rows = tail.number_of_rows
    counts = AcidStatistics(deletes=rows) if deletes else AcidStatistics(inserts=rows)
    metadata = {FORMAT_VERSION: "2", STATISTICS: counts.to_string()}
    index = key_index(tail)
    return metadata if index is None else metadata | {KEY_INDEX: index}


def nest_row_columns(
    tail: OrcTail, columns: Sequence[Column], user_metadata: Mapping[str, str]
) -> tuple[int, bytes]:
    """Return an offset in the file, and bytes: with them in place of the rest after the offset, it is an ACID file.

    Readers find all parts of a tail from its end, so the bytes may also be appended to the whole file.

    ``tail``: of a flat file as above. ``columns``: the table's, in the file's order; the rewrite takes their names and
    types, with the lengths of char and varchar, and drops Spark's type attributes. A timestamp with local time zone
    becomes ORC's instant, so the file must have been written in UTC. Trino and Spark read that type; Hive 3.1.3 and 4.0.1
    do not support it in ORC. ``user_metadata``: entries to add or replace. Raises BadFileError if the file is not such a
    file or a type does not fit.
    """
    root = _root(tail)
    fixed = len(ACID_FIELDS)
    if root.names[:fixed] != ACID_FIELDS or tail.types[ROW].kind is not OrcKind.BOOLEAN:
        raise BadFileError("not a flat file of ACID events", path=tail.path)
    types = _with_true_types(tail, root.children[fixed:], columns)
    types[0] = OrcType(OrcKind.STRUCT, root.children[:fixed], ACID_FIELDS)
    types[ROW] = OrcType(OrcKind.STRUCT, root.children[fixed:], tuple(column.name for column in columns))
    return _rewrite(tail, types, user_metadata)


def set_true_types(
    tail: OrcTail, columns: Sequence[Column], user_metadata: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Give a file without ACID columns (insert-only and plain tables) its true names and types, as `nest_row_columns` does."""
    root = _root(tail)
    types = _with_true_types(tail, root.children, columns)
    types[0] = OrcType(OrcKind.STRUCT, root.children, tuple(column.name for column in columns))
    return _rewrite(tail, types, user_metadata or {})


def _root(tail: OrcTail) -> OrcType:
    if not tail.types:
        raise BadFileError("an empty file has no footer", path=tail.path)
    return tail.types[0]


def _with_true_types(tail: OrcTail, ids: Sequence[int], columns: Sequence[Column]) -> list[OrcType]:
    if len(ids) != len(columns):
        raise BadFileError(f"the file has {len(ids)} columns, the table {len(columns)}", path=tail.path)
    types = list(tail.types)
    for column_id, column in zip(ids, columns, strict=True):
        _set_type(types, column_id, parse_type(column.type), tail.path)
    return types


def _set_type(types: list[OrcType], column_id: int, wanted: Type, path: str) -> None:
    """Give the node its true type, and its children theirs."""
    stored = types[column_id]
    kind, members = _orc_kind(wanted)
    if not _same_encoding(stored, kind, wanted) or len(stored.children) != len(members):
        raise BadFileError(
            f"column {column_id} of the file is {stored.kind.name}, the table says {wanted}", path=path
        )
    names = tuple(field.name for field in wanted.fields) if isinstance(wanted, Struct) else ()
    numbers = wanted.args if isinstance(wanted, Primitive) else ()
    types[column_id] = OrcType(
        kind,
        stored.children,
        names,
        maximum_length=numbers[0] if kind in (OrcKind.CHAR, OrcKind.VARCHAR) else None,
        precision=stored.precision,
        scale=stored.scale,
    )
    for child, member in zip(stored.children, members, strict=True):
        _set_type(types, child, member, path)


def _orc_kind(wanted: Type) -> tuple[OrcKind, tuple[Type, ...]]:
    match wanted:
        case Array(element):
            return OrcKind.LIST, (element,)
        case Map(key, value):
            return OrcKind.MAP, (key, value)
        case Struct(fields):
            return OrcKind.STRUCT, tuple(field.type for field in fields)
        case Union(alternatives):
            return OrcKind.UNION, alternatives
        case Primitive(name):
            return _PLAIN_KINDS[name], ()


def _same_encoding(stored: OrcType, kind: OrcKind, wanted: Type) -> bool:
    """Tell whether the streams of a column have the same encoding under the wanted kind."""
    if kind is OrcKind.DECIMAL and isinstance(wanted, Primitive):
        return stored.kind is kind and (stored.precision or 38, stored.scale) == wanted.args
    alike = next((group for group in (_TEXTS, _TIMES) if kind in group), frozenset({kind}))
    return stored.kind in alike


def _rewrite(tail: OrcTail, types: Sequence[OrcType], user_metadata: Mapping[str, str]) -> tuple[int, bytes]:
    source = tail.source
    if source is None:
        raise BadFileError("an empty file has no footer", path=tail.path)
    footer = compress(_footer(source, types, user_metadata), tail.compression, source.block_size)
    return source.footer_start - len(source.metadata), source.metadata + source.with_postscript(footer)


def _footer(source: TailBytes, types: Sequence[OrcType], user_metadata: Mapping[str, str]) -> bytes:
    out = []
    rest = iter(types)
    for number, wire, value in source.footer.fields:
        if number == _TYPES:
            out.append(encode_field(_TYPES, _encode_type(next(rest))))
        elif number != _USER_METADATA or not _is_key_in(value, user_metadata):
            out.append(encode_field(number, value, wire))
    for key, text in user_metadata.items():
        entry = encode_field(1, key.encode()) + encode_field(2, text.encode())
        out.append(encode_field(_USER_METADATA, entry))
    return b"".join(out)


def _is_key_in(entry: int | bytes, user_metadata: Mapping[str, str]) -> bool:
    """Tell whether an entry of the old footer is replaced by a new one."""
    begins = (encode_field(1, key.encode()) for key in user_metadata)
    return isinstance(entry, bytes) and entry.startswith(tuple(begins))


def _encode_type(of: OrcType) -> bytes:
    numbers = ((4, of.maximum_length), (5, of.precision), (6, of.scale))
    return b"".join(
        [
            encode_field(1, int(of.kind)),
            encode_packed(2, of.children) if of.children else b"",
            *(encode_field(3, name.encode()) for name in of.names),
            *(encode_field(number, value) for number, value in numbers if value is not None),
        ]
    )
