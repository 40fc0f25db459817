"""What a request names: groups, transactional ids, topics and members, and how it is split by them.

Most requests name one group and member. Others have arrays whose elements are answered one by one (the topics of a Produce, the
groups of a DescribeGroups). An API declares the way to them (`Api.elements`); everything else follows from the names of
the fields, which Kafka uses in the same meaning everywhere.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cache
from typing import Any, NamedTuple

from coordinator.api.config_resources import ConfigResourceType
from coordinator.api.declaration import Api
from coordinator.protocol.codec import Codec
from coordinator.topics.topics import Topics

PARTITION_ARRAYS = frozenset({"partitions", "partition_indexes", "partition_data"})
_PARTITION_FIELDS = ("partition_index", "index", "partition")
_FIELDS = {
    "group_id": "group",
    "transactional_id": "transactional_id",
    "v3_and_below_transactional_id": "transactional_id",
    "member_id": "member_id",
    "group_instance_id": "instance_id",
    "instance_id": "instance_id",
}
_TOPIC_FIELDS = ("name", "topic", "topic_name")
_NAMES_IN = {
    "groups": "group",
    "groups_names": "group",
    "group_ids": "group",
    "transactional_ids": "transactional_id",
    "topic_names": "topic",
    "subscribed_topic_names": "topic",
    "source_topics": "topic",
}
"""Arrays of names."""
_RESOURCES = {ConfigResourceType.TOPIC.value: "topic", ConfigResourceType.GROUP.value: "group"}
_NO_ID = bytes(16)

Path = tuple[int, ...]
"""The positions of an element in nested arrays; () stands for the whole request."""
TopicName = Callable[[bytes], str | None]


class Named(NamedTuple):
    """What an element of a request names, together with what is around it. None: it names none."""

    group: str | None = None
    transactional_id: str | None = None
    topic: str | None = None
    member_id: str | None = None
    instance_id: str | None = None


class Element(NamedTuple):
    path: Path
    named: Named


@cache
def array_of(api: Api[Any], version: int) -> tuple[str, ...]:
    """The attributes on the way to the elements of a request; () if it has none."""
    for way in api.elements:
        levels = tuple(way.split("."))
        if version in _root_fields(api.name)[levels[0]].versions:
            return levels
    return ()


@cache
def named_by(api: Api[Any]) -> frozenset[str]:
    """The fields of `Named` that requests of this API may have, in any version."""
    found = {_FIELDS[field] for field in _root_fields(api.name) if field in _FIELDS}
    definition = Codec.of().definition(f"{api.name}Request")
    for way in (*api.elements, *api.mentions):
        structure = definition.root
        for attribute in way.split("."):
            if attribute in PARTITION_ARRAYS:
                break
            if attribute in _NAMES_IN:
                found.add(_NAMES_IN[attribute])
            field = next(each for each in structure.fields if each.attribute == attribute)
            if field.type.is_struct:
                structure = definition.structures[field.type.name]
                attributes = {each.attribute for each in structure.fields}
                found |= {_FIELDS[each] for each in attributes if each in _FIELDS}
                if attributes & {*_TOPIC_FIELDS, "topic_id"} and attribute not in {"members", "resources"}:
                    found.add("topic")
    if api.looked_up is not None:
        found |= {"group", "transactional_id"}
    if "resources" in api.elements:
        found |= {"group", "topic"}
    return frozenset(found)


@cache
def has_partitions(api: Api[Any]) -> bool:
    """Whether the elements of a request end in partitions."""
    return any(way.rpartition(".")[2] in PARTITION_ARRAYS for way in api.elements)


@cache
def _root_fields(api: str) -> dict[str, Any]:
    return {field.attribute: field for field in Codec.of().definition(f"{api}Request").root.fields}


def elements(api: Api[Any], version: int, request: Any, topics: Topics) -> list[Element]:
    """Everything that the request names, at least one element."""
    if request is None:
        return [Element((), Named())]
    if api.looked_up is not None:
        return _looked_up(api.looked_up(request), is_array=bool(array_of(api, version)))
    named = _names(request, Named(), topics.topic_name)
    found = list(_walk(request, array_of(api, version), named, (), topics.topic_name))
    for way in api.mentions:
        found += [
            Element((), each.named) for each in _walk(request, tuple(way.split(".")), named, (), topics.topic_name)
        ]
    return found


def _looked_up(names: Iterable[tuple[str | None, str]], *, is_array: bool) -> list[Element]:
    return [
        Element((position,) if is_array else (), Named(**{field: name}) if field else Named())
        for position, (field, name) in enumerate(names)
    ] or [Element((), Named())]


def _walk(holder: Any, levels: tuple[str, ...], named: Named, path: Path, topic_name: TopicName) -> Iterator[Element]:
    contents = (
        getattr(holder, levels[0]) if levels and holder is not None and levels[0] not in PARTITION_ARRAYS else None
    )
    if not contents:
        yield Element(path, named)
    elif not isinstance(contents, list):
        yield from _walk(contents, levels[1:], named, path, topic_name)
    else:
        for position, each in enumerate(contents):
            if isinstance(each, str):
                yield Element((*path, position), named._replace(**{_NAMES_IN[levels[0]]: each}))
            else:
                inner = _names(each, named, topic_name, is_element=True)
                yield from _walk(each, levels[1:], inner, (*path, position), topic_name)


def _names(holder: Any, named: Named, topic_name: TopicName, *, is_element: bool = False) -> Named:
    """What a structure names. "" and null name nothing."""
    attributes = type(holder).__slots__
    found = {_FIELDS[each]: value for each in attributes if each in _FIELDS and (value := getattr(holder, each))}
    if "resource_type" in attributes:
        kind = _RESOURCES.get(holder.resource_type)
        return named._replace(**{kind: holder.resource_name}) if kind else named
    if is_element:
        topic = next((value for each in _TOPIC_FIELDS if each in attributes and (value := getattr(holder, each))), None)
        if topic is None and "topic_id" in attributes and holder.topic_id != _NO_ID:
            topic = topic_name(holder.topic_id)
        if topic is not None:
            found["topic"] = topic
    return named._replace(**found)


# --- splitting --------------------------------------------------------------------------------------------------------


class Split(NamedTuple):
    """Two requests that have the elements of one between them. None: it would have no element."""

    hit: Any
    rest: Any


def split(
    api: Api[Any], version: int, request: Any, paths: frozenset[Path], partitions: frozenset[int] | None
) -> Split:
    """Splits a request into the elements at these paths (with `partitions`: these partitions of them) and the others."""
    levels = array_of(api, version)
    if not levels or (() in paths and partitions is None):
        return Split(request, None)
    return Split(
        _part(request, levels, paths, partitions, (), wants_hit=True),
        _part(request, levels, paths, partitions, (), wants_hit=False),
    )


def _part(
    holder: Any, levels: tuple[str, ...], paths: frozenset[Path], partitions: frozenset[int] | None, path: Path, *,
    wants_hit: bool,
) -> Any:  # fmt: skip
    """A copy of the structure with the elements that are wanted; None if there are none."""
    contents: Sequence[Any] = getattr(holder, levels[0]) or ()
    if levels[0] in PARTITION_ARRAYS:
        is_hit = _is_hit(path, paths)
        kept = [each for each in contents if (is_hit and _is_among(each, partitions)) is wants_hit]
    elif len(levels) == 1:
        kept = [each for position, each in enumerate(contents) if _is_hit((*path, position), paths) is wants_hit]
    else:
        parts = [
            _part(each, levels[1:], paths, partitions, (*path, position), wants_hit=wants_hit)
            for position, each in enumerate(contents)
        ]
        kept = [each for each in parts if each is not None]
    if not kept and (contents or _is_hit(path, paths) is not wants_hit):
        return None
    part = copy(holder)
    setattr(part, levels[0], kept if contents else getattr(holder, levels[0]))
    return part


def _is_hit(path: Path, paths: frozenset[Path]) -> bool:
    return any(path[:size] in paths for size in range(len(path) + 1))


def _is_among(partition: Any, partitions: frozenset[int] | None) -> bool:
    return partitions is None or partition_index(partition) in partitions


def partition_index(partition: Any) -> int:
    """The number of a partition in an array of partitions."""
    if isinstance(partition, int):
        return partition
    index: int = next(getattr(partition, each) for each in _PARTITION_FIELDS if hasattr(partition, each))
    return index
