"""The fields of a message in Kafka's own words: the way to them, what they must be, and values of one's own.

    MemberEpoch                 a field at the top
    Topics[].Partitions[].Index a field of every element of an array
    Topics[0].Name              of one element
    SubscribedTopicNames[]      the elements themselves

The definitions in protocol_schemas have the names (`GroupId`) and say which versions have them.
"""

import operator
import re
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from coordinator.protocol import messages
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.schema import Definition, Field, Structure
from coordinator.protocol.wire import TEXT_SIZE_MAX

_STEP = re.compile(r"(\w+)(?:\[(\d*)\])?")
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED = {"uint16": 16, "uint32": 32}
_UUID_BYTES = 16
_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip

EVERY = -1


class NoField(ValueError):
    """The message has no such field; `allowed`: what it has there."""

    def __init__(self, text: str, allowed: tuple[str, ...]) -> None:
        super().__init__(text)
        self.allowed = allowed


class NoValue(ValueError):
    """The value does not fit its field."""


class _Step(NamedTuple):
    field: Field
    structure: Structure | None
    """Of its elements, or of itself."""
    position: int | None
    """In its array; `EVERY`; None: the step is no element."""


class FieldPath(NamedTuple):
    """The way to a field of a message."""

    definition: Definition
    steps: tuple[_Step, ...]

    def is_in(self, version: int) -> bool:
        """Whether a version has the field."""
        return all(_has(step.field, version) for step in self.steps)

    def values(self, message: Any) -> list[Any]:
        """What is there: nothing where an array is empty or a structure is null."""
        found = [message]
        for step in self.steps:
            inside = [getattr(holder, step.field.attribute) for holder in found if holder is not None]
            found = (
                inside if step.position is None else [each for array in inside for each in _at(array, step.position)]
            )
        return found

    def checked(self, value: Any, version: int) -> None:
        """Raises NoValue if the field cannot have this value."""
        last = self.steps[-1]
        _value(self.definition, last.field, value, version, is_element=last.position is not None)

    def put(self, message: Any, value: Any, version: int) -> None:
        """Gives every such field this value."""
        *before, last = self.steps
        name, position = last.field.attribute, last.position
        for holder in FieldPath(self.definition, tuple(before)).values(message):
            if holder is None:
                continue
            # A value for each place: what is mutable must not be shared.
            if position is None:
                setattr(holder, name, _value(self.definition, last.field, value, version))
                continue
            array = getattr(holder, name) or []
            for index in range(len(array)) if position == EVERY else [position] if position < len(array) else []:
                array[index] = _value(self.definition, last.field, value, version, is_element=True)


def field_path(message: str, path: str) -> FieldPath:
    """The way to a field of a message such as HeartbeatRequest. Raises NoField."""
    definition = Codec.of().definition(message)
    structure: Structure | None = definition.root
    steps: list[_Step] = []
    for part in path.split("."):
        fields = {} if structure is None else {field.name: field for field in structure.fields}
        matched = _STEP.fullmatch(part)
        field = None if matched is None else fields.get(matched[1])
        if matched is None or field is None or (steps and steps[-1].field.type.is_array and steps[-1].position is None):
            raise NoField(f"{message} has no field {path}", tuple(_name(each) for each in definition.root.fields))
        position = None if matched[2] is None else int(matched[2] or EVERY)
        if position is not None and not field.type.is_array:
            raise NoField(f"{message}: {matched[1]} is no array", tuple(map(_name, fields.values())))
        structure = definition.structures[field.type.name] if field.type.is_struct else None
        steps.append(_Step(field, structure, position))
    return FieldPath(definition, tuple(steps))


def test(condition: Any, glob: Callable[[str], Callable[[str], Any] | None]) -> Callable[[Any], bool]:
    """Whether a value is what a condition says. `glob` compiles the texts of equality."""
    if isinstance(condition, dict):
        pairs = [(_COMPARED[sign], wanted) for sign, wanted in condition.items()]
        return lambda value: all(_is_so(compare, _plain(value), wanted) for compare, wanted in pairs)
    if isinstance(condition, tuple):
        tests = [test(each, glob) for each in condition]
        return lambda value: any(each(value) for each in tests)
    if isinstance(condition, str):
        matches = glob(condition)
        return lambda value: isinstance(plain := _plain(value), str) and matches is not None and bool(matches(plain))
    return lambda value: type(value) is type(condition) and value == condition


