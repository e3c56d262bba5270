"""Names of partitions as Hive spells them: ``p=a%2Fb/q=1``; the partitions that a spec names.

Rules: Hive's ``FileUtils.escapePathName``, ``unescapePathName`` and ``makePartName``, the same in 3.1 and 4.x.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hiveacid.core.format.names import is_hidden
from hiveacid.core.model import DEFAULT_PARTITION, Partition, TableDefinition
from hiveacid.core.schema.types import LOCAL_TIMESTAMP
from hiveacid.errors import BadDirectoryNameError, ConfigError, NoSuchPartitionError

# not '}', not the blank: Hive's own set
_ESCAPED = {code: f"%{code:02X}" for code in (*range(0x20), *map(ord, "\"#%'*/:=?\\{[]^"), 0x7F)}
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")


def escape(text: str) -> str:
    """Return the text as Hive writes it into a path: a set of characters as ``%XX``, upper-case digits."""
    return text.translate(_ESCAPED)


def unescape(text: str) -> str:
    """Return the text that :func:`escape` encoded. A ``%`` without two hex digits after it stays."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def format_partition(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """Return a partition's name and relative path, ``p=a/q=1``.

    None and the empty text are the default partition (Hive stores no difference). Raises ConfigError when
    there are not as many values as columns.
    """
    if not columns or len(columns) != len(values):
        raise ConfigError(f"partition columns ({', '.join(columns)}) and values ({len(values)}) do not match")
    return "/".join(
        f"{escape(column.lower())}={escape(value or DEFAULT_PARTITION)}"
        for column, value in zip(columns, values, strict=True)
    )


def parse_partition(name: str) -> tuple[tuple[str, str | None], ...]:
    """Read ``p=a/q=1`` into (column, value) pairs; a value is None for the default partition.

    Raises BadDirectoryNameError when a component is not ``column=value``.
    """
    pairs: list[tuple[str, str | None]] = []
    for component in name.split("/"):
        column, equals, value = component.partition("=")
        if not (column and equals and value):
            msg = f"{component!r} is not a partition directory (column=value)"
            raise BadDirectoryNameError(msg, path=name)
        pairs.append((unescape(column).lower(), None if value == DEFAULT_PARTITION else unescape(value)))
    return tuple(pairs)


def parse_partition_values(columns: Sequence[str], name: str) -> tuple[str | None, ...]:
    """Read the values of a partition's name, in the order of the table's partition columns.

    Raises BadDirectoryNameError if the name does not have exactly these columns, in this order.
    """
    pairs = parse_partition(name)
    if [column for column, _ in pairs] != [column.lower() for column in columns]:
        raise BadDirectoryNameError(f"not a partition by ({', '.join(columns)})", path=name)
    return tuple(value for _, value in pairs)


def partition_directories(
    columns: Sequence[str], directories: Iterable[str]
) -> Iterator[tuple[str, tuple[str | None, ...]]]:
    """Yield the paths below a table that are named like its partitions, each with the values."""
    for path in directories:
        if path.count("/") + 1 == len(columns) and not any(map(is_hidden, path.split("/"))):
            with suppress(BadDirectoryNameError):
                yield path, parse_partition_values(columns, path)


def matching_partitions(
    table: TableDefinition, partitions: Iterable[Partition], static: Mapping[str, str | None]
) -> list[Partition]:
    """Return the partitions that have the values of a (partial) spec, given as canonical texts."""
    names = table.partition_column_names
    return [
        partition
        for partition in partitions
        if static.items() <= dict(zip(names, partition.values, strict=True)).items()
    ]


def require_partitions(
    table: TableDefinition, partitions: Iterable[Partition], static: Mapping[str, str | None]
) -> list[Partition]:
    """Return what `matching_partitions` returns. Raises NoSuchPartitionError where a spec matches none."""
    matches = matching_partitions(table, partitions, static)
    if static and not matches:
        raise NoSuchPartitionError(f"{table.name} has no such partition: see SHOW PARTITIONS {table.name}")
    return matches


def is_canonical(value: str, hive: str) -> bool:
    """Tell whether the text of a partition value is the one that hiveacid writes for the value.

    A write chooses the partition of a row by that text. A partition with another text (``p=01`` for an INT, ``p=1.5``
    for a DECIMAL(10,2)) can be read, but an update would write its rows to a different partition.
    """
    kind, _, arguments = hive.partition("(")
    if kind == "decimal":
        scale = int(arguments.rstrip(")").partition(",")[2] or 0)
        fraction = rf"\.\d{{{scale}}}" if scale else ""
        is_zero = not value.strip("-0.")
        return re.fullmatch(rf"{'' if is_zero else '-?'}(0|[1-9]\d*){fraction}", value) is not None
    if kind == "char":
        return value == value.rstrip(" ")
    if kind in _FLOATING:
        return value == _java_text(value, _FLOATING[kind])
    if kind == LOCAL_TIMESTAMP:
        return False  # its text depends on the session's time zone
    if kind in _BITS:
        return (
            re.fullmatch(_WHOLE, value) is not None and -(1 << _BITS[kind]) <= int(value) < 1 << _BITS[kind]
        )
    if kind == "boolean":
        return value in ("true", "false")
    pattern = _MOMENTS.get(kind)
    return pattern is None or (re.fullmatch(pattern, value) is not None and _is_in_calendar(value))


def _is_in_calendar(value: str) -> bool:
    """Tell whether a date or time exists."""
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def is_skipped(value: str, zone: str) -> bool:
    """Tell whether a time zone skips a wall-clock time, as at the start of summer time."""
    try:
        known, time = ZoneInfo(zone), datetime.fromisoformat(value)
    except (ValueError, ZoneInfoNotFoundError):  # such as +02:00, which skips none
        return False
    return time.replace(tzinfo=known).astimezone(UTC).astimezone(known).replace(tzinfo=None) != time


def _java_text(value: str, layout: str) -> str | None:
    """Return a number as Java prints it (``Double.toString``); None for a text that is not a number.

    ``layout``: format of the module ``struct``. Some versions of Java print one digit more than needed; such a text
    differs from the result.
    """
    packed = _packed(value, layout)
    if packed is None:
        return None
    number = struct.unpack(layout, packed)[0]
    if math.isnan(number) or math.isinf(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    digits, exponent = next(
        text.split("e")
        for precision in range(17)
        for text in [f"{abs(number):.{precision}e}"]
        if _packed(text, layout) == struct.pack(layout, abs(number))
    )
    plain, power = digits.replace(".", "").rstrip("0") or "0", int(exponent)
    sign = "-" if number < 0 else ""
    if -3 <= power < 7:  # noqa: PLR2004 - Java's own limits
        whole = plain[: power + 1].ljust(power + 1, "0") if power >= 0 else "0"
        fraction = plain[power + 1 :] if power >= 0 else "0" * (-power - 1) + plain
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{plain[0]}.{plain[1:] or '0'}E{power}"


def _packed(text: str, layout: str) -> bytes | None:
    try:
        return struct.pack(layout, float(text))
    except (ValueError, OverflowError):
        return None


_FLOATING = {"float": ">f", "double": ">d"}
_WHOLE = r"0|-?[1-9]\d*"
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_MOMENTS = {
    "date": r"\d{4}-\d\d-\d\d",
    "timestamp": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{0,5}[1-9])?",
}
