"""Values of all types: how SQL and Arrow write them, how a table stores them, and random conditions on them.

A struct, a list and a map are tuples here, a time is a ``datetime`` of the wall clock, and NaN is one value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

from support.random_history.model import Expression, Row, both, either, literal, modulo

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
NAN = math.nan  # one object, so that rows with it are equal

# No -0.0: ORC's reader in Spark takes it for another value than 0.0 where it skips by statistics.
POOLS: Mapping[str, Sequence[Any]] = {
    "TINYINT": (0, 1, -1, 5, 127, -128),
    "SMALLINT": (0, 7, -300, 32767, -32768),
    "INT": (0, 1, 2, -5, 2**31 - 1, -(2**31)),
    "BIGINT": (0, 1, -1, 10**12, 2**63 - 1, -(2**63)),
    "DECIMAL(9,2)": (Decimal("0.00"), Decimal("1.50"), Decimal("-2.25"), Decimal("9999999.99")),
    "DECIMAL(38,10)": (Decimal("0E-10"), Decimal("1.5000000000"), Decimal("-1234567890123456789.0123456789")),
    "DOUBLE": (0.0, 1.5, -2.5, math.inf, NAN, 1e300, 0.1),
    "FLOAT": (0.0, 0.5, -1.25, NAN, 2.0**90),
    "STRING": ("", "a", "b", "A", "it's", "ünï", "a ", "x%_y", "\U0001f600", "q\\z", "l\nb", "z" * 1100, "NULL"),
    "VARCHAR(4)": ("", "a", "abcd", "é€", "a ", "b"),
    "CHAR(3)": ("", "a", "abc", "é", "b"),
    "BOOLEAN": (True, False),
    "BINARY": (b"", b"a", b"\xff\x00", b"ab"),
    "DATE": (date(2020, 2, 29), date(1970, 1, 1), date(1969, 12, 31), date(9999, 12, 31), date(1600, 1, 1)),
    "TIMESTAMP": (
        *map(datetime.fromisoformat, ("2020-01-01 12:00", "1970-01-01", "2020-06-01 00:00:00.123456", "1969-12-31 23:59:58")),
        *map(datetime.fromisoformat, ("1950-01-01 01:01:01.500000", "1900-01-02")),
    ),
    "ARRAY<INT>": ((1, None, 3), (), (7,)),
    "MAP<STRING,INT>": ((("a", 1),), (), (("a", None), ("b", 2))),
    "STRUCT<a:INT,b:STRING>": ((1, "x"), (None, None)),
    "ARRAY<STRUCT<a:INT,b:STRING>>": (((1, "x"), None), ((None, ""),)),
}  # fmt: skip
# The types of the pools to which ALTER TABLE changes others.
WIDER: Mapping[str, Sequence[str]] = {
    "TINYINT": ("SMALLINT", "INT", "BIGINT", "DECIMAL(9,2)", "DECIMAL(38,10)", "DOUBLE", "STRING"),
    "SMALLINT": ("INT", "BIGINT", "DECIMAL(9,2)", "DECIMAL(38,10)", "DOUBLE", "STRING"),
    "INT": ("BIGINT", "DECIMAL(38,10)", "DOUBLE", "STRING"), "BIGINT": ("DECIMAL(38,10)", "STRING"),
    "DECIMAL(9,2)": ("DECIMAL(38,10)",), "FLOAT": ("DOUBLE",), "VARCHAR(4)": ("STRING",),
    "CHAR(3)": ("VARCHAR(4)", "STRING"),
}  # fmt: skip
NESTED = frozenset(kind for kind in POOLS if "<" in kind)
FLAT = tuple(kind for kind in POOLS if kind not in NESTED)
# Every type of a partition column; numbers with a fraction have no one text, so no engine agrees on their names.
PLACES: Mapping[str, Sequence[Any]] = {
    "STRING": ("", "a", "50% /é", "a=b", DEFAULT_PARTITION, "01", "1"),
    "INT": (1, -3, 2**31 - 1), "BIGINT": (0, -(2**63)), "DATE": POOLS["DATE"], "VARCHAR(4)": ("a", "é€", "b "),
    "CHAR(3)": ("a", "é", ""), "BOOLEAN": (True, False), "DECIMAL(9,2)": POOLS["DECIMAL(9,2)"],
    "TIMESTAMP": POOLS["TIMESTAMP"],
}  # fmt: skip
_MEMBERS = ("a", "b")


def any_value(random: Random, kind: str, *, place: bool = False) -> Any:
    """Return NULL or a value of the pool."""
    return None if random.random() < 0.2 else random.choice((PLACES if place else POOLS)[kind])


def written(value: Any, kind: str) -> str:
    """Return a value as SQL writes it, of just this type."""
    base = kind.partition("(")[0]
    if value is None:
        return f"CAST(NULL AS {kind})"
    if kind in NESTED:
        return f"CAST({_nested(value, kind)} AS {kind})"
    match base:
        case "STRING" | "VARCHAR" | "CHAR" | "INT" if value != -(2**31):
            return literal(value)
        case "BINARY":
            return f"X'{value.hex()}'"
        case "DOUBLE" | "FLOAT":
            return f"CAST('{value!r}' AS {base})".replace("inf", "Infinity").replace("nan", "NaN")
        case "DATE" | "TIMESTAMP":
            return f"{base}'{value.isoformat() if base == 'DATE' else value.isoformat(sep=' ')}'"
        case "BOOLEAN":
            return str(value).lower()
        case _:
            return f"CAST('{value}' AS {kind})"


def _nested(value: Any, kind: str) -> str:
    if value is None:
        return "NULL"
    if kind.startswith("MAP"):
        return f"map({', '.join(f'{literal(key)}, {literal(item)}' for key, item in value)})"
    if kind.startswith("STRUCT"):
        return f"named_struct('a', {literal(value[0])}, 'b', {literal(value[1])})"
    return f"array({', '.join(_nested(item, 'STRUCT') if 'STRUCT' in kind else literal(item) for item in value)})"


def in_arrow(value: Any, kind: str) -> Any:
    """Return a value as Arrow takes it from Python."""
    if value is None or kind not in NESTED:
        return value
    if kind.startswith("STRUCT"):
        return dict(zip(_MEMBERS, value, strict=True))
    if kind.startswith("MAP"):
        return list(value)
    return [in_arrow(item, "STRUCT<>") if "STRUCT" in kind and item is not None else item for item in value]


def seen(value: Any, kind: str) -> Any:
    """Return what Spark or Arrow gives for a value, so that it can be compared."""
    if value is None:
        return None
    if kind == "TIMESTAMP":
        text = value if isinstance(value, str) else value.isoformat(sep=" ")
        return text.rstrip("0") if "." in text else text
    if kind.startswith("MAP"):
        return tuple(sorted(dict(value).items()))
    if kind in NESTED:
        return _plain(value)
    return "NaN" if value != value else bytes(value) if kind == "BINARY" else value  # noqa: PLR0124 - NaN


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(map(_plain, value.values()))
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def selected(column: str, kind: str) -> str:
    """Return what to select of a column: a time as its text, as Python would shift it into its own zone."""
    return f"CAST({column} AS STRING) AS {column}" if kind == "TIMESTAMP" else column


def stored(value: Any, kind: str, *, place: bool) -> Any:
    """Return a value as a table stores it: CHAR is padded, and some texts name the default partition."""
    if kind.startswith("CHAR") and value is not None:
        value = value.ljust(int(kind[5:-1]))
    bare = value.rstrip(" ") if kind.startswith("CHAR") and value is not None else value
    return None if place and bare in ("", DEFAULT_PARTITION) else value


def widened(value: Any, old: str, new: str) -> Any:
    """Return a stored value after ALTER TABLE has changed its column's type to one of `WIDER`."""
    if value is None or new == old:
        return value
    if old.startswith("CHAR"):
        return value.rstrip(" ")
    base = new.partition("(")[0]
    return {"STRING": str, "DOUBLE": float, "DECIMAL": Decimal}.get(base, lambda same: same)(value)


