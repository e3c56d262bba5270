"""Names of partitions as Hive spells them: ``p=a%2Fb/q=1``; the partitions that a spec names.

Rules: Hive's ``FileUtils.escapePathName``, ``unescapePathName`` and ``makePartName``, the same in 3.1 and 4.x.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from functools import cached_property
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hiveacid.core.model import Column, Partition, TableDefinition, partition_value, partition_value_shown
from hiveacid.core.schema.types import LOCAL_TIMESTAMP
from hiveacid.errors import BadDirectoryNameError, ConfigError, NoSuchPartitionError, UnsupportedFeatureError

# not '}', not the blank: Hive's own set
_ESCAPED = {code: f"%{code:02X}" for code in (*range(0x20), *map(ord, "\"#%'*/:=?\\{[]^"), 0x7F)}
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_FLOATING = {"float": ">f", "double": ">d"}
_NUMBER = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?"
_DIGITS = 12_000  # of any number of these exponents
_MICROSECONDS = 6
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_BLANKS = "".join(map(chr, (*range(0x21), 0x7F)))
_REPLACED = "\ufffd"
_DATE = r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
_MOMENTS = {
    "date": _DATE,
    "timestamp": _DATE + r"(?:[ T]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?)?",
}
# As Java prints years before 1 and after 9999, which Python and Arrow's texts do not have.
_BEYOND = re.compile(r"([+-][0-9]{4,7}|0000)-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?")
PartitionValues = tuple[str | None, ...]


def escape(text: str) -> str:
    """Return the text as Hive writes it into a path: a set of characters as ``%XX``, upper-case digits."""
    return text.translate(_ESCAPED)


def unescape(text: str) -> str:
    """Return the text that :func:`escape` encoded. A ``%`` without two hex digits after it stays."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def format_partition(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """Return a partition's name and relative path, ``p=a/q=1``.

    Raises ConfigError when there are not as many values as columns.
    """
    if not columns or len(columns) != len(values):
        raise ConfigError(f"partition columns ({', '.join(columns)}) and values ({len(values)}) do not match")
    return "/".join(
        f"{escape(column.lower())}={escape(partition_value_shown(partition_value(value)))}"
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
        pairs.append((unescape(column).lower(), partition_value(unescape(value))))
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
        if path.count("/") + 1 == len(columns):
            with suppress(BadDirectoryNameError):
                yield path, parse_partition_values(columns, path)


def matching_partitions(
    table: TableDefinition, partitions: Iterable[Partition], static: Mapping[str, str | None]
) -> list[Partition]:
    """Return the partitions that have the values of a (partial) spec, given as canonical texts."""
    columns = {column.name: column for column in table.partition_columns}
    wanted = {name: _identity(columns[name], value) for name, value in static.items()}
    return [
        partition
        for partition in partitions
        if all(
            column.name not in wanted or _identity(column, value) == wanted[column.name]
            for column, value in zip(table.partition_columns, partition.values, strict=True)
        )
    ]


def require_partitions(
    table: TableDefinition, partitions: Iterable[Partition], static: Mapping[str, str | None]
) -> list[Partition]:
    """Return what `matching_partitions` returns. Raises NoSuchPartitionError where a spec matches none."""
    matches = matching_partitions(table, partitions, static)
    if static and not matches:
        raise NoSuchPartitionError(f"{table.name} has no such partition: see SHOW PARTITIONS {table.name}")
    return matches


@dataclass(frozen=True)
class KnownPartitions:
    """Existing partitions of a table, which tell where rows of a value go.

    Another engine may spell a value otherwise (``day=06`` for 6). Rows of this value go to the existing partition.
    """

    table: TableDefinition
    by_values: Mapping[PartitionValues, Partition]

    @classmethod
    def of(cls, table: TableDefinition, partitions: Iterable[Partition]) -> KnownPartitions:
        """Return the partitions of a table."""
        return cls(table, {partition.values: partition for partition in partitions})

    @cached_property
    def _by_identity(self) -> Mapping[PartitionValues, list[PartitionValues]]:
        spelled: dict[PartitionValues, list[PartitionValues]] = {}
        for values in self.by_values:
            spelled.setdefault(identity(self.table, values), []).append(values)
        return spelled

    def values_of(self, values: PartitionValues, *, changing: bool = False) -> PartitionValues:
        """Return the values of the partition that rows go to: of the existing one as it is spelled, or of a new one.

        ``changing``: the rows are delete events. Raises UnsupportedFeatureError if two partitions have their value, or if
        a new partition's name would not be read as the same value.
        """
        if not values or (values in self.by_values and not changing):
            return values
        canonical = identity(self.table, values)
        spelled = self._by_identity.get(canonical, [])
        if len(spelled) > 1:
            names = ", ".join(format_partition(self.table.partition_column_names, each) for each in spelled)
            raise UnsupportedFeatureError(
                f"{self.table.name} has several partitions of one value ({names}): insert the rows of one into another table, "
                "drop it, and insert them again"
            )
        if spelled:
            return spelled[0]
        for column, value in zip(self.table.partition_columns, canonical, strict=True):
            if value is not None and not is_canonical(value, column.type):
                raise UnsupportedFeatureError(
                    f"{self.table.name} cannot have a partition {column.name}={value}: engines do not agree on the name of "
                    f"this {column.type}; nothing was changed"
                )
        return canonical


def identity(table: TableDefinition, values: PartitionValues) -> PartitionValues:
    """Return the values in the texts that hiveacid gives to them: the same for all spellings of a partition."""
    return tuple(map(_identity, table.partition_columns, values))


def require_valid_values(table: TableDefinition, scanned: Iterable[Partition]) -> None:
    """Raise UnsupportedFeatureError for a partition whose rows do not tell its name: delete events would miss it."""
    for partition in scanned:
        for column, value in zip(table.partition_columns, partition.values, strict=True):
            if value is not None and canonical_text(value, column.type) is None:
                raise UnsupportedFeatureError(
                    f"{table.name} has a partition {column.name}={value}, which is not a valid {column.type}: it can be read, but not "
                    "changed; add a condition that leaves it out"
                )


def _identity(column: Column, value: str | None) -> str | None:
    return value and (canonical_text(value, column.type) or value)


def is_canonical(value: str, hive: str) -> bool:
    """Tell whether the text of a partition value is the one that hiveacid gives to a new partition of this value.

    All engines read such a text as the same value. Years beyond 9999 and texts that are not UTF-8 have none.
    """
    if _BEYOND.fullmatch(value) and hive in _MOMENTS:
        return False
    return canonical_text(value, hive) == value and _REPLACED not in value


def canonical_text(value: str, hive: str) -> str | None:
    """Return the text that hiveacid gives to the value of a text, as Spark casts it: 6 of ``06`` in an INT column.

    None if the text is none of its type, or if only Spark knows (``2024``, a date).
    """
    kind, _, arguments = hive.partition("(")
    if kind == LOCAL_TIMESTAMP:
        return None  # its text depends on the session's time zone
    if kind == "char":
        return value[: int(arguments.rstrip(")"))].rstrip(" ")
    if kind not in _PARSED:
        return value
    return _PARSED[kind](value.strip(_BLANKS), kind, arguments)


def _whole_number(value: str, kind: str, _: str) -> str | None:
    match = re.fullmatch(r"\+?(-?)0*([0-9]{1,19})", value)  # Python refuses to read thousands of digits
    if match is None or value.startswith("+-"):
        return None
    number = int("".join(match.groups()))
    return str(number) if -(1 << _BITS[kind]) <= number < 1 << _BITS[kind] else None


def _decimal(value: str, _: str, arguments: str) -> str | None:
    if not re.fullmatch(_NUMBER, value):
        return None
    precision, _, scale = arguments.rstrip(")").partition(",")
    with localcontext(prec=_DIGITS, rounding=ROUND_HALF_UP):
        try:
            number = Decimal(value).quantize(Decimal(1).scaleb(-int(scale or 0)))
        except InvalidOperation:
            return None
    digits = f"{abs(number):f}"
    whole = len(digits.partition(".")[0].lstrip("0"))
    if whole > int(precision or 10) - int(scale or 0):
        return None
    return f"-{digits}" if number < 0 else digits


def _floating(value: str, kind: str, _: str) -> str | None:
    if not re.fullmatch(rf"{_NUMBER}|NaN|-?Infinity", value):
        return None
    return _java_text(value, _FLOATING[kind])


def _boolean(value: str, _: str, __: str) -> str | None:
    return {
        **dict.fromkeys(("true", "t", "yes", "y", "1"), "true"),
        **dict.fromkeys(("false", "f", "no", "n", "0"), "false"),
    }.get(value.lower())


def _moment(value: str, kind: str, _: str) -> str | None:
    if _BEYOND.fullmatch(value):
        return value
    match = re.fullmatch(_MOMENTS[kind], value)
    if match is None:
        return None
    year, month, day, *time = match.groups()
    text = f"{year}-{month:0>2}-{day:0>2}"
    if kind == "timestamp":
        hour, minute, second, fraction = time
        text = f"{text} {hour or 0:0>2}:{minute or 0:0>2}:{second or 0:0>2}"
        digits = (fraction or "")[:_MICROSECONDS].rstrip("0")
        text = f"{text}.{digits}" if digits else text
    try:
        datetime.fromisoformat(text)
    except ValueError:  # not in the calendar
        return None
    return text


def is_time_skipped(value: str, zone: str) -> bool:
    """Tell whether a time zone skips a wall-clock time, as at the start of summer time."""
    try:
        known, time = ZoneInfo(zone), datetime.fromisoformat(value)
        there_and_back = time.replace(tzinfo=known).astimezone(UTC).astimezone(known)
    except (ValueError, ZoneInfoNotFoundError):  # such as +02:00, which skips none
        return False
    except OverflowError:  # in UTC the time is in the year 0 or 10000
        return False
    return there_and_back.replace(tzinfo=None) != time


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
    wanted, text, precision = struct.pack(layout, abs(number)), f"{abs(number):.0e}", 0
    while _packed(text, layout) != wanted:  # the fewest digits that give the number again
        precision += 1
        text = f"{abs(number):.{precision}e}"
    digits, exponent = text.split("e")
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


_PARSED: Mapping[str, Callable[[str, str, str], str | None]] = {
    **dict.fromkeys(_BITS, _whole_number),
    **dict.fromkeys(_FLOATING, _floating),
    **dict.fromkeys(_MOMENTS, _moment),
    "decimal": _decimal,
    "boolean": _boolean,
}