def compared(condition: Any) -> Iterator[tuple[str, Any]]:
    """The values that a condition names, each with how it is compared."""
    if isinstance(condition, dict):
        yield from condition.items()
    else:
        yield from (("==", each) for each in (condition if isinstance(condition, tuple) else (condition,)))


def _is_so(compare: Callable[[Any, Any], bool], value: Any, wanted: Any) -> bool:
    if compare in {operator.eq, operator.ne} or None not in (value, wanted):
        return compare(value, wanted)
    return False  # null is neither more nor less than anything


def _plain(value: Any) -> Any:
    """Ids as Kafka writes them."""
    return urlsafe_b64encode(value).decode().rstrip("=") if isinstance(value, bytes) else value


def _at(array: Any, position: int) -> list[Any]:
    elements: list[Any] = array or []
    return elements if position == EVERY else elements[position : position + 1]


def _has(field: Field, version: int) -> bool:
    return version in field.versions or version in field.tagged


def _name(field: Field) -> str:
    return f"{field.name}[]" if field.type.is_array else field.name


# --- values -----------------------------------------------------------------------------------------------------------


def _value(definition: Definition, field: Field, value: Any, version: int, *, is_element: bool = False) -> Any:
    """A value of JSON as the message has it. Raises NoValue."""
    if value is None and (version in field.nullable or field.type.name == "records") and not is_element:
        return None
    if field.type.is_array and not is_element:
        if not isinstance(value, list | tuple):
            raise NoValue(f"{field.name} is an array")
        return [_value(definition, field, each, version, is_element=True) for each in value]
    if field.type.is_struct:
        return _structure(definition, definition.structures[field.type.name], value, version)
    return _primitive(field, value)


def _structure(definition: Definition, structure: Structure, value: Any, version: int) -> Any:
    if not isinstance(value, dict):
        raise NoValue(f"{structure.name} is an object with fields")
    fields = {field.name: field for field in structure.fields if _has(field, version)}
    unknown = sorted(set(value) - set(fields))
    if unknown:
        raise NoValue(f"{structure.name} of version {version} has no {', '.join(unknown)}; it has {', '.join(fields)}")
    made = getattr(getattr(messages, definition.name), structure.name)()
    for name, each in value.items():
        setattr(made, fields[name].attribute, _value(definition, fields[name], each, version))
    return made


def _primitive(field: Field, value: Any) -> Any:
    kind = field.type.name
    if field.attribute.endswith("error_code") and isinstance(value, str) and value in ErrorCode.__members__:
        return ErrorCode[value].value
    if kind in {"string", "bool", "float64"}:
        types: tuple[type, ...] = {"string": (str,), "bool": (bool,), "float64": (int, float)}[kind]
        if isinstance(value, types) and (kind == "bool" or not isinstance(value, bool)):
            if isinstance(value, str) and len(value.encode()) > TEXT_SIZE_MAX:
                raise NoValue(f"{field.name} has at most {TEXT_SIZE_MAX} bytes")
            return value
    elif kind in {"bytes", "records", "uuid"}:
        made = _bytes(value, is_uuid=kind == "uuid")
        if made is not None:
            return made
    elif isinstance(value, int) and not isinstance(value, bool):
        bits = _BITS.get(kind)
        first, end = (-(1 << bits - 1), 1 << bits - 1) if bits else (0, 1 << _UNSIGNED[kind])
        if first <= value < end:
            return value
    raise NoValue(f"{field.name} is {kind}{' in base64' if kind in {'bytes', 'records'} else ''}, not {value!r}")


def _bytes(value: Any, *, is_uuid: bool) -> bytes | None:
    """Bytes in base64, or an id as Kafka writes it; None if it is neither."""
    if not isinstance(value, str):
        return None
    try:
        found = urlsafe_b64decode(f"{value}==") if is_uuid else b64decode(value, validate=True)
    except (NotBase64, ValueError):
        return None
    return found if not is_uuid or len(found) == _UUID_BYTES else None
