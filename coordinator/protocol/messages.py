"""One class per message, with the fields of all its versions, made when it is first imported.

`from coordinator.protocol.messages import JoinGroupRequest` finds the definition and builds the class; type checkers read
`messages.pyi`, which `make check` writes. Decoding a version without a field leaves it at its
default, and encoding one refuses a value that would be lost, so handlers are independent of versions. Dialects share the
classes: they arrange fields differently on the wire and add none.

Structures inside a message are attributes of its class under the definition's name:
`JoinGroupResponse.JoinGroupResponseMember`.

A start imports hundreds of classes and uses few of them. So a structure's class is made when the attribute is first read, and a
constructor when it is first called.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from coordinator.protocol.class_specs import ClassSpec, ClassSpecs, StructureSpec
from coordinator.protocol.schema import Fresh, definitions

CLASS_SPECS = ClassSpecs(definitions(None))


class Message:
    """The base of every message and structure. It compares by value, so it cannot be hashed."""

    __slots__ = ()
    API_KEY: ClassVar[int | None] = None
    """The API key of a request or response; the record type of a key or value."""
    NAME: ClassVar[str] = ""
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    """Oldest and newest version of Kafka's own definition."""

    def __eq__(self, other: object) -> bool:
        if self.__class__ is not other.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


Answer = TypeVar("Answer", bound=Message, covariant=True)  # noqa: PLC0105 - it stands in signatures, too


class Request(Message, Generic[Answer]):
    """The base of every request to a type checker, which finds the class of the answer by it."""

    __slots__ = ()


def message_class(name: str) -> type[Message]:
    """Returns the class of a message by name. Raises KeyError if there is no definition."""
    found = globals().get(name)
    if found is None:
        found = globals()[name] = _build(name, CLASS_SPECS[name])
    cls: type[Message] = found
    return cls


def __getattr__(name: str) -> type[Message]:
    if not name[:1].isupper():
        raise AttributeError(name)
    try:
        return message_class(name)
    except KeyError:
        raise AttributeError(f"there is no message {name}") from None


def _build(name: str, spec: ClassSpec) -> type[Message]:
    api_key, versions, structures = spec
    common: dict[str, Any] = {"__module__": __name__, "API_KEY": api_key, "VERSIONS": versions}
    nested = {structure: _Nested(name, structure, common, structures) for structure in structures if structure != name}
    return _structure_class(name, name, common, structures[name], nested)


def _structure_class(
    name: str, top: str, common: dict[str, Any], spec: StructureSpec, nested: dict[str, Any]
) -> type[Message]:
    content = {
        **common,
        **nested,
        "__slots__": spec[0],
        "__init__": _first_call(top, name),
        "__qualname__": name if name == top else f"{top}.{name}",
        "NAME": name,
    }
    return type(name, (Message,), content)


class _Nested:
    """Stands for the class of a structure until it is first read from the message's class."""

    __slots__ = ("_common", "_name", "_structures", "_top")

    def __init__(self, top: str, name: str, common: dict[str, Any], structures: dict[str, StructureSpec]) -> None:
        self._top = top
        self._name = name
        self._common = common
        self._structures = structures

    def __get__(self, _message: Message | None, top: type[Message]) -> type[Message]:
        name = self._name
        made = _structure_class(name, self._top, self._common, self._structures[name], {})
        setattr(top, name, made)
        return made


def _first_call(top: str, structure: str) -> Callable[..., None]:
    """A constructor that makes the real one on its first call."""

    def __init__(self: Message, *values: Any, **named: Any) -> None:  # noqa: N807 - it stands for one
        namespace = {"FRESH": Fresh, "TOP": message_class(top)}
        exec(CLASS_SPECS.constructor(top, structure), namespace)  # noqa: S102
        real: Any = namespace["__init__"]
        type(self).__init__ = real  # type: ignore[method-assign]
        real(self, *values, **named)

    return __init__
