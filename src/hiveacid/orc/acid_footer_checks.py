"""Findings in the footer of a file with ACID columns."""

from __future__ import annotations

from collections.abc import Iterator

from hiveacid.core.format.record_keys import (
    FORMAT_VERSION,
    KEY_INDEX,
    STATISTICS,
    AcidStatistics,
    RecordKey,
    decode_bucket_property,
    parse_key_index,
    parse_statistics,
)
from hiveacid.core.model import WriteId
from hiveacid.core.snapshot.check_findings import CheckedFile, EventFacts, Finding, FindingKind, Span
from hiveacid.errors import BadFileError
from hiveacid.orc.key_order import key_index
from hiveacid.orc.tail import (
    ACID_FIELDS,
    BUCKET,
    CURRENT_WRITE_ID,
    OPERATION,
    ORIGINAL_WRITE_ID,
    ROW_ID,
    OrcTail,
)

_VERSION = b"2"


def has_acid_columns(tail: OrcTail) -> bool:
    """Tell whether the root has the six ACID columns (compared as a set, as Hive does)."""
    return bool(tail.types) and set(tail.types[0].names) == set(ACID_FIELDS)


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
    columns = (OPERATION, ORIGINAL_WRITE_ID, BUCKET, ROW_ID, CURRENT_WRITE_ID)
    filled = [tail.column_statistics[column].count for column in columns]
    nulls = max((tail.number_of_rows - count for count in filled if count is not None), default=0)
    properties = _span(tail, BUCKET)
    bucket, bad_codec = None, 0
    if properties is not None:
        try:
            bucket = Span(
                decode_bucket_property(properties.low).bucket, decode_bucket_property(properties.high).bucket
            )
        except BadFileError:
            bad_codec = 1
    return EventFacts(
        tail.number_of_rows,
        operation=_span(tail, OPERATION),
        original=_span(tail, ORIGINAL_WRITE_ID),
        current=_span(tail, CURRENT_WRITE_ID),
        bucket=bucket,
        nulls=nulls,
        bad_codec=bad_codec,
        properties=properties,
        row_ids=_span(tail, ROW_ID),
    )


def _span(tail: OrcTail, column: int) -> Span | None:
    ends = tail.column_statistics[column].integers
    return None if ends is None else Span(*ends)


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
        top = stripe.statistics[ORIGINAL_WRITE_ID].maximum if len(stripe.statistics) else None
        keys.append(RecordKey(WriteId(top if isinstance(top, int) else -1), 0, 0))
    return tuple(keys)


def _text(key: RecordKey) -> str:
    return f"{key.write_id},{key.bucket_property},{key.row_id}"
