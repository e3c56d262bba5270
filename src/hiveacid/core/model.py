"""Values that every package shares: identifiers, columns, tables, partitions, constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from html import escape
from typing import NewType

TxnId = NewType("TxnId", int)
WriteId = NewType("WriteId", int)
LockId = NewType("LockId", int)

LAST_ID = (1 << 62) - 1
"""Highest transaction or write id accepted from outside: in names, footers, id lists and answers of a metastore.

Stores keep ids as signed 64-bit numbers, and no engine that counts from 1 gets near the end of those.
"""
LAST_SEED = 1 << 61
"""Highest id that a store takes over (adoption, migration); half of all ids remain for new transactions."""

TRANSACTIONAL = "transactional"
TRANSACTIONAL_PROPERTIES = "transactional_properties"
BUCKETING_VERSION = "bucketing_version"
"""Names of the table properties that decide what a definition means; ``config.property_definitions`` has all others."""
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def partition_value(text: str | None) -> str | None:
    """Return the value of a partition's text: None (NULL) for the empty text and for the default partition's name.

    Hive keeps no difference: all three are one partition, in every type of column.
    """
    return None if text == DEFAULT_PARTITION else text or None


def partition_value_shown(value: str | None) -> str:
    """Return the text of a partition value that names of partitions and stores hold."""
    return DEFAULT_PARTITION if value is None else value


@dataclass(frozen=True, order=True)
class TableName:
    """Database and table, both lower case as Hive keeps them."""

    database: str
    name: str

    @classmethod
    def parse(cls, text: str, database: str = "default") -> TableName:
        """Parse ``db.table`` or ``table``; a table without a database is in ``database``."""
        owner, dot, name = text.strip().replace("`", "").rpartition(".")
        return cls((owner if dot else database).lower(), name.lower())

    def __str__(self) -> str:
        """Return ``db.table``, the spelling of write-id lists."""
        return f"{self.database}.{self.name}"


@dataclass(frozen=True)
class Column:
    """A column: lower-case name, Hive type text (normalised by ``core.schema.types``), comment."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True)
class Bucketing:
    """CLUSTERED BY (columns) [SORTED BY (...)] INTO ``count`` BUCKETS.

    ``descending`` names those of the sort columns that are sorted DESC.
    """

    columns: tuple[str, ...]
    count: int
    sort_columns: tuple[str, ...] = ()
    descending: tuple[str, ...] = ()


@dataclass(frozen=True)
class StorageFormat:
    """SerDe and input/output format classes with SerDe properties."""

    serde: str
    input_format: str
    output_format: str
    serde_properties: tuple[tuple[str, str], ...] = ()


class TableKind(StrEnum):
    """Transactional type of a table (`AcidUtils.getAcidOperationalProperties`)."""

    PLAIN = "plain"
    FULL_ACID = "full_acid"
    INSERT_ONLY = "insert_only"


@dataclass(frozen=True)
class TableDefinition:
    """Everything the catalog knows of a table.

    ``location`` is absolute (a path or a URI); ``properties`` are TBLPROPERTIES with their keys as given.
    ``incarnation``: a unique id that the store gives to each table that it creates. RENAME and ALTER keep it; a table that
    is dropped and created again has another one. Empty until the store has created the table. ``constraints``: as a store of
    hiveacid keeps them; a metastore keeps them apart (`Catalog.constraints`).
    """

    name: TableName
    columns: tuple[Column, ...]
    storage: StorageFormat
    location: str
    partition_columns: tuple[Column, ...] = ()
    bucketing: Bucketing | None = None
    properties: tuple[tuple[str, str], ...] = ()
    external: bool = False
    comment: str | None = None
    owner: str = ""
    created_at: int = field(default=0)  # seconds since the epoch
    incarnation: str = field(default="", compare=False)
    constraints: tuple[Constraint, ...] = ()

    @property
    def unique_id(self) -> str:
        """Return an id that no other table of the store has.

        RENAME keeps it, but not that of a table that Hive 3 made, whose incarnation is the second of its creation.
        """
        is_time = self.incarnation.endswith(" ")
        return f"{self.incarnation}{self.name}" if is_time else self.incarnation

    def is_same_table(self, other: TableDefinition | None) -> bool:
        """Tell whether ``other`` defines this very table, perhaps altered since, not a later one of its name and directory."""
        return other is not None and other.incarnation == self.incarnation

    @property
    def kind(self) -> TableKind:
        """Return plain, insert-only or full ACID, from ``transactional`` and ``transactional_properties``."""
        if (self.property(TRANSACTIONAL) or "").lower() != "true":
            return TableKind.PLAIN
        if (self.property(TRANSACTIONAL_PROPERTIES) or "").lower() == "insert_only":
            return TableKind.INSERT_ONLY
        return TableKind.FULL_ACID

    @property
    def column_names(self) -> list[str]:
        """Return the names of all columns, those of partition columns last."""
        return [column.name for column in self.all_columns]

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """Return the columns, then the partition columns."""
        return (*self.columns, *self.partition_columns)

    @property
    def partition_column_names(self) -> list[str]:
        """Return the names of the partition columns."""
        return [column.name for column in self.partition_columns]

    @property
    def bucketing_version(self) -> int:
        """Return 2 where the property says so, else 1 (absent means a table older than Hive 3)."""
        return 2 if self.property(BUCKETING_VERSION) == "2" else 1

    def with_properties(self, changes: dict[str, str]) -> TableDefinition:
        """Return a copy with properties set, each in place of that of the same key in another case."""
        left = self.without_properties(*map(str.lower, changes)).properties
        return replace(self, properties=tuple(sorted((dict(left) | changes).items())))

    def without_properties(self, *keys: str) -> TableDefinition:
        """Return a copy without the properties of these keys, given in lower case."""
        left = tuple(pair for pair in self.properties if pair[0].lower() not in keys)
        return replace(self, properties=left)

    def property(self, key: str) -> str | None:
        """Return a table property, its key compared without case as Hive does.

        It is the last method, because its name hides the decorator ``property`` from the code after it.
        """
        lower_key = key.lower()
        return next((value for name, value in self.properties if name.lower() == lower_key), None)


