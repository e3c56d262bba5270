"""Thrift structs as data: names, numbers and types of their fields. The Thrift library is not needed to declare them.

Types have the numbers of the binary protocol; structs have the tuples that the Apache library's encoder reads
(``thrift_spec``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Kind:
    """A type: its number in the protocol, and the encoder's further arguments."""

    code: int
    arguments: Any = None


_STRUCT, _LIST = 12, 15
BOOL = Kind(2)
BYTE = Kind(3)
I16 = Kind(6)
I32 = Kind(8)  # enumerations too
I64 = Kind(10)
TEXT = Kind(11, "UTF8")
BYTES = Kind(11, "BINARY")


def list_of(item: Kind | type[ThriftStruct]) -> Kind:
    """Return the type of a list."""
    item = kind_of(item)
    return Kind(_LIST, (item.code, item.arguments, False))


def key_list_of(item: Kind) -> Kind:
    """Return the type of a list that is a map's key: a tuple, because Python takes no list there."""
    return Kind(15, (item.code, item.arguments, True))


def set_of(item: Kind) -> Kind:
    """Return the type of a set."""
    return Kind(14, (item.code, item.arguments, False))


def map_of(key: Kind, value: Kind) -> Kind:
    """Return the type of a map."""
    return Kind(13, (key.code, key.arguments, value.code, value.arguments, False))


class ThriftStruct:
    """A value on the wire, with an attribute per field (None: absent). Subclasses declare the fields."""

    thrift_spec: ClassVar[tuple[Any, ...]] = ()
    required: ClassVar[tuple[str, ...]] = ()
    nested: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **values: Any) -> None:
        """Set fields by name; the others are absent: None is their class's, which keeps long answers small."""
        for name, value in values.items():
            if name not in type(self).__dict__:
                raise TypeError(f"{type(self).__name__} has no field {name}")
            setattr(self, name, value)

    def read(self, protocol: Any) -> None:
        """Read the fields; undeclared ones are skipped."""
        fast = getattr(protocol, "_fast_decode", None)  # the library's compiled half, where it is installed
        if fast is not None:
            fast(self, protocol, [type(self), self.thrift_spec])
        else:
            protocol.readStruct(self, self.thrift_spec)

    def write(self, protocol: Any) -> None:
        """Write the fields."""
        fast = getattr(protocol, "_fast_encode", None)
        if fast is not None:
            protocol.trans.write(fast(self, [type(self), self.thrift_spec]))
        else:
            protocol.writeStruct(self, self.thrift_spec)

    def __repr__(self) -> str:
        """Return the fields that are there."""
        fields = {field[2]: getattr(self, field[2]) for field in self.thrift_spec if field is not None}
        arguments = ", ".join(f"{name}={value!r}" for name, value in fields.items() if value is not None)
        return f"{type(self).__name__}({arguments})"


def struct(
    name: str, *declared: tuple[int, str, Kind | type[ThriftStruct]], required: tuple[str, ...] = ()
) -> Any:
    """Declare a struct by its fields: number, name, type. Returns a class below :class:`ThriftStruct`.

    ``required``: fields that are read without a check for None; an answer that lacks one is of no use
    (`missing_required_field`).
    """
    fields = [(number, field, kind_of(kind)) for number, field, kind in declared]
    numbered = {number: (number, kind.code, field, kind.arguments, None) for number, field, kind in fields}
    spec = tuple(numbered.get(number) for number in range(max(numbered, default=-1) + 1))
    nested = tuple(field for _, field, kind in fields if _has_required(kind))
    absent = {field: None for _, field, _ in fields}
    attributes = {"thrift_spec": spec, "required": required, "nested": nested}
    return type(name, (ThriftStruct,), {**absent, **attributes, "__doc__": f"``{name}`` of the interface."})


def missing_required_field(value: ThriftStruct) -> str | None:
    """Return the first required field that a struct, or one inside of it, lacks."""
    for name in value.required:
        if getattr(value, name) is None:
            return f"{type(value).__name__}.{name}"
    for name in value.nested:
        item = getattr(value, name)
        for element in item if isinstance(item, (list, tuple)) else () if item is None else (item,):
            field_name = missing_required_field(element)
            if field_name is not None:
                return field_name
    return None


def is_empty(kind: Kind) -> bool:
    """Tell whether a type is a struct without fields."""
    return kind.code == _STRUCT and not any(kind.arguments[1])


def _has_required(kind: Kind) -> bool:
    """Tell whether values of a type are structs, or lists of structs, with required fields."""
    arguments = kind.arguments[1] if kind.code == _LIST else kind.arguments if kind.code == _STRUCT else None
    return isinstance(arguments, list) and bool(arguments[0].required or arguments[0].nested)


def struct_of(declared: type[ThriftStruct]) -> Kind:
    """Return the type of a struct as a field."""
    return Kind(_STRUCT, [declared, declared.thrift_spec])


def kind_of(declared: Kind | type[ThriftStruct]) -> Kind:
    """Return a type, also of a struct that is given by its class."""
    return declared if isinstance(declared, Kind) else struct_of(declared)


@dataclass(frozen=True)
class Method:
    """A call: its arguments, its answer, and the errors that it may raise by their number in the answer.

    ``retryable``: the call can be repeated safely if its answer was lost.
    """

    arguments: type[ThriftStruct]
    answer: type[ThriftStruct]
    errors: Mapping[int, str]
    retryable: bool
