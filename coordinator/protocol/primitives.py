"""The vocabulary of declarations: Kafka's wire types as `construct` classes.

They parse and build by themselves, slowly and plainly, and are the reference that the generated functions are tested against.
Each also carries what `compile.py` needs to write the same as straight-line code. A parsed structure is a
`construct.Container`, null is None, a UUID is 16 bytes.
"""

# mypy: allow-untyped-calls, no-warn-return-any
# ruff: noqa: ARG002, SLF001 - `construct` is extended by overriding, and calling, its _parse and _build
from collections.abc import Sequence
from enum import Enum
from io import SEEK_CUR, BytesIO
from typing import Any

import construct

from coordinator.protocol.schema import Default, Fresh
from coordinator.protocol.wire import TEXT_SIZE_MAX

FORMAT_CODES = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "l", "uint32": "L", "int64": "q", "float64": "d",
}  # fmt: skip
"""Primitive type -> code of the struct module, big-endian."""


class MalformedError(construct.ConstructError):
    """The bytes or the value break a rule of the declaration."""


class Prefix(Enum):
    """How a size is written before strings, bytes and arrays. COMPACT: a varint of the size plus one, zero for null."""

    INT16 = "h"
    INT32 = "l"
    COMPACT = "compact"


class Marker(Enum):
    """How a nullable structure marks its presence: an int8 of 1 or -1 or, in a tagged field, a varint of 1 or 0."""

    INT8 = "int8"
    VARINT = "varint"


class Fixed(construct.FormatField):
    """A number or boolean of fixed width; `code` is that of the struct module."""

    def __init__(self, type_name: str) -> None:
        super().__init__(">", FORMAT_CODES[type_name])
        self.code = FORMAT_CODES[type_name]


class Uuid(construct.Bytes):
    """16 raw bytes."""

    code = "16s"

    def __init__(self) -> None:
        super().__init__(16)


class UnsignedVarint(construct.Construct):
    """A varint: seven bits per byte, least significant first, at most five bytes and 31 bits."""

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = construct.stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80 and value <= 0x7FFFFFFF:
                return value
            if byte < 0x80:
                break
        raise MalformedError("a varint does not fit in 31 bits", path=path)

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        value = obj
        while value > 0x7F:
            construct.stream_write(stream, bytes([value & 0x7F | 0x80]), 1, path)
            value >>= 7
        construct.stream_write(stream, bytes([value]), 1, path)
        return obj


VARINT = UnsignedVarint()
_PREFIXES = {Prefix.INT16: Fixed("int16"), Prefix.INT32: Fixed("int32"), Prefix.COMPACT: VARINT}


class Size(construct.Construct):
    """The size before a string, bytes or an array; None stands for null."""

    def __init__(self, prefix: Prefix) -> None:
        super().__init__()
        self.prefix = prefix

    def _parse(self, stream: Any, context: Any, path: str) -> int | None:
        size: int = _PREFIXES[self.prefix]._parsereport(stream, context, path)
        if self.prefix is Prefix.COMPACT:
            size -= 1
        return None if size < 0 else size

    def _build(self, obj: int | None, stream: Any, context: Any, path: str) -> int | None:
        size = -1 if obj is None else obj
        _PREFIXES[self.prefix]._build(size + 1 if self.prefix is Prefix.COMPACT else size, stream, context, path)
        return obj


class Sized(construct.Construct):
    """A string (`is_text`) or bytes, behind their size."""

    def __init__(self, prefix: Prefix, *, is_text: bool, nullable: bool) -> None:
        super().__init__()
        self.prefix = prefix
        self.is_text = is_text
        self.nullable = nullable
        self._size = Size(prefix)

    def _parse(self, stream: Any, context: Any, path: str) -> str | bytes | None:
        size = self._size._parse(stream, context, path)
        if size is None:
            _require(self.nullable, "null where none is allowed", path)
            return None
        _require(not self.is_text or size <= TEXT_SIZE_MAX, "a string is too long", path)
        content: bytes = construct.stream_read(stream, size, path)
        if not self.is_text:
            return content
        text = content.decode("utf-8", "replace")
        _require(len(text.encode()) <= TEXT_SIZE_MAX, "a string that is not UTF-8 is too long", path)
        return text

    def _build(self, obj: str | bytes | None, stream: Any, context: Any, path: str) -> str | bytes | None:
        _require(obj is not None or self.nullable, "null where none is allowed", path)
        content = obj.encode() if isinstance(obj, str) else obj
        _require(not self.is_text or content is None or len(content) <= TEXT_SIZE_MAX, "a string is too long", path)
        self._size._build(None if content is None else len(content), stream, context, path)
        if content:
            construct.stream_write(stream, content, len(content), path)
        return obj


