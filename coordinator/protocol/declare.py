"""One version of a message as bytes: JSON definition -> `construct` declaration.

The declaration is the readable reference. It parses and builds by itself (`declare(...).parse(data)`), which is how people
inspect a frame, and `compile.py` walks it to write the fast functions. All rules of a version are settled here: which fields
exist, which are tagged or nullable, how sizes are written. Nothing behind this file depends on a version.
"""

from typing import Any

from coordinator.protocol.primitives import (
    FORMAT_CODES,
    Absent,
    Array,
    Body,
    Fixed,
    Marker,
    Nullable,
    Prefix,
    Sized,
    Tagged,
    Uuid,
    Value,
)
from coordinator.protocol.schema import Definition, Field, SchemaError, Structure


def declare(definition: Definition, version: int) -> Body:
    """Declares one version of a message. Raises SchemaError if the message does not have that version."""
    if version not in definition.versions:
        raise SchemaError(f"{definition.name} has no version {version}")
    return _body(definition, definition.root, version)


def _body(definition: Definition, structure: Structure, version: int) -> Body:
    fields: list[Any] = []
    tagged: list[Tagged] = []
    for field in structure.fields:
        if version not in field.versions:
            fields.append(field.attribute / Absent(_value(definition, field, version), ignorable=field.ignorable))
        elif version in field.tagged:
            subcon = _wire_type(definition, field, version, is_tagged=True)
            tagged.append(Tagged(field.tag or 0, field.attribute, subcon, _value(definition, field, version)))
        else:
            fields.append(field.attribute / _wire_type(definition, field, version, is_tagged=False))
    return Body(structure.name, fields, tagged, flexible=version in definition.flexible)


def _wire_type(definition: Definition, field: Field, version: int, *, is_tagged: bool) -> Any:
    flexible = version in (definition.flexible if field.flexible is None else field.flexible)
    nullable = version in field.nullable
    if field.type.is_array:
        element = _element(definition, field, version, flexible=flexible, nullable=False)
        return Array(Prefix.COMPACT if flexible else Prefix.INT32, element, nullable=nullable)
    element = _element(definition, field, version, flexible=flexible, nullable=nullable)
    if field.type.is_struct and nullable:
        return Nullable(element, Marker.VARINT if is_tagged else Marker.INT8)
    return element


def _element(definition: Definition, field: Field, version: int, *, flexible: bool, nullable: bool) -> Any:
    match field.type.name:
        case "string":
            return Sized(Prefix.COMPACT if flexible else Prefix.INT16, is_text=True, nullable=nullable)
        case "bytes" | "records":
            return Sized(Prefix.COMPACT if flexible else Prefix.INT32, is_text=False, nullable=nullable)
        case "uuid":
            return Uuid()
        case name if name in FORMAT_CODES:
            return Fixed(name)
        case name:
            return _body(definition, definition.structures[name], version)


def _value(definition: Definition, field: Field, version: int) -> Value:
    struct: dict[str, Value] = {}
    if field.type.is_struct and not field.type.is_array:
        members = definition.structures[field.type.name].fields
        struct = {member.attribute: _value(definition, member, version) for member in members}
    return Value(field.default, field.type.name if struct else None, struct, nullable=version in field.nullable)
