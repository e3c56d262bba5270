"""Random queries on tables with the same columns, for hiveacid and, of copies of the rows, for plain Spark.

``{t}`` in a text stands for a table, ``{id:t}`` for a look at the row id of one whose alias is given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from hiveacid.errors import HiveAcidError
from support.random_history.interfaces import Kinds
from support.random_history.values import NESTED, typed_condition

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

COLUMNS = {
    "i": "INT", "b": "BIGINT", "ti": "TINYINT", "d": "DOUBLE", "f": "FLOAT", "x": "DECIMAL(9,2)", "s": "STRING",
    "c": "CHAR(3)", "v": "VARCHAR(4)", "dt": "DATE", "ts": "TIMESTAMP", "bo": "BOOLEAN", "bi": "BINARY",
    "st": "STRUCT<a:INT,b:STRING>", "ar": "ARRAY<INT>",
}  # fmt: skip
TABLES = {
    "h1": Kinds(COLUMNS),
    "h2": Kinds(COLUMNS, {"p": "STRING"}),
    "h3": Kinds(COLUMNS, {"p": "INT", "q": "DATE"}),
    "h4": Kinds(COLUMNS, bucketed_by="n"),
    "h5": Kinds(COLUMNS, insert_only=True),
}
_FUNCTIONS: Mapping[str, Sequence[str]] = {
    "INT": ("abs({c} % 7) IN (1, 2)", "{c} * 1.0 > 2", "CAST({c} AS STRING) = '1'", "{c} = '1'", "{c} IN (0, 0.5)"),
    "BIGINT": ("{c} > 0.5", "{c} % 3 = 1", "{c} = 1e12", "{c} BETWEEN -1.5 AND 1.5"),
    "TINYINT": ("{c} = 5.0", "{c} < 300", "{c} % 2 = 0"),
    "DOUBLE": ("{c} > 1", "isnan({c})", "{c} = '1.5'", "{c} <> 0", "round({c}) = 2"),
    "FLOAT": ("{c} > 0.1", "{c} = 0.5", "isnan({c})", "{c} = 0.5D"),
    "DECIMAL(9,2)": ("{c} = 1.5", "{c} > 0.001", "{c} < 1.5D", "{c} IN (1.50, -2.250, 12.3456)", "{c} = '1.5'"),
    "STRING": (
        "{c} LIKE 'a%'", "{c} LIKE '%#%%' ESCAPE '#'", "startswith({c}, 'a')", "length({c}) = 1", "upper({c}) = 'A'",
        "{c} RLIKE '^[ab]'", "trim({c}) = 'a'", "contains({c}, 'b')", "{c} = c", "{c} < v",
    ),
    "CHAR(3)": ("{c} = 'a  '", "{c} LIKE 'a%'", "length({c}) = 3", "{c} = s", "rtrim({c}) = 'a'"),
    "VARCHAR(4)": ("{c} LIKE '_b%'", "{c} || 'x' = 'ax'", "{c} = s"),
    "DATE": (
        "year({c}) = 2020", "{c} > date_sub(DATE'2020-03-01', 20)", "{c} = '2020-02-29'", "dayofweek({c}) = 7",
        "CAST({c} AS TIMESTAMP) < TIMESTAMP'2020-03-01 00:00:00'",
    ),
    "TIMESTAMP": (
        "CAST({c} AS DATE) = DATE'2020-01-01'", "{c} > '2020-01-01'", "hour({c}) = 12", "{c} >= DATE'1970-01-01'",
    ),
    "BOOLEAN": ("{c}", "NOT {c}", "{c} = 'true'"),
    "BINARY": ("length({c}) = 1", "{c} > X'00'"),
    "STRUCT<a:INT,b:STRING>": ("{c}.a = 1", "{c}.b = 'x'", "{c}.b IS NULL", "{c}.a IN (1, 2)"),
    "ARRAY<INT>": ("size({c}) > 1", "array_contains({c}, 3)", "get({c}, 0) = 7"),
}  # fmt: skip
_JOINS = ("JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
_SETS = ("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
_NAME = re.compile(r"\{(id:)?(\w+)\}")


@dataclass(frozen=True)
class Question:
    """A query, as hiveacid and as plain Spark gets it; ``view``: a query to be made the view ``{w}`` first."""

    text: str
    view: str = ""

    def ours(self, random: Random, text: str) -> str:
        """Return the text with hiveacid's tables, by any of their names."""
        names = ("{}", "{}", "default.{}", "`{}`")
        row_id = "{}.ROW__ID.rowid >= 0"
        return _NAME.sub(lambda m: (row_id if m[1] else random.choice(names)).format(m[2]), text)

    def theirs(self, text: str) -> str:
        """Return the text with Spark's own tables."""
        return _NAME.sub(lambda match: "true" if match[1] else f"s_{match[2]}", text)


