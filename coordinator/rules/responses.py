"""Responses that fault rules make or change: an error in the shape of an API's version, for all of a request or a part of it.

The shape is the API's own (`Api.refusal`), except where the API has errors on several levels (`Api.places`).
"""

from functools import cache
from typing import Any

from coordinator.api.declaration import Api
from coordinator.api.error_families import ANY_ERRORS
from coordinator.api.payloads import has_field
from coordinator.api.route import Route
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message
from coordinator.rules import body
from coordinator.rules.elements import Path, array_of, has_partitions
from coordinator.rules.model import Fields

_KEYS = ("group_id", "transactional_id", "key", "name", "topic", "topic_name", "topic_id", "producer_id")
"""What identifies the elements of an array that have arrays themselves."""


# --- errors -----------------------------------------------------------------------------------------------------------


def errors_met(api: Api[Any]) -> frozenset[ErrorCode]:
    """The errors that a rule may let this API answer without `force`."""
    return api.errors | ANY_ERRORS


@cache
def can_carry(api: Api[Any], version: int, code: ErrorCode) -> bool:
    """Whether the response of this version has a place for the error, at its top or in an element."""
    if code in api.places.of_whole:
        return has_field(api.name, version, "error_code")
    return _has_field(api, version, "error_code")


@cache
def has_message(api: Api[Any], version: int) -> bool:
    """Whether the response of this version has room for a text beside an error."""
    return _has_field(api, version, "error_message")


@cache
def has_partition_errors(api: Api[Any], version: int) -> bool:
    """Whether the response has an error code for each partition."""
    definition = Codec.of().definition(f"{api.name}Response")
    return any(
        {"partition_index", "index", "partition", "partition_id"} & {field.attribute for field in structure.fields}
        and any(field.attribute.endswith("error_code") and version in field.versions for field in structure.fields)
        for structure in definition.structures.values()
    )


def _has_field(api: Api[Any], version: int, ending: str) -> bool:
    """Whether some field of the response ends like this, at its top or in an element."""
    definition = Codec.of().definition(f"{api.name}Response")
    waiting = [definition.root]
    while waiting:
        for field in waiting.pop().fields:
            if version in field.versions:
                if field.attribute.endswith(ending):
                    return True
                waiting += [definition.structures[field.type.name]] if field.type.is_struct else []
    return False


def refused(route: Route, request: Any, error: KafkaError) -> Message | None:
    """The response that refuses the request with this error; None if it has no place for one (it names nothing)."""
    api, version = route.api, route.version
    message: Any = api.places.shape(request, error, version) if api.places.shape is not None else None
    if message is None:
        message = api.refusal(request, error, version)
    if not _has_error(message, route) and has_field(api.name, version, "error_code"):
        message.error_code = error.code
    return message if _has_error(message, route) else None


def _has_error(message: Any, route: Route | None = None) -> bool:
    """Whether some error code that is part of the version is set. `route`: None below the top."""
    for attribute in type(message).__slots__:
        value = getattr(message, attribute)
        if attribute.endswith("error_code"):
            if value and (route is None or has_field(route.name, route.version, attribute)):
                return True
        elif isinstance(value, list) and value and isinstance(value[0], Message) and any(map(_has_error, value)):
            return True
    return False


def reach(api: Api[Any], version: int, code: ErrorCode, paths: frozenset[Path]) -> frozenset[Path]:
    """The elements that an error of some of them hits: all of a group or request, if it is an error of these."""
    if code in api.places.of_whole:
        return frozenset({()})
    if api.places.is_of_element(code):
        return paths
    levels = array_of(api, version)
    depth = max(0, len(levels) - (2 if has_partitions(api) else 1))
    return frozenset(path[:depth] for path in paths)


def is_patched(api: Api[Any], code: ErrorCode, *, names_partitions: bool) -> bool:
    """Whether the error is put into the response that the API gives."""
    places = api.places
    if places.patch is None or code in places.of_whole:
        return False
    return names_partitions or (has_partitions(api) and places.is_of_element(code))


# --- answers of one's own ---------------------------------------------------------------------------------------------


def fits(route: Route, answer: Fields) -> bool:
    """Whether the response of the route's version can have these values in these fields."""
    for path, value in answer.items():
        way = body.field_path(f"{route.name}Response", path)
        if not way.is_in(route.version):
            return False
        try:
            way.checked(value, route.version)
        except body.NoValue:
            return False
    return True


def change(route: Route, message: Any, answer: Fields) -> None:
    """Puts fields that fit into a response, in their order."""
    for path, value in answer.items():
        body.field_path(f"{route.name}Response", path).put(message, value, route.version)


# --- merging ----------------------------------------------------------------------------------------------------------


def merge(response: Any, refusal: Any) -> None:
    """Adds the elements of a refusal to a response for the others: topics of both have the partitions of both."""
    for attribute in type(refusal).__slots__:
        added = getattr(refusal, attribute)
        if isinstance(added, list) and added and isinstance(added[0], Message):
            _merge_arrays(getattr(response, attribute), added)


def _merge_arrays(elements: list[Any], added: list[Any]) -> None:
    known = {_key(each): each for each in elements}
    for each in added:
        same = known.get(_key(each)) if _key(each) else None
        if same is None:
            elements.append(each)
        else:
            merge(same, each)


def _key(element: Any) -> tuple[Any, ...]:
    return tuple(getattr(element, each) for each in _KEYS if each in type(element).__slots__)
