"""Writes `messages.pyi`: what the message classes look like to a type checker.

    python -m coordinator.protocol.stubs

The classes are built from definitions when they are imported, so no type checker can see their fields. `make check` writes the
stub before it calls mypy; it is not in git.
"""

import sys
from collections.abc import Collection
from pathlib import Path

from coordinator.protocol.schema import Definition, Field, SchemaFolder, Structure

STUB = Path(__file__).with_name("messages.pyi")
_HEADER = """\
# Written by `python -m coordinator.protocol.stubs` from protocol_schemas; do not edit.
from typing import ClassVar, Generic, TypeVar, dataclass_transform

from coordinator.protocol.class_specs import ClassSpecs

CLASS_SPECS: ClassSpecs

@dataclass_transform()
class Message:
    API_KEY: ClassVar[int | None]
    NAME: ClassVar[str]
    VERSIONS: ClassVar[tuple[int, int]]

Answer = TypeVar("Answer", bound=Message, covariant=True)

class Request(Message, Generic[Answer]): ...

def message_class(name: str) -> type[Message]: ...
"""
_TYPES = {"string": "str", "bytes": "bytes", "records": "bytes", "uuid": "bytes", "bool": "bool", "float64": "float"}


def render(schemas: SchemaFolder) -> str:
    """The whole stub as text."""
    return "\n".join([_HEADER, *(_message(schemas[name], schemas.names) for name in schemas.names)])


def _message(definition: Definition, names: Collection[str]) -> str:
    response = f"{definition.name.removesuffix('Request')}Response"
    base = f"Request[{response}]" if response in names and definition.name != response else "Message"
    if not definition.root.fields:
        return f"class {definition.name}({base}): ...\n"
    lines = [f"class {definition.name}({base}):"]
    for structure in definition.structures.values():
        if structure is not definition.root:
            lines.append(f"    class {structure.name}(Message):")
            lines += _fields(definition, structure, "        ")
            lines.append("")
    lines += _fields(definition, definition.root, "    ")
    return "\n".join(lines) + "\n"


def _fields(definition: Definition, structure: Structure, indent: str) -> list[str]:
    return [f"{indent}{field.attribute}: {_type(definition, field)} = ..." for field in structure.fields] or [
        f"{indent}..."
    ]


def _type(definition: Definition, field: Field) -> str:
    name = field.type.name
    text = f"{definition.name}.{name}" if field.type.is_struct else _TYPES.get(name, "int")
    if field.type.is_array:
        text = f"list[{text}]"
    can_be_null = field.default is None or any(version in field.nullable for version in definition.versions)
    return f"{text} | None" if can_be_null else text


if __name__ == "__main__":
    STUB.write_text(render(SchemaFolder()), encoding="utf-8")
    sys.stdout.write(f"{STUB}\n")
