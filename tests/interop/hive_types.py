"""A value of each type: as both engines' SQL takes it, and as each of them gives it back."""

from __future__ import annotations

import json
from decimal import Context, Decimal
from typing import Any

TYPES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(10,2)",
    "decimal(38,18)",
    "string",
    "varchar(10)",
    "char(6)",
    "binary",
    "date",
    "timestamp",
    "array<int>",
    "map<string,int>",
    "struct<a:int,b:string>",
)
# Each column of a row is NULL or one of these, in a way that depends on the row's id.
_SAMPLES: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "tinyint": (-128, 127, 0),
    "smallint": (-32768, 32767),
    "int": (-2147483648, 2147483647, 5),
    "bigint": (-9223372036854775807, 9223372036854775807, 1),
    "float": (1.5, -0.25, 0.0),
    "double": (1e300, -2.5, 0.1),
    "decimal(10,2)": ("12345678.90", "-0.01", "0.00"),
    "decimal(38,18)": ("12345678901234567890.123456789012345678", "-1.500000000000000000"),
    "string": ("", "añ€", "two words"),
    "varchar(10)": ("", "ten chars!", "ü"),
    "char(6)": ("ab", "sixsix"),
    "binary": ("00FF", "C3BC"),
    "date": ("1999-12-31", "2024-02-29", "1900-01-01"),
    "timestamp": ("2001-02-03 04:05:06.789", "1969-07-20 20:17:40", "2024-02-29 23:59:59.123456"),
    "array<int>": ([1, None, 3], [7]),
    "map<string,int>": ({"a": 1, "b": None},),
    "struct<a:int,b:string>": ({"a": 1, "b": "x"}, {"a": None, "b": "y"}),
}


def sample(key: int, types: tuple[str, ...]) -> tuple[Any, ...]:
    """Return values of a row with this id, in the form that :func:`mine` and :func:`theirs` give."""
    found = []
    for number, kind in enumerate(types):
        choices = (*_SAMPLES[kind], None)
        found.append(choices[(key + number) % len(choices)])
    return tuple(found)


def literal(value: Any, kind: str) -> str:
    """Return an expression of a value in the SQL that both engines take."""
    if value is None:
        return _null(kind)
    if kind in ("string", "binary") or kind.startswith(("char", "varchar")):
        text = f"unhex('{value}')" if kind == "binary" else f"'{value}'"
        return text if kind in ("string", "binary") else f"cast({text} AS {kind})"
    if kind == "boolean":
        return str(value).lower()
    if kind.startswith("array"):
        return f"array({', '.join('cast(NULL AS INT)' if one is None else str(one) for one in value)})"
    if kind.startswith("map"):
        inner = ", ".join(
            f"'{key}', {'cast(NULL AS INT)' if one is None else one}" for key, one in value.items()
        )
        return f"map({inner})"
    if kind.startswith("struct"):
        a = "cast(NULL AS INT)" if value["a"] is None else value["a"]
        return f"named_struct('a', {a}, 'b', '{value['b']}')"
    return f"cast('{value}' AS {kind})" if kind != "int" else str(value)


def _null(kind: str) -> str:
    """Return a NULL of a type: a complex one has no cast in Hive."""
    if "<" not in kind:
        return f"cast(NULL AS {kind})"
    return f"if(false, {literal(_SAMPLES[kind][0], kind)}, NULL)"


def mine(value: Any, kind: str) -> Any:
    """Return what Spark gave in one form for both; binary comes by ``hex``, dates and times as texts."""
    if value is None:
        return None
    if kind == "timestamp":
        return _moment(value)
    if isinstance(value, Decimal):
        return str(value)
    if kind.startswith("struct"):
        return value.asDict()
    if kind.startswith("char"):
        return value.rstrip()
    return value


def theirs(value: Any, kind: str) -> Any:
    """Return what Hive gave in one form for both."""
    if value is None:
        return None
    if "<" in kind:
        return json.loads(value)
    if kind.startswith("decimal"):
        places = int(kind[:-1].split(",")[1])
        return str(Decimal(value).quantize(Decimal(1).scaleb(-places), context=Context(prec=38)))
    if kind == "timestamp":
        return _moment(value)
    if kind.startswith("char"):
        return value.rstrip()
    return value


def _moment(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