def simple(value: Any, kind: str) -> str:
    """Return a literal as a person writes it in a condition."""
    base = kind.partition("(")[0]
    if isinstance(value, int) and base != "BOOLEAN" and value > -(2**63):
        return str(value)
    if base == "DECIMAL":
        return format(value, "f")
    if base == "DOUBLE" and math.isfinite(value) and abs(value) < 1e9:
        return f"{value!r}D"
    return written(value, kind)


def _key(value: Any) -> Any:
    return (1, 0.0) if value != value else (0, value) if isinstance(value, float) else value  # noqa: PLR0124 - NaN


_SIGNS = {
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def compared(sign: str, one: Any, other: Any) -> bool | None:
    """Compare as Spark does: NaN equals itself and is greater than all numbers."""
    if sign == "<=>":
        return (one is None) == (other is None) and (one is None or _key(one) == _key(other))
    return None if one is None or other is None else _SIGNS[sign](_key(one), _key(other))


def negated(value: bool | None) -> bool | None:  # noqa: FBT001 - three-valued NOT
    """Return NOT as SQL has it."""
    return None if value is None else not value


def typed_condition(
    random: Random, kinds: Mapping[str, str], prefix: str = "", *, nulls: bool = True, depth: int = 0
) -> Expression:
    """Return some condition on columns of these types. ``nulls``: also ``IN (…, NULL)``."""
    chance = random.random()
    if depth < 2 and chance < 0.4:
        one, other = (typed_condition(random, kinds, prefix, nulls=nulls, depth=depth + 1) for _ in range(2))
        if chance < 0.15:
            return Expression(f"({one.sql}) AND ({other.sql})", lambda row: both(one.of(row), other.of(row)))
        if chance < 0.3:
            return Expression(f"({one.sql}) OR ({other.sql})", lambda row: either(one.of(row), other.of(row)))
        return Expression(f"NOT ({one.sql})", lambda row: negated(one.of(row)))
    column = random.choice(["n", "n", *kinds])
    kind, name = kinds.get(column, "INT"), f"{prefix}{column}"
    if kind in NESTED or random.random() < 0.15:
        word, wanted = random.choice([("IS NULL", True), ("IS NOT NULL", False)])
        return Expression(f"{name} {word}", lambda row: (row[column] is None) is wanted)
    if column == "n" and random.random() < 0.5:
        chosen = modulo(random.choice([2, 3, 5]), random.choice([0, 1]))
        return Expression(f"{prefix}{chosen.sql}", chosen.of)
    return _comparison(random, column, kind, name, nulls=nulls)


def _comparison(random: Random, column: str, kind: str, name: str, *, nulls: bool) -> Expression:
    pool = range(25) if column == "n" else POOLS[kind]
    values = [random.choice(pool) for _ in range(random.randint(1, 3))]
    texts = [simple(value, kind) for value in values]
    values = [stored(value, kind, place=False) for value in values]
    padded = kind.startswith("CHAR")  # Spark pads literals beside = only
    if random.random() < 0.25:
        # of a CHAR column Spark finds no row beside a NULL in the list, in tables of its own, too
        unknown = nulls and random.random() < 0.2 and not padded

        def is_in(row: Row) -> bool | None:
            found: bool | None = None if unknown else False
            for value in values:
                found = either(found, compared("=", row[column], value))
            return found

        return Expression(f"{name} IN ({', '.join([*texts, 'NULL'] if unknown else texts)})", is_in)
    if random.random() < 0.2 and not padded and len(values) > 1:
        low, high = values[:2]
        return Expression(
            f"{name} BETWEEN {texts[0]} AND {texts[1]}",
            lambda row: both(compared(">=", row[column], low), compared("<=", row[column], high)),
        )
    sign = random.choice(["=", "<>", "<=>"] if padded else ["=", "=", "<>", "<", "<=", ">", ">=", "<=>"])
    return Expression(f"{name} {sign} {texts[0]}", lambda row: compared(sign, row[column], values[0]))
