"""Queries and bodies as the Structs that an endpoint declares, and what is allowed instead if they do not fit.

msgspec validates. Its error names the place (`$.match.api[0]`); if only some values are possible there, `allowed` lists them.
"""

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect

from coordinator.admin.endpoint import RefusedRequest

_QUERY_FIELDS_MAX = 100
_PLACE = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(?:\d+|\.\.\.)\]")


def read_query(raw: bytes, wanted: type[msgspec.Struct] | None) -> Any:
    """The query as an instance of `wanted`.

    Raises RefusedRequest: 400 it has too many fields, or one twice; 422 it does not fit.
    """
    try:
        pairs = parse_qsl(raw.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=_QUERY_FIELDS_MAX)
    except ValueError:
        raise RefusedRequest(400, f"the query has more than {_QUERY_FIELDS_MAX} fields") from None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(name for name in fields if sum(name == other for other, _ in pairs) > 1)
        raise RefusedRequest(400, f"the query has the field {twice} more than once")
    names = [] if wanted is None else [field.encode_name for field in msgspec.structs.fields(wanted)]
    if unknown := fields.keys() - set(names):
        raise RefusedRequest(422, f"the query has an unknown field: {min(unknown)}", sorted(names))
    if wanted is None:
        return None
    try:
        query = msgspec.convert(fields, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise RefusedRequest(422, f"the query: {_text(error)}", _allowed(error, wanted)) from None
    for name, text in fields.items():
        if getattr(query, name) is None:  # msgspec takes "null" for the null that stands for an absent field
            raise RefusedRequest(422, f"the query: {name}: {text} is no value; leave the field out")
    return query


def read_body(raw: bytes, wanted: type[msgspec.Struct] | None) -> Any:
    """The body as an instance of `wanted`; an empty one is {}.

    Raises RefusedRequest: 400 it is not a JSON object; 422 it does not fit.
    """
    try:
        value = msgspec.json.decode(raw) if raw else {}
    except (msgspec.DecodeError, RecursionError) as error:
        raise RefusedRequest(400, f"the body must be a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise RefusedRequest(400, "the body must be a JSON object")
    if wanted is None:
        if value:
            raise RefusedRequest(422, "the body must be empty or {}")
        return None
    try:
        return msgspec.convert(value, wanted)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RefusedRequest(422, f"the body: {_text(error)}", _allowed(error, wanted)) from None


def _text(error: Exception) -> str:
    """msgspec's message; the place reads as people write it."""
    message = str(error)
    place = _PLACE.search(message)
    if place is None:
        return message
    return f"{place[1].lstrip('.')}: {message[: place.start()]}"


def _allowed(error: Exception, wanted: type[msgspec.Struct]) -> list[str] | None:
    """The names or values that are possible at the place of the error; None if they cannot be listed."""
    message = str(error)
    place = _PLACE.search(message)
    types = [inspect.type_info(wanted)]
    for step in _STEP.finditer(place[1] if place else ""):
        types = [inner for each in types for inner in _inside(each, step[1])]
    if "unknown field" in message or "missing required field" in message:
        found = [field.encode_name for each in types for field in getattr(_flat(each), "fields", ())]
    else:
        found = [str(value) for each in types for value in _values(each)]
    return sorted(set(found)) or None


def _flat(kind: inspect.Type) -> inspect.Type:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _inside(kind: inspect.Type, name: str | None) -> list[inspect.Type]:
    """The types behind one step of a place: a field's, or an element's."""
    kind = _flat(kind)
    if isinstance(kind, inspect.UnionType):
        return [inner for each in kind.types for inner in _inside(each, name)]
    if isinstance(kind, inspect.StructType) and name is not None:
        found = [field.type for field in kind.fields if field.encode_name == name]
    elif isinstance(kind, inspect.ListType | inspect.VarTupleType) and name is None:
        found = [kind.item_type]
    elif isinstance(kind, inspect.DictType):
        found = [kind.value_type]
    else:
        found = []
    return [inner for each in found for inner in _alternatives(each)]


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    kind = _flat(kind)
    return (
        [inner for each in kind.types for inner in _alternatives(each)]
        if isinstance(kind, inspect.UnionType)
        else [kind]
    )


def _values(kind: inspect.Type) -> Iterable[Any]:
    kind = _flat(kind)
    if isinstance(kind, inspect.EnumType):
        return [each.value for each in kind.cls]
    if isinstance(kind, inspect.LiteralType):
        return kind.values
    return ()
