"""Enabled constraints of a metastore's table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hiveacid.core.model import TableName
from hiveacid.core.schema.constraints import Constraint, ConstraintKind
from hiveacid.stores.hms.thrift import protocol

if TYPE_CHECKING:
    from hiveacid.stores.hms.capabilities import Capabilities
    from hiveacid.stores.hms.thrift.client import MetastoreClient

_CATALOG = "hive"  # the only one that transactions know


def enabled_constraints(
    client: MetastoreClient, capabilities: Capabilities, name: TableName
) -> tuple[Constraint, ...]:
    """Return NOT NULL, DEFAULT and CHECK constraints with ENABLE: by one call (Hive 4) or three (Hive 3)."""
    if capabilities.requests:
        request = protocol.AllTableConstraintsRequest(
            dbName=name.database, tblName=name.name, catName=_CATALOG
        )
        found = client.call("get_all_table_constraints", request).allTableConstraints
        if found is None:
            return ()
        raw = found.notNullConstraints, found.defaultConstraints, found.checkConstraints
    else:
        asked = protocol.ConstraintsRequest(catName=_CATALOG, db_name=name.database, tbl_name=name.name)
        raw = (
            client.call("get_not_null_constraints", asked).notNullConstraints,
            client.call("get_default_constraints", asked).defaultConstraints,
            client.call("get_check_constraints", asked).checkConstraints,
        )
    return tuple(_enabled(*raw))


def _enabled(not_null: Any, default: Any, check: Any) -> Iterator[Constraint]:
    for one in not_null or ():
        if one.enable_cstr:
            yield Constraint(ConstraintKind.NOT_NULL, one.nn_name or "", _column(one))
    for one in default or ():
        if one.enable_cstr:
            yield Constraint(ConstraintKind.DEFAULT, one.dc_name or "", _column(one), one.default_value or "")
    for one in check or ():
        if one.enable_cstr:
            yield Constraint(
                ConstraintKind.CHECK, one.dc_name or "", _column(one), one.check_expression or ""
            )


def _column(raw: Any) -> str | None:
    return raw.column_name.lower() if raw.column_name else None