class Array(construct.Construct):
    """Elements behind their count. An element must have a byte, or arrays of any size would cost their sender nothing."""

    def __init__(self, prefix: Prefix, element: Any, *, nullable: bool) -> None:
        super().__init__()
        if least_size(element) == 0:
            raise MalformedError("an array of elements without bytes")
        self.prefix = prefix
        self.element = element
        self.nullable = nullable
        self._size = Size(prefix)

    def _parse(self, stream: Any, context: Any, path: str) -> list[Any] | None:
        count = self._size._parse(stream, context, path)
        if count is None:
            _require(self.nullable, "null where none is allowed", path)
            return None
        _require(count * least_size(self.element) <= _bytes_left(stream), "a count exceeds the bytes", path)
        return [self.element._parsereport(stream, context, path) for _ in range(count)]

    def _build(self, obj: Sequence[Any] | None, stream: Any, context: Any, path: str) -> Sequence[Any] | None:
        _require(obj is not None or self.nullable, "null where none is allowed", path)
        self._size._build(None if obj is None else len(obj), stream, context, path)
        for element in obj or ():
            self.element._build(element, stream, context, path)
        return obj


class Nullable(construct.Construct):
    """A nullable structure, behind its marker of presence."""

    def __init__(self, body: "Body", marker: Marker) -> None:
        super().__init__()
        self.body = body
        self.marker = marker
        self._sign = Fixed("int8") if marker is Marker.INT8 else VARINT

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        sign = self._sign._parsereport(stream, context, path)
        is_null = sign < 0 if self.marker is Marker.INT8 else sign == 0
        return None if is_null else self.body._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        null_sign = -1 if self.marker is Marker.INT8 else 0
        self._sign._build(null_sign if obj is None else 1, stream, context, path)
        if obj is not None:
            self.body._build(obj, stream, context, path)
        return obj


class Value:
    """A field's default: `default` as in the schema, `fresh()` as a parsed value.

    If the field is a structure, `struct` has the name and the default of each of its fields.
    """

    def __init__(
        self, default: Default, struct_name: str | None, struct: dict[str, "Value"], *, nullable: bool
    ) -> None:
        self.default = default
        self.struct_name = struct_name
        self.struct = struct
        self.nullable = nullable

    def fresh(self) -> Any:
        """Returns the default as a new value, as parsing would have made it."""
        if self.default is Fresh.LIST:
            return []
        if self.default is Fresh.STRUCT:
            return construct.Container({name: value.fresh() for name, value in self.struct.items()})
        return self.default


class Absent(construct.Construct):
    """A field that this version does not have. Parses to its default; another value is dropped when building, if ignorable."""

    def __init__(self, value: Value, *, ignorable: bool) -> None:
        super().__init__()
        self.value = value
        self.ignorable = ignorable

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        return self.value.fresh()

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        _require(self.ignorable or obj == self.value.fresh(), "a field of another version is set", path)
        return obj


class Tagged:
    """A field that is written, with its tag, only when it differs from its default."""

    def __init__(self, tag: int, attribute: str, subcon: Any, value: Value) -> None:
        self.tag = tag
        self.attribute = attribute
        self.subcon = subcon
        self.value = value


class Body(construct.Struct):
    """The fields of a structure in wire order, followed by the tagged fields in a flexible version."""

    def __init__(self, structure: str, fields: Sequence[Any], tagged: Sequence[Tagged], *, flexible: bool) -> None:
        super().__init__(*fields)
        self.structure = structure
        self.tagged = sorted(tagged, key=lambda field: field.tag)
        self.flexible = flexible

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        parsed = super()._parse(stream, context, path)
        if not self.flexible:
            return parsed
        fields = {field.tag: field for field in self.tagged}
        for field in self.tagged:
            parsed[field.attribute] = field.value.fresh()
        for _ in range(VARINT._parse(stream, context, path)):
            tag = VARINT._parse(stream, context, path)
            content = construct.stream_read(stream, VARINT._parse(stream, context, path), path)
            if tag in fields:
                inner = BytesIO(content)
                parsed[fields[tag].attribute] = fields[tag].subcon._parsereport(inner, context, path)
                _require(_bytes_left(inner) == 0, "a tagged field does not fill its size", path)
        return parsed

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        super()._build(obj, stream, context, path)
        if not self.flexible:
            return obj
        present = [field for field in self.tagged if obj[field.attribute] != field.value.fresh()]
        VARINT._build(len(present), stream, context, path)
        for field in present:
            inner = BytesIO()
            field.subcon._build(obj[field.attribute], inner, context, path)
            VARINT._build(field.tag, stream, context, path)
            VARINT._build(len(inner.getvalue()), stream, context, path)
            construct.stream_write(stream, inner.getvalue(), len(inner.getvalue()), path)
        return obj


def least_size(subcon: Any) -> int:
    """The minimum size of a value of this declaration, in bytes."""
    match subcon:
        case Fixed() | Uuid():
            return int(subcon.sizeof())
        case Sized() | Array():
            return {Prefix.INT16: 2, Prefix.INT32: 4, Prefix.COMPACT: 1}[subcon.prefix]
        case Body():
            return sum(least_size(field.subcon) for field in subcon.subcons) + subcon.flexible
        case Nullable():
            return 1
        case Absent():
            return 0
    raise TypeError(f"{subcon!r} is not part of a declaration")


def _bytes_left(stream: BytesIO) -> int:
    return len(stream.getbuffer()) - stream.seek(0, SEEK_CUR)


def _require(condition: bool, text: str, path: str) -> None:
    if not condition:
        raise MalformedError(text, path=path)
