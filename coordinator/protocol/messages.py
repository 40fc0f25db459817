"""One class per message, with the fields of all its versions, made when it is first imported.

`from coordinator.protocol.messages import JoinGroupRequest` finds the definition and builds the class; type checkers read
`messages.pyi`, which `python -m coordinator.protocol.stubs` writes. Decoding a version without a field leaves it at its
default, and encoding one refuses a value that would be lost, so handlers are independent of versions. Dialects share the
classes: they arrange fields differently on the wire and add none.

Structures inside a message are attributes of its class under the definition's name:
`JoinGroupResponse.JoinGroupResponseMember`.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from coordinator.protocol.schema import Definition, Fresh, Structure, definitions

_FOLDER = definitions(None)


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


def message_class(name: str) -> type[Message]:
    """Returns the class of a message by name. Raises KeyError if there is no definition."""
    found = globals().get(name)
    if found is None:
        found = globals()[name] = _build(_FOLDER[name])
    cls: type[Message] = found
    return cls


def __getattr__(name: str) -> type[Message]:
    if not name[:1].isupper():
        raise AttributeError(name)
    try:
        return message_class(name)
    except KeyError:
        raise AttributeError(f"there is no message {name}") from None


def _build(definition: Definition) -> type[Message]:
    common = {
        "__module__": __name__,
        "API_KEY": definition.api_key,
        "VERSIONS": (definition.versions.lowest, definition.versions.highest),
    }
    namespace: dict[str, Any] = {"FRESH": Fresh}
    classes: dict[str, type[Message]] = {}
    for structure in definition.structures.values():
        is_root = structure is definition.root
        attributes = {
            **common,
            "__slots__": tuple(field.attribute for field in structure.fields),
            "__init__": _first_call(structure, namespace),
            "__qualname__": structure.name if is_root else f"{definition.name}.{structure.name}",
            "NAME": structure.name,
        }
        classes[structure.name] = namespace[structure.name] = type(structure.name, (Message,), attributes)
    root = classes[definition.name]
    for name, cls in classes.items():
        if cls is not root:
            setattr(root, name, cls)
    return root


def _first_call(structure: Structure, namespace: dict[str, Any]) -> Callable[..., None]:
    """A constructor that makes the real one on its first call: a start builds hundreds of classes and uses few of them."""

    def __init__(self: Message, *values: Any, **named: Any) -> None:  # noqa: N807 - it stands for one
        exec(_constructor(structure), namespace)  # noqa: S102
        constructor = namespace["__init__"]
        type(self).__init__ = constructor  # type: ignore[method-assign]
        constructor(self, *values, **named)

    return __init__


def _constructor(structure: Structure) -> str:
    parameters, assignments = [], []
    for field in structure.fields:
        name = field.attribute
        if isinstance(field.default, Fresh):
            fresh = "[]" if field.default is Fresh.LIST else f"{field.type.name}()"
            parameters.append(f"{name}=FRESH")
            assignments.append(f"    self.{name} = {fresh} if {name} is FRESH else {name}\n")
        else:
            parameters.append(f"{name}={field.default!r}")
            assignments.append(f"    self.{name} = {name}\n")
    return f"def __init__({', '.join(['self', *parameters])}):\n{''.join(assignments) or '    pass'}\n"