@dataclass(frozen=True)
class Partition:
    """A partition: one value text per partition column (None = the default partition), absolute location.

    ``min_write_id``: the lowest write id whose writer had not ended when the store recorded the partition. Directories of
    lower ids can only be those of writers that were paused until after their abort, or what a DROP of an earlier partition of
    these values could not delete, and no reader sees them.
    """

    values: tuple[str | None, ...]
    location: str
    properties: tuple[tuple[str, str], ...] = ()
    min_write_id: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        """Normalise the values, wherever their texts come from (`partition_value`)."""
        object.__setattr__(self, "values", tuple(map(partition_value, self.values)))

    @property
    def key(self) -> tuple[str, ...]:
        """Return the values as texts, which identify the partition."""
        return tuple(map(partition_value_shown, self.values))


@dataclass(frozen=True)
class ViewDefinition:
    """A view in the catalog (Hive's VIRTUAL_VIEW).

    ``text``: its query with all names qualified; ``original``: the query as it was written. ``outputs``: the names
    that the query gives its columns. They match ``columns`` to the query's columns after a table below the view has
    changed; without them, columns match by position. ``database``: the current database when the view was created.
    ``settings``: the creator's settings of Spark that change what the query means.
    """

    name: TableName
    columns: tuple[Column, ...]
    text: str
    original: str = ""
    outputs: tuple[str, ...] = ()
    database: str = "default"
    properties: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    owner: str = ""
    created_at: int = field(default=0)  # seconds since the epoch
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class DatabaseDefinition:
    """A database: lower-case name, location, comment, properties, owner (a user; empty: not known)."""

    name: str
    location: str
    comment: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    owner: str = ""


class ConstraintKind(StrEnum):
    """The kinds of constraints; those of keys only inform."""

    PRIMARY_KEY = "PRIMARY KEY"
    FOREIGN_KEY = "FOREIGN KEY"
    UNIQUE = "UNIQUE"
    NOT_NULL = "NOT NULL"
    DEFAULT = "DEFAULT"
    CHECK = "CHECK"


@dataclass(frozen=True)
class Constraint:
    """A constraint of a table; `core.schema.constraints` has the rules.

    ``column``: lower case; None for a key, and for a CHECK of the table. ``expression``: of a CHECK or DEFAULT, in SQL.
    ``enabled``: writers apply it. ``rely``: optimizers may trust it. ``key``: the columns of a key. ``parent``, ``parent_key``:
    the table and columns that a foreign key refers to.
    """

    kind: ConstraintKind
    name: str
    column: str | None = None
    expression: str = ""
    enabled: bool = True
    rely: bool = True
    key: tuple[str, ...] = ()
    parent: TableName | None = None
    parent_key: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the kind with its name: ``constraint nn_a (NOT NULL)``, ``constraint c1 (CHECK a < b)``."""
        said = " ".join(filter(None, (self.kind.value, self.expression)))
        return " ".join(filter(None, ("constraint", self.name, f"({said})")))


class ShownAsText:
    """A value that `Displayed` shows by its ``str``."""


_PLAIN = (str, int, float, TableName, ShownAsText)
_MAX_TEXT = 200


class Displayed:
    """A dataclass that shows its plain public fields, if they differ from their defaults.

    Its connection, with the store's address and all settings, is not shown.
    """

    def shown(self) -> Mapping[str, object]:
        """Return the facts for ``repr``, without access to the store."""
        facts: dict[str, object] = {}
        for member in fields(self):  # type: ignore[arg-type] # each class with this base is a dataclass
            value = getattr(self, member.name)
            default = None if member.default is MISSING else member.default
            if not member.name.startswith("_") and isinstance(value, _PLAIN) and value != default:
                facts[member.name] = value
        return facts

    def described(self) -> Mapping[str, object]:
        """Return the facts for notebooks."""
        return self.shown()

    def __repr__(self) -> str:
        """Return the facts in one line."""
        return f"{type(self).__name__}({', '.join(f'{name}={_cut(value)}' for name, value in self.shown().items())})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(_cut(value))}</td></tr>"
            for name, value in self.described().items()
        )
        return f"<table><caption>{escape(type(self).__name__)}</caption>{rows}</table>"


def _cut(value: object) -> str:
    text = str(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."
