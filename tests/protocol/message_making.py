"""Makes random messages of any definition and version, with a preference for edge values."""

import struct
from random import Random
from typing import Any

from coordinator.protocol.messages import Message, message_class
from coordinator.protocol.schema import Definition, Field, SchemaFolder, Structure

SCHEMAS = SchemaFolder()
EVERY_MESSAGE = SCHEMAS.names
EVERY_VERSION = [(name, version) for name in EVERY_MESSAGE for version in SCHEMAS[name].versions]

_WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ("", "a", "topic-1", "groß €uro 𝄞", "x" * 126, "y" * 127, "z" * 128, "w" * 300)


def make_message(definition: Definition, version: int, random: Random) -> Message:
    """A message with every field of the version set to something, and every other field at its default."""
    return _structure(definition, definition.root, version, random)


def _structure(definition: Definition, structure: Structure, version: int, random: Random) -> Message:
    top = message_class(definition.name)
    made = (top if structure is definition.root else getattr(top, structure.name))()
    for field in structure.fields:
        is_tag_left_out = version in field.tagged and random.random() < 0.4
        if version in field.versions and not is_tag_left_out:
            setattr(made, field.attribute, _value(definition, field, version, random))
    return made


def _value(definition: Definition, field: Field, version: int, random: Random) -> Any:
    if version in field.nullable and random.random() < 0.3:
        return None
    if field.type.is_array:
        count = random.choice((0, 1, 1, 2, 3)) if field.type.is_struct else random.choice((0, 1, 2, 5, 130))
        return [_element(definition, field, version, random) for _ in range(count)]
    return _element(definition, field, version, random)


def _element(definition: Definition, field: Field, version: int, random: Random) -> Any:
    match field.type.name:
        case "string":
            return random.choice(_TEXTS)
        case "bytes" | "records":
            return random.randbytes(random.choice((0, 1, 126, 127, 500)))
        case "uuid":
            return random.randbytes(16)
        case "bool":
            return random.random() < 0.5
        case "uint16":
            return random.randrange(1 << 16)
        case "uint32":
            return random.randrange(1 << 32)
        case "float64":
            return struct.unpack(">d", struct.pack(">d", random.uniform(-1e9, 1e9)))[0]
        case name if name in _WIDTHS:
            bound = 1 << (_WIDTHS[name] - 1)
            return random.choice((0, 1, -1, bound - 1, -bound, random.randrange(-bound, bound)))
        case name:
            return _structure(definition, definition.structures[name], version, random)


def as_plain(value: Any) -> Any:
    """A message, or what `construct` parsed, as dictionaries and lists."""
    if isinstance(value, Message):
        return {name: as_plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, dict):
        return {name: as_plain(member) for name, member in value.items() if not name.startswith("_")}
    if isinstance(value, list):
        return [as_plain(member) for member in value]
    return value