class Asker:
    """Makes questions on ``TABLES``, or on some of them."""

    def __init__(self, random: Random, tables: Sequence[str]) -> None:
        """Use these tables."""
        self.random, self.tables = random, tables

    def types(self, table: str) -> dict[str, str]:
        return {"n": "INT", **COLUMNS, **TABLES[table].places}

    def condition(self, table: str, prefix: str = "", *, functions: bool = True) -> str:
        """Return a condition, with or without functions and casts."""
        random, types = self.random, self.types(table)
        if functions and random.random() < 0.4:
            column = random.choice([c for c in types if types[c] in _FUNCTIONS])
            text = random.choice(_FUNCTIONS[types[column]])
            for other in ("c", "s", "v"):
                text = re.sub(rf"(?<=[=<] ){other}$", f"{prefix}{other}", text)
            return text.replace("{c}", f"{prefix}{column}")
        nulls = not TABLES[table].insert_only  # see `InterfaceTable.condition`
        return typed_condition(random, types, prefix, nulls=nulls).sql

    def row_id(self, table: str, alias: str) -> str:
        return "true" if TABLES[table].insert_only else f"{{id:{alias}}}"

    def question(self) -> Question:
        """Return any question."""
        random = self.random
        one, other = random.choice(self.tables), random.choice(self.tables)
        flat = [column for column in ("n", *COLUMNS) if COLUMNS.get(column) not in NESTED]
        key = random.choice(flat)
        kind = random.choice(_JOINS)
        out = "a.n, a.s" + ("" if "SEMI" in kind or "ANTI" in kind else ", z.n AS m, z.c")
        on = random.choice([f"a.{key} = z.{key}", f"a.{key} = z.{key} AND {self.condition(other, 'z.')}"])
        where = f"WHERE {self.condition(one, 'a.')}"
        star = random.choice(
            ["*", f"a.*, {self.row_id(one, 'a')} AS ok", "* EXCEPT (s, ar)", "struct(a.*) AS r"]
        )
        texts = {
            "simple": self._simple(one, flat),
            "set": self._set(one, other, flat),
            "pipe": self._pipe(one, other, key),
            "ordinals": self._ordinals(one, key),
            "with": self._with(one, other, key),
            "subquery": self._subquery(one, other, key),
            "subqueries": self._subquery(other, one, key),
            "window": self._window(one, key),
            "join": f"SELECT {out} FROM {{{one}}} a {kind} {{{other}}} z ON {on} {where}",
            "star": f"SELECT {star} FROM {{{one}}} a {where}",
            "lateral": f"SELECT a.n, e FROM {{{one}}} a LATERAL VIEW explode(a.ar) ee AS e {where}",
            "view": random.choice([
                f"SELECT {key}, count(*) AS k FROM {{w}} GROUP BY 1", f"SELECT n FROM {{w}} EXCEPT ALL SELECT n FROM {{{other}}}",
                "SELECT * FROM {w}",
            ]),
        }  # fmt: skip
        chosen = random.choice(list(texts))
        view = f"SELECT * FROM {{{one}}} WHERE {self.condition(one)}" if chosen == "view" else ""
        return Question(texts[chosen], view)

    def _simple(self, one: str, flat: Sequence[str]) -> str:
        keys = ", ".join(self.random.sample(flat, 2))
        where = self.condition(one)
        return self.random.choice([
            f"SELECT {keys} FROM {{{one}}} WHERE {where}",
            f"SELECT count(*) FROM {{{one}}} WHERE {where}",
            f"SELECT {keys}, count(*), min(n), max(n) FROM {{{one}}} WHERE {where} GROUP BY {keys}",
            f"SELECT {keys}, count(*) FROM {{{one}}} GROUP BY GROUPING SETS (({keys}), ()) HAVING count(*) > 0",
            f"SELECT DISTINCT {keys} FROM {{{one}}} WHERE {where}",
            f"SELECT min(ts), max(dt), sum(x), count(s), max(c) FROM {{{one}}} WHERE {where}",
        ])  # fmt: skip

    def _set(self, one: str, other: str, flat: Sequence[str]) -> str:
        keys = ", ".join(self.random.sample(flat, self.random.choice([1, 2])))
        first, second = self.random.sample(_SETS, 2)
        ids = f" AND {self.row_id(one, 'a')}" if self.random.random() < 0.4 else ""
        text = (
            f"SELECT {keys} FROM {{{one}}} a WHERE ({self.condition(one, 'a.')}){ids} {first} "
            f"SELECT {keys} FROM {{{other}}}"
        )
        if TABLES[one].places == TABLES[other].places and self.random.random() < 0.3:
            return f"SELECT * FROM {{{one}}} {first} SELECT * FROM {{{other}}}"
        third = f" {second} (SELECT {keys} FROM {{{one}}} WHERE {self.condition(one)})"
        return text + (third if self.random.random() < 0.4 else "")

    def _pipe(self, one: str, other: str, key: str) -> str:
        where = self.condition(one)
        return f"FROM {{{one}}} " + self.random.choice([
            f"|> WHERE {where} |> AGGREGATE count(*) AS k, max(n) AS m GROUP BY {key} |> WHERE k > 0",
            f"|> WHERE {where} |> DROP s, ar |> SELECT *",
            f"|> WHERE {where} |> EXTEND n + 1 AS m |> SET i = n |> SELECT n, m, i, {key}",
            f"|> SELECT n, {key} |> EXCEPT ALL (SELECT n, {key} FROM {{{other}}}) |> ORDER BY 1",
            f"|> AS a |> JOIN {{{other}}} z ON a.n = z.n |> SELECT a.n, z.{key}",
            f"|> SELECT {key} |> UNION ALL (FROM {{{other}}} |> SELECT {key})",
        ])  # fmt: skip

    def _ordinals(self, one: str, key: str) -> str:
        ids = self.random.choice([self.row_id(one, "a"), "true"])
        return self.random.choice([
            f"SELECT *, {ids} AS ok FROM {{{one}}} a ORDER BY 1, 2 LIMIT 5",
            f"SELECT {key}, {ids}, count(*) FROM {{{one}}} a GROUP BY 1, 2",
            f"SELECT a.n, {key} FROM {{{one}}} a WHERE {ids} AND {self.condition(one, 'a.')} ORDER BY 1 DESC LIMIT 3",
            f"SELECT m, k FROM (SELECT n, {key}, {ids} FROM {{{one}}} a) AS q(m, k, ok) WHERE ok",
        ])  # fmt: skip

    def _with(self, one: str, other: str, key: str) -> str:
        name = self.random.choice(["w1", "q", key])
        inner = f"SELECT * FROM {{{one}}} WHERE {self.condition(one)}"
        return self.random.choice([
            f"WITH {name} AS ({inner}) SELECT n, {key} FROM {name} WHERE {self.condition(one)}",
            f"WITH {name} AS ({inner}), u AS (SELECT n FROM {name}) SELECT a.n FROM {{{other}}} a JOIN u ON a.n = u.n",
            f"WITH {one} AS (SELECT n, {key} FROM {{{other}}} WHERE {self.condition(other)}) SELECT * FROM {one}",
            f"SELECT n FROM {{{other}}} WHERE n IN (WITH {name}(z) AS (SELECT n FROM {{{one}}}) SELECT z FROM {name})",
        ])  # fmt: skip

    def _subquery(self, one: str, other: str, key: str) -> str:
        where, negation = self.condition(other, "z."), self.random.choice(["", "NOT "])
        return self.random.choice([
            f"SELECT n FROM {{{one}}} a WHERE a.{key} {negation}IN (SELECT {key} FROM {{{other}}} z WHERE {where})",
            f"SELECT n FROM {{{one}}} a WHERE {negation}EXISTS (SELECT 1 FROM {{{other}}} z WHERE z.{key} = a.{key} AND {where})",
            f"SELECT n, (SELECT max(z.n) FROM {{{other}}} z WHERE z.{key} <=> a.{key}) AS m FROM {{{one}}} a",
            f"SELECT n FROM {{{one}}} WHERE n > (SELECT avg(z.n) FROM {{{other}}} z WHERE {where})",
            f"SELECT n FROM {{{one}}} a WHERE (n, {key}) {negation}IN (SELECT n, {key} FROM {{{other}}} z WHERE {where})",
            f"SELECT q.n, a.n FROM {{{one}}} a, LATERAL (SELECT z.n FROM {{{other}}} z WHERE z.n = a.n + 1) q",
        ])  # fmt: skip

    def _window(self, one: str, key: str) -> str:
        ranked = f"row_number() OVER (PARTITION BY {key} ORDER BY n) AS k"
        return self.random.choice([
            f"SELECT n, {key}, {ranked} FROM {{{one}}} WHERE {self.condition(one)}",
            f"SELECT * FROM (SELECT n, {ranked} FROM {{{one}}}) WHERE k = 1",
            f"SELECT n, sum(n) OVER w FROM {{{one}}} WINDOW w AS (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            f"SELECT n FROM {{{one}}} QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY n) = 1",
        ])  # fmt: skip


def answer(sql: Callable[[str], DataFrame], text: str) -> list[str] | str:
    """Return rows in any order, or that there was an error."""
    try:
        return sorted(repr(_comparable(row)) for row in sql(text).collect())
    except (PySparkException, HiveAcidError, Py4JJavaError) as error:  # the last one: Spark's own bugs
        return f"error: {str(error).splitlines()[0][:300]}"


def _comparable(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(map(_comparable, value))
    return bytes(value) if isinstance(value, bytearray) else value


def differ(ours: list[str] | str, theirs: list[str] | str) -> bool:
    """Tell whether two answers differ; any two errors are alike."""
    if isinstance(ours, str) or isinstance(theirs, str):
        return type(ours) is not type(theirs)
    return ours != theirs
