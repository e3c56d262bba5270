"""Thrift structs and calls, parsed from declarations in Thrift's own language. The Thrift library is not needed for it.

Types have the numbers of the binary protocol; structs have the tuples that the Apache library's encoder reads
(``thrift_spec``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar


@dataclass(frozen=True)
class Kind:
    """A type: its number in the protocol, and the encoder's further arguments."""

    code: int
    arguments: Any = None


_STRUCT, _MAP, _SET, _LIST = 12, 13, 14, 15
_TEXT = Kind(11, "UTF8")
_SIMPLE_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "bool": Kind(2),
        "byte": Kind(3),
        "double": Kind(4),
        "i16": Kind(6),
        "i32": Kind(8),
        "i64": Kind(10),
        "string": _TEXT,
        "binary": Kind(11, "BINARY"),
    }
)
_COMMENT = re.compile(r"#.*")
_STRUCT_DECLARATION = re.compile(r"struct (\w+) \{(.*?)\}", re.DOTALL)
_CALL_DECLARATION = re.compile(r"(?<!\S)(once )?+(\S++) (\w++)\(([^)]*+)\)(?:\s++throws \(([^)]*+)\))?")
_FIELD_DECLARATION = re.compile(r"\b(\d++): (required )?(\S++) (\w+)")


class ThriftStruct:
    """A value on the wire, with an attribute per field (None: absent). Subclasses declare the fields."""

    thrift_spec: ClassVar[tuple[Any, ...]] = ()
    required: ClassVar[tuple[str, ...]] = ()
    nested: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:  # the fields, of any type of the wire

        def __getattr__(self, name: str) -> Any: ...  # noqa: D105
        def __setattr__(self, name: str, value: object) -> None: ...  # noqa: D105

    def __init__(self, **values: object) -> None:
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


def _struct(
    name: str, fields: list[tuple[int, str, Kind]], required: tuple[str, ...] = ()
) -> type[ThriftStruct]:
    """Return a class below `ThriftStruct` with fields: number, name, type."""
    numbered = {number: (number, kind.code, field, kind.arguments, None) for number, field, kind in fields}
    spec = tuple(numbered.get(number) for number in range(max(numbered, default=-1) + 1))
    nested = tuple(field for _, field, kind in fields if _has_required(kind))
    absent = {field: None for _, field, _ in fields}
    attributes = {"thrift_spec": spec, "required": required, "nested": nested}
    return type(name, (ThriftStruct,), {**absent, **attributes, "__doc__": f"``{name}`` of the interface."})


def missing_required_field(value: ThriftStruct) -> str | None:
    """Return the first required field that a struct, or one inside it, lacks."""
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


def _has_required(kind: Kind) -> bool:
    """Tell whether values of a type are structs, or lists of structs, with required fields."""
    arguments = kind.arguments[1] if kind.code == _LIST else kind.arguments if kind.code == _STRUCT else None
    return isinstance(arguments, list) and bool(arguments[0].required or arguments[0].nested)


ExceptionMessage = _struct("ExceptionMessage", [(1, "message", _TEXT)])
"""Any exception of a server: each has its message in field 1."""


@dataclass(frozen=True)
class Method:
    """A call: its arguments, its answer, and the errors that it may raise by their number in the answer.

    ``retryable``: the call can be repeated safely if its answer was lost.
    """

    arguments: type[ThriftStruct]
    answer: type[ThriftStruct]
    errors: Mapping[int, str]
    retryable: bool

    @property
    def request(self) -> type[ThriftStruct]:
        """Return the struct that is the first argument."""
        struct: type[ThriftStruct] = self.arguments.thrift_spec[1][3][0]
        return struct

    @property
    def result(self) -> type[ThriftStruct]:
        """Return the struct that the answer holds."""
        struct: type[ThriftStruct] = self.answer.thrift_spec[0][3][0]
        return struct


@dataclass(frozen=True)
class Interface:
    """Structs and calls of an interface by their names."""

    structs: Mapping[str, type[ThriftStruct]]
    calls: Mapping[str, Method]


def parse_interface(text: str) -> Interface:
    """Parse declarations of structs and then calls, in Thrift's language; a struct is declared before its use.

    Fields that are read without a check are ``required``: an answer that lacks one is of no use
    (`missing_required_field`). A call behind the word ``once`` must not be repeated after a lost answer.
    """
    text = _COMMENT.sub("", text)
    structs: dict[str, type[ThriftStruct]] = {}
    for name, body in _STRUCT_DECLARATION.findall(text):
        required = tuple(
            field for _, is_required, _, field in _FIELD_DECLARATION.findall(body) if is_required
        )
        structs[name] = _struct(name, _fields(body, structs), required)
    calls = {}
    for once, answer, name, arguments, errors in _CALL_DECLARATION.findall(_STRUCT_DECLARATION.sub("", text)):
        raised = {int(number): kind for number, _, kind, _ in _FIELD_DECLARATION.findall(errors)}
        fields = [(number, f"o{number}", _struct_kind(ExceptionMessage)) for number in raised]
        kind = None if answer == "void" else _kind(answer, structs)
        if kind is not None:
            fields.append((0, "success", kind))
        # Not required are a text, which Java leaves out if it is null, and a struct without fields.
        is_empty = kind is not None and kind.code == _STRUCT and not kind.arguments[1]
        required = () if kind in (None, _TEXT) or is_empty else ("success",)
        calls[name] = Method(
            _struct("Arguments", _fields(arguments, structs)),
            _struct("Answer", fields, required),
            MappingProxyType(raised),
            not once,
        )
    return Interface(MappingProxyType(structs), MappingProxyType(calls))


def _fields(body: str, structs: Mapping[str, type[ThriftStruct]]) -> list[tuple[int, str, Kind]]:
    return [
        (int(number), name, _kind(kind, structs))
        for number, _, kind, name in _FIELD_DECLARATION.findall(body)
    ]


def _kind(text: str, structs: Mapping[str, type[ThriftStruct]], *, is_key: bool = False) -> Kind:
    """Return the type that a text such as ``map<string,list<i64>>`` names.

    ``is_key``: the type of a map's key, which is a tuple if it is a list.
    """
    outer, _, inner = text.removesuffix(">").partition("<")
    if outer == "map":
        key_text, _, value_text = inner.partition(",")
        key, value = _kind(key_text, structs, is_key=True), _kind(value_text, structs)
        return Kind(_MAP, (key.code, key.arguments, value.code, value.arguments, False))
    if inner:
        item = _kind(inner, structs)
        return Kind({"list": _LIST, "set": _SET}[outer], (item.code, item.arguments, is_key))
    return _SIMPLE_KINDS.get(outer) or _struct_kind(structs[outer])


def _struct_kind(declared: type[ThriftStruct]) -> Kind:
    return Kind(_STRUCT, [declared, declared.thrift_spec])
