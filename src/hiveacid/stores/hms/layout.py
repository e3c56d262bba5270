"""Thrift structs as data: what a field is called, its number and type. No Thrift library is needed to declare them.

The binary protocol's numbers for types, and the tuples that the Apache library's encoder reads (``thrift_spec``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Kind:
    """A type: its number in the protocol, and what the encoder wants to know beside it."""

    code: int
    arguments: Any = None


BOOL = Kind(2)
BYTE = Kind(3)
I16 = Kind(6)
I32 = Kind(8)  # enumerations too
I64 = Kind(10)
TEXT = Kind(11, "UTF8")
BYTES = Kind(11, "BINARY")


def list_of(item: Kind) -> Kind:
    """Return the type of a list."""
    return Kind(15, (item.code, item.arguments, False))


def key_list_of(item: Kind) -> Kind:
    """Return the type of a list that is a map's key: a tuple, because Python takes no list there."""
    return Kind(15, (item.code, item.arguments, True))


def set_of(item: Kind) -> Kind:
    """Return the type of a set."""
    return Kind(14, (item.code, item.arguments, False))


def map_of(key: Kind, value: Kind) -> Kind:
    """Return the type of a map."""
    return Kind(13, (key.code, key.arguments, value.code, value.arguments, False))


class Struct:
    """A value on the wire: an attribute a field, None where it is absent. Its fields are those of the subclass."""

    thrift_spec: ClassVar[tuple[Any, ...]] = ()

    def __init__(self, **values: Any) -> None:
        """Set fields by name; the others are absent."""
        for field in self.thrift_spec:
            if field is not None:
                setattr(self, field[2], values.pop(field[2], None))
        if values:
            raise TypeError(f"{type(self).__name__} has no field {min(values)}")

    def read(self, protocol: Any) -> None:
        """Fill the fields from the wire; fields that nobody declared are passed over."""
        fast = getattr(protocol, "_fast_decode", None)  # the library's compiled half, where it is installed
        if fast is not None:
            fast(self, protocol, [type(self), self.thrift_spec])
        else:
            protocol.readStruct(self, self.thrift_spec)

    def write(self, protocol: Any) -> None:
        """Put the fields on the wire."""
        fast = getattr(protocol, "_fast_encode", None)
        if fast is not None:
            protocol.trans.write(fast(self, [type(self), self.thrift_spec]))
        else:
            protocol.writeStruct(self, self.thrift_spec)

    def __repr__(self) -> str:
        """Return the fields that are there."""
        fields = {field[2]: getattr(self, field[2]) for field in self.thrift_spec if field is not None}
        shown = ", ".join(f"{name}={value!r}" for name, value in fields.items() if value is not None)
        return f"{type(self).__name__}({shown})"


def struct(name: str, *fields: tuple[int, str, Kind]) -> Any:
    """Declare a struct by its fields: number, name, type. Returns a class below :class:`Struct`."""
    numbered = {number: (number, kind.code, field, kind.arguments, None) for number, field, kind in fields}
    spec = tuple(numbered.get(number) for number in range(max(numbered, default=-1) + 1))
    return type(name, (Struct,), {"thrift_spec": spec, "__doc__": f"``{name}`` of the metastore."})


def of(declared: type[Struct]) -> Kind:
    """Return the type of a struct as a field."""
    return Kind(12, [declared, declared.thrift_spec])


@dataclass(frozen=True)
class Method:
    """A call: its arguments, its answer, and the errors that it may raise by their number in the answer.

    ``again``: it does no harm to ask once more if the answer was lost.
    """

    arguments: type[Struct]
    answer: type[Struct]
    errors: Mapping[int, str]
    again: bool
