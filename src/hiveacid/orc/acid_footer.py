"""Footer of a file with ACID columns: a flat file gets its true schema; findings.

Spark writes flat columns ``operation, originalTransaction, bucket, rowId, currentTransaction, row, c0 … cn``; ``row``
is a boolean placeholder. The rewrite makes ``row`` the struct of the columns after it. ORC numbers columns in
pre-order, so no column id changes. Streams, stripes and statistics stay as they are. This costs a third of a nested
write. Hive 3.1.3 and 4.0.1, Trino 476, Spark, pyorc and pyarrow accept the result. In delete events ``row`` is null in
every row, and readers ignore the children of null structs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hiveacid.core.format.acid_columns import (
    FORMAT_VERSION,
    KEY_INDEX,
    STATISTICS,
    AcidColumn,
    AcidStatistics,
    Range,
    RecordKey,
    decode_bucket_property,
    parse_key_index,
    parse_statistics,
)
from hiveacid.core.model import Column, WriteId
from hiveacid.core.schema.types import Array, Map, Primitive, Struct, Union, parse_type
from hiveacid.core.schema.types import HiveType as Type
from hiveacid.core.snapshot.check_findings import CheckedFile, EventFacts, Finding, FindingKind
from hiveacid.errors import BadFileError
from hiveacid.orc.key_order import key_index, require_valid_events
from hiveacid.orc.tail import HIVE_NAMES, OrcKind, OrcTail, OrcType, TailBytes
from hiveacid.orc.wire_format import compress, encode_field, encode_packed

_NAMES = tuple(AcidColumn)
_TYPES, _USER_METADATA = 4, 5  # of the footer
_PLAIN_KINDS = {
    **{name: kind for kind, name in HIVE_NAMES.items()},
    "varchar": OrcKind.VARCHAR,
    "char": OrcKind.CHAR,
    "decimal": OrcKind.DECIMAL,
}
_TEXTS = frozenset({OrcKind.STRING, OrcKind.VARCHAR, OrcKind.CHAR})
_TIMES = frozenset({OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT})


def acid_metadata(tail: OrcTail, *, deletes: bool) -> dict[str, str]:
    """Return the user metadata that Hive's writer would give a staged file of insert or delete events.

    The entries are ``hive.acid.version``, exact ``hive.acid.stats`` (``inserts,updates,deletes``) and, if stripe
    statistics determine it, ``hive.acid.key.index``. Hive 3.1.3 cannot read a delete delta without statistics, and
    ignores its deletes if they say 0. Raises BadFileError if statistics show wrong events or a wrong key order.
    """
    _root(tail)
    require_valid_events(tail, deletes=deletes)
    rows = tail.number_of_rows
    counts = AcidStatistics(deletes=rows) if deletes else AcidStatistics(inserts=rows)
    metadata = {FORMAT_VERSION: "2", STATISTICS: counts.to_string()}
    index = key_index(tail)
    return metadata if index is None else metadata | {KEY_INDEX: index}


def nest_row_columns(
    tail: OrcTail, columns: Sequence[Column], user_metadata: Mapping[str, str]
) -> tuple[int, bytes]:
    """Return ``(offset, tail)``: truncated at the offset and followed by the tail, the file is an ACID file.

    Readers find all parts of a tail from its end, so the bytes may also be appended to the whole file.

    ``tail``: of a flat file as above. ``columns``: the table's, in the file's order; the rewrite takes their names and
    types, with the lengths of char and varchar, and drops Spark's type attributes. A timestamp with local time zone
    becomes ORC's instant, so the file must have been written in UTC. Trino and Spark read that type; Hive 3.1.3 and 4.0.1
    do not support it in ORC. ``user_metadata``: entries to add or replace. Raises BadFileError if the file is not such a
    file or a type does not fit.
    """
    root = _root(tail)
    fixed = len(AcidColumn)
    if root.names[:fixed] != _NAMES or tail.types[AcidColumn.ROW.orc_id].kind is not OrcKind.BOOLEAN:
        raise BadFileError("not a flat file of ACID events", path=tail.path)
    types = _with_true_types(tail, root.children[fixed:], columns)
    types[0] = OrcType(OrcKind.STRUCT, root.children[:fixed], _NAMES)
    types[AcidColumn.ROW.orc_id] = OrcType(
        OrcKind.STRUCT, root.children[fixed:], tuple(column.name for column in columns)
    )
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
    footer = compress(_footer(source, types, user_metadata), tail.compression, source.block_size)
    return source.footer_start - len(source.metadata), source.metadata + source.with_postscript(footer)


def _footer(source: TailBytes, types: Sequence[OrcType], user_metadata: Mapping[str, str]) -> bytes:
    out = []
    rest = iter(types)
    replaced = tuple(encode_field(1, key.encode()) for key in user_metadata)  # begins of old entries
    for number, wire, value in source.footer.fields:
        if number == _TYPES:
            out.append(encode_field(_TYPES, _encode_type(next(rest))))
        elif not (number == _USER_METADATA and isinstance(value, bytes) and value.startswith(replaced)):
            out.append(encode_field(number, value, wire))
    for key, text in user_metadata.items():
        entry = encode_field(1, key.encode()) + encode_field(2, text.encode())
        out.append(encode_field(_USER_METADATA, entry))
    return b"".join(out)


def _encode_type(orc_type: OrcType) -> bytes:
    numbers = ((4, orc_type.maximum_length), (5, orc_type.precision), (6, orc_type.scale))
    return b"".join(
        [
            encode_field(1, int(orc_type.kind)),
            encode_packed(2, orc_type.children) if orc_type.children else b"",
            *(encode_field(3, name.encode()) for name in orc_type.names),
            *(encode_field(number, value) for number, value in numbers if value is not None),
        ]
    )


_VERSION = b"2"


def has_acid_columns(tail: OrcTail) -> bool:
    """Tell whether the root has the six ACID columns (compared as a set, as Hive does)."""
    return bool(tail.types) and set(tail.types[0].names) == set(_NAMES)


def check_footer(tail: OrcTail, file: CheckedFile) -> Iterator[Finding]:
    """Check Hive's entries in the footer: counts, key index, version."""
    yield from _statistics(tail, file)
    yield from _key_index(tail, file)
    version = tail.user_metadata.get(FORMAT_VERSION)
    if version != _VERSION:
        text = "is missing" if version is None else f"is {version[:20]!r}"
        yield file.finding(FindingKind.INSERT_METADATA, f"{FORMAT_VERSION} {text}")


