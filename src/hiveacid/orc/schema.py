"""Columns of an ORC file as Hive types, with their names as written."""

from __future__ import annotations

from hiveacid.core.schema.types import LOCAL_TIMESTAMP, Array, Field, HiveType, Map, Primitive, Struct, Union
from hiveacid.orc.tail import ACID_FIELDS, ROW, OrcKind, OrcTail, OrcType

_PRIMITIVES = {
    OrcKind.BOOLEAN: "boolean",
    OrcKind.BYTE: "tinyint",
    OrcKind.SHORT: "smallint",
    OrcKind.INT: "int",
    OrcKind.LONG: "bigint",
    OrcKind.FLOAT: "float",
    OrcKind.DOUBLE: "double",
    OrcKind.STRING: "string",
    OrcKind.BINARY: "binary",
    OrcKind.TIMESTAMP: "timestamp",
    OrcKind.DATE: "date",
    OrcKind.TIMESTAMP_INSTANT: LOCAL_TIMESTAMP,
}
_ACID_NAMES = [name.lower() for name in ACID_FIELDS]
_OLD_DECIMAL = (38, 18)  # Hive 0.11 and 0.12 wrote none


def is_acid_root(tail: OrcTail) -> bool:
    """Tell whether ORC readers treat a file as one of ACID events: its root has the six names in order, in any case."""
    if not tail.types or [name.lower() for name in tail.types[0].names] != _ACID_NAMES:
        return False
    return tail.types[tail.types[0].children[-1]].kind is OrcKind.STRUCT


def row_schema(tail: OrcTail) -> Struct:
    """Return the user's columns of a file: the fields of ``row`` in an ACID file, else those of the root.

    A root that is no struct is one field called ``_col0``; a file of 0 bytes has no fields.
    """
    if not tail.types:
        return Struct(())
    found = _hive_type(tail, ROW if is_acid_root(tail) else 0)
    return found if isinstance(found, Struct) else Struct((Field("_col0", found),))


def _hive_type(tail: OrcTail, at: int) -> HiveType:
    node = tail.types[at]
    match node.kind:
        case OrcKind.STRUCT:
            fields = zip(node.names, node.children, strict=True)
            return Struct(tuple(Field(name, _hive_type(tail, child)) for name, child in fields))
        case OrcKind.LIST:
            return Array(_hive_type(tail, node.children[0]))
        case OrcKind.MAP:
            key, value = (_hive_type(tail, child) for child in node.children)
            return Map(key, value)
        case OrcKind.UNION:
            return Union(tuple(_hive_type(tail, child) for child in node.children))
    return _primitive(node)


def _primitive(node: OrcType) -> Primitive:
    match node.kind:
        case OrcKind.DECIMAL:
            precision, scale = _OLD_DECIMAL if not node.precision else (node.precision, node.scale or 0)
            return Primitive("decimal", (precision, scale))
        case OrcKind.VARCHAR | OrcKind.CHAR:
            name = "varchar" if node.kind is OrcKind.VARCHAR else "char"
            return Primitive(name, (node.maximum_length or 0,))
    return Primitive(_PRIMITIVES[node.kind])
