"""Constraints in a metastore: a struct for each column of a key, and for each other constraint.

They are not cached, because constraints change without the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from hiveacid.core.model import Constraint, ConstraintKind, TableName
from hiveacid.core.schema.constraints import KEYS
from hiveacid.stores.hms import protocol
from hiveacid.stores.hms.client import MetastoreClient
from hiveacid.stores.hms.thrift_structs import ThriftStruct

_CATALOG = "hive"  # the only one that transactions know


@dataclass(frozen=True)
class _Fields:
    """Names that the metastore has for a kind. ``call``: in ``get_…s`` and ``add_…``. ``several``: field of answers. ``text``: of the expression."""

    struct: str
    call: str
    several: str
    name: str
    text: str = ""
    owner: str = ""  # prefix of the fields that hold the table and the column


_FIELDS = {
    ConstraintKind.PRIMARY_KEY: _Fields("SQLPrimaryKey", "primary_key", "primaryKeys", "pk_name"),
    ConstraintKind.FOREIGN_KEY: _Fields("SQLForeignKey", "foreign_key", "foreignKeys", "fk_name", owner="fk"),
    ConstraintKind.UNIQUE: _Fields(
        "SQLUniqueConstraint", "unique_constraint", "uniqueConstraints", "uk_name"
    ),
    ConstraintKind.NOT_NULL: _Fields(
        "SQLNotNullConstraint", "not_null_constraint", "notNullConstraints", "nn_name"
    ),
    ConstraintKind.DEFAULT: _Fields(
        "SQLDefaultConstraint", "default_constraint", "defaultConstraints", "dc_name", "default_value"
    ),
    ConstraintKind.CHECK: _Fields(
        "SQLCheckConstraint", "check_constraint", "checkConstraints", "dc_name", "check_expression"
    ),
}


def fetch_constraints(
    client: MetastoreClient, name: TableName, *, at_once: bool, keys: bool
) -> Iterator[Constraint]:
    """Yield a table's constraints: by one call (Hive 4, ``at_once``) or one for each kind (Hive 3)."""
    kinds = [kind for kind in _FIELDS if keys or kind not in KEYS]
    if at_once:
        request = protocol.AllTableConstraintsRequest(
            dbName=name.database, tblName=name.name, catName=_CATALOG
        )
        answer = client.call("get_all_table_constraints", request).allTableConstraints
        if answer is not None:
            for kind in kinds:
                yield from _constraints(kind, getattr(answer, _FIELDS[kind].several))
        return
    for kind in kinds:
        request = protocol.ConstraintsRequest(catName=_CATALOG, db_name=name.database, tbl_name=name.name)
        if kind is ConstraintKind.PRIMARY_KEY:
            request = protocol.PrimaryKeysRequest(db_name=name.database, tbl_name=name.name, catName=_CATALOG)
        elif kind is ConstraintKind.FOREIGN_KEY:
            request = protocol.ForeignKeysRequest(
                foreign_db_name=name.database, foreign_tbl_name=name.name, catName=_CATALOG
            )
        answer = client.call(f"get_{_FIELDS[kind].call}s", request)
        yield from _constraints(kind, getattr(answer, _FIELDS[kind].several))


def _constraints(kind: ConstraintKind, raws: Sequence[ThriftStruct] | None) -> Iterator[Constraint]:
    fields = _FIELDS[kind]

    def name_of(raw: ThriftStruct) -> str:
        return getattr(raw, fields.name) or ""

    if kind not in KEYS:
        for raw in raws or ():
            column = raw.column_name.lower() if raw.column_name else None
            expression = (getattr(raw, fields.text) or "") if fields.text else ""
            yield Constraint(
                kind, name_of(raw), column, expression, bool(raw.enable_cstr), bool(raw.rely_cstr)
            )
        return
    ordered = sorted(raws or (), key=lambda raw: (name_of(raw), raw.key_seq or 0))
    for name, members in groupby(ordered, name_of):
        columns = [*members]
        first = columns[0]
        yield Constraint(
            kind,
            name,
            enabled=bool(first.enable_cstr),
            rely=bool(first.rely_cstr),
            key=tuple(getattr(raw, f"{fields.owner}column_name").lower() for raw in columns),
            parent=TableName(first.pktable_db, first.pktable_name) if fields.owner else None,
            parent_key=tuple(raw.pkcolumn_name.lower() for raw in columns) if fields.owner else (),
        )


def add_constraint(client: MetastoreClient, name: TableName, constraint: Constraint) -> None:
    """Add a constraint to a table."""
    fields = _FIELDS[constraint.kind]
    request = "".join(part.title() for part in f"add_{fields.call}_request".split("_"))
    columns = f"{fields.several.removesuffix('s')}Cols"
    structs = [*_structs(name, constraint, fields)]
    client.call(f"add_{fields.call}", getattr(protocol, request)(**{columns: structs}))


def _structs(name: TableName, constraint: Constraint, fields: _Fields) -> Iterable[ThriftStruct]:
    for number, column in enumerate(constraint.key or (constraint.column,)):
        values: dict[str, object] = {
            "catName": _CATALOG,
            f"{fields.owner}table_db": name.database,
            f"{fields.owner}table_name": name.name,
            f"{fields.owner}column_name": column,
            fields.name: constraint.name,
            "enable_cstr": constraint.enabled,
            "validate_cstr": False,
            "rely_cstr": constraint.rely,
        }
        if constraint.kind in KEYS:
            values["key_seq"] = number + 1
        if constraint.parent is not None:
            values |= {"pktable_db": constraint.parent.database, "pktable_name": constraint.parent.name}
            values |= {"pkcolumn_name": constraint.parent_key[number], "update_rule": 0, "delete_rule": 0}
        if fields.text:
            values[fields.text] = constraint.expression
        yield getattr(protocol, fields.struct)(**values)


def drop_constraint(client: MetastoreClient, name: TableName, constraint: Constraint) -> None:
    """Drop a constraint of a table."""
    request = protocol.DropConstraintRequest(
        dbname=name.database, tablename=name.name, constraintname=constraint.name, catName=_CATALOG
    )
    client.call("drop_constraint", request)