def event_facts_of_footer(tail: OrcTail) -> EventFacts:
    """Return the facts about a file's events that its column statistics contain."""
    if not len(tail.column_statistics) or not tail.number_of_rows:
        return EventFacts(tail.number_of_rows)
    filled = [
        tail.column_statistics[column.orc_id].count for column in AcidColumn if column != AcidColumn.ROW
    ]
    nulls = max((tail.number_of_rows - count for count in filled if count is not None), default=0)
    ranges = {column: tail.column_statistics[column.orc_id].integers for column in AcidColumn}
    properties = ranges[AcidColumn.BUCKET]
    bucket, bad_codec = None, 0
    if properties is not None:
        try:
            bucket = Range(
                decode_bucket_property(properties.low).bucket, decode_bucket_property(properties.high).bucket
            )
        except BadFileError:
            bad_codec = 1
    return EventFacts(
        tail.number_of_rows,
        operation=ranges[AcidColumn.OPERATION],
        original=ranges[AcidColumn.ORIGINAL_WRITE_ID],
        current=ranges[AcidColumn.CURRENT_WRITE_ID],
        bucket=bucket,
        nulls=nulls,
        bad_codec=bad_codec,
        properties=properties,
        row_ids=ranges[AcidColumn.ROW_ID],
    )


def _statistics(tail: OrcTail, file: CheckedFile) -> Iterator[Finding]:
    raw = tail.user_metadata.get(STATISTICS)
    rows = tail.number_of_rows
    expected = AcidStatistics(deletes=rows) if file.is_delete else AcidStatistics(inserts=rows)
    kind = FindingKind.DELETE_STATISTICS if file.is_delete else FindingKind.INSERT_METADATA
    if raw is None:
        yield file.finding(kind, f"{STATISTICS} is missing")
        return
    try:
        stated = parse_statistics(raw.decode("ascii", "replace"))
    except BadFileError as error:
        yield file.finding(kind, str(error))
        return
    if stated != expected:
        yield file.finding(kind, f"{STATISTICS} is {stated.to_string()}, the file has {expected.to_string()}")


def _key_index(tail: OrcTail, file: CheckedFile) -> Iterator[Finding]:
    raw = tail.user_metadata.get(KEY_INDEX)
    if raw is None:
        return
    try:
        stated = parse_key_index(raw.decode("ascii", "replace"))
        exact = key_index(tail) if len(stated) == len(tail.stripes) else None
    except BadFileError as error:
        yield file.finding(FindingKind.INSERT_METADATA, str(error))
        return
    if len(stated) != len(tail.stripes):
        message = f"{KEY_INDEX} has {len(stated)} entries for {len(tail.stripes)} stripes"
        yield file.finding(FindingKind.INSERT_METADATA, message)
        return
    truth = _last_keys(tail) if exact is None else parse_key_index(exact)
    too_low = [stripe for stripe, (key, last) in enumerate(zip(stated, truth, strict=False)) if key < last]
    if too_low and not file.is_delete:
        key, last = stated[too_low[0]], truth[too_low[0]]
        message = f"{KEY_INDEX}: stripe {too_low[0]} ends at {_text(key)}, its rows go up to {_text(last)}"
        yield file.finding(FindingKind.KEY_INDEX, message)
    elif exact is not None and list(stated) != list(truth):
        yield file.finding(
            FindingKind.INSERT_METADATA, f"{KEY_INDEX} is {raw[:80]!r}, the rows say {exact[:80]!r}"
        )


def _last_keys(tail: OrcTail) -> tuple[RecordKey, ...]:
    """Return a lower bound of the last key of each stripe: its highest write id, bucket and row id 0."""
    keys = []
    for stripe in tail.stripes:
        top = (
            stripe.statistics[AcidColumn.ORIGINAL_WRITE_ID.orc_id].maximum if len(stripe.statistics) else None
        )
        keys.append(RecordKey(WriteId(top if isinstance(top, int) else -1), 0, 0))
    return tuple(keys)


def _text(key: RecordKey) -> str:
    return f"{key.write_id},{key.bucket_property},{key.row_id}"
