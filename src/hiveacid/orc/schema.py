"""Columns of an ORC file as Hive types, with their names as written."""

from __future__ import annotations

from hiveacid.core.schema.types import LOCAL_TIMESTAMP, Array, Field, HiveType, Map, Primitive, Struct, Union
from hiveacid.orc.tail import ROW, OrcKind, OrcTail, OrcType

HIVE_NAMES = {
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
"""Hive's names of the types without lengths or digits."""
_OLD_DECIMAL = (38, 18)  # precision and scale of a decimal for which Hive 0.11 and 0.12 wrote none


def row_schema(tail: OrcTail) -> Struct:
    """Return the user's columns of a file: the fields of ``row`` in an ACID file, else those of the root.

    A root that is not a struct is one field called ``_col0``; a file of 0 bytes has no fields.
    """
    if not tail.types:
        return Struct(())
    root = _hive_type(tail, ROW if tail.is_acid else 0)
    return root if isinstance(root, Struct) else Struct((Field("_col0", root),))


def _hive_type(tail: OrcTail, column_id: int) -> HiveType:
    node = tail.types[column_id]
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
    return Primitive(HIVE_NAMES[node.kind])
