"""`GET /v1/openapi.json`: the OpenAPI 3.1 document of all endpoints, made from their declarations (endpoint.py).

It names every refusal with its status. Those that any request can get (a malformed one, one by a name that is not of this host,
one while too many are open) are on every operation.
"""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from types import MappingProxyType
from typing import Any

import msgspec

from coordinator.admin.endpoint import PROBLEM_JSON, Endpoint, Problem, Request, Response
from coordinator.admin.json_body import json_bytes
from coordinator.admin.server_view import ServerView

_REF = "#/components/schemas/{name}"
_JSON = "application/json"
_TEXT: Mapping[str, Any] = MappingProxyType({"type": "string"})
_SCHEMAS: Mapping[str, Mapping[str, Any]] = MappingProxyType({"text/event-stream": MappingProxyType({})})
"""What OpenAPI 3.1 has no schema for: readers differ in whether it would be that of the stream or of each event."""
TAGS = {
    "server": "Health, metrics, the page, and what the server is.",
    "groups": "Groups, their members and offsets: views, and acts of an administrator or a test.",
    "transactions": "Transactional ids and their transactions.",
    "topics": "Topics, and a look at their records.",
    "events": "What happened to groups: history, and then live.",
    "faults": "Rules that let requests fail, wait or get lost.",
    "recordings": "What clients asked and were answered.",
    "clock": "The clock of the protocol, which a test can stop and advance.",
    "brokers": "The brokers of a server that is several.",
    "workers": "The workers of a server that is several.",
    "emulation": "The release of Kafka that clients see.",
}
"""An operation has the tag that its path begins with, else `server`."""
_ANY = {
    400: "The request is malformed.",
    401: "The request needs the token or a client certificate (admin.token, admin.ssl.truststore.location).",
    403: "The request came by a name that is not of this host, from a web page of another origin, or needs"
    " admin.control.enable.",
    431: "The headers have more than admin.header.bytes.",
    503: "Too many connections, long polls or streams; or no result in time; or the server is stopping.",
}
_UNFIT = "The query or the body does not fit, or asks for something impossible."
_WITH_BODY = {
    413: "The body has more than admin.body.bytes.",
    415: "The body is not declared as application/json.",
    422: _UNFIT,
}
_WITH_QUERY = {422: _UNFIT}
_OWN = {
    404: "There is no such thing.",
    406: "It is no JSON.",
    409: "Not possible in the current state.",
    421: "Another worker has it; the reason names the worker.",
    500: "The coordinator failed; the server's log says more.",
}
INT32_MAX = 2**31 - 1
_TAKES_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI document."""
    types = [kind for endpoint in endpoints for kind in _types(endpoint)]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=_REF)
    schema_of = {id(kind): schema for kind, schema in zip([*types, Problem], schemas, strict=True)}
    maker = _Document(schema_of, components)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = maker.operation(endpoint)
    queries = {schema_of[id(endpoint.query)]["$ref"].rpartition("/")[2] for endpoint in endpoints if endpoint.query}
    for name in queries:
        del components[name]
    for schema in components.values():
        schema["description"] = inspect.cleandoc(schema["description"])
    _say_types([components, paths])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Kafka group coordinator: admin HTTP",
            "version": metadata.version("kafka-group-coordinator"),
            "description": "Health, metrics, views of groups and transactions, events, and control for tests."
            " Operations with x-control need admin.control.enable=true. Refusals are problem details (RFC 9457).",
        },
        "tags": [{"name": name, "description": about} for name, about in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "admin.token"},
                "password": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "Any user; admin.token is the password.",
                },
            },
        },
        "security": [{}, {"token": []}, {"password": []}],
    }


def _types(endpoint: Endpoint) -> Iterable[Any]:
    return (
        kind
        for kind in (endpoint.query, endpoint.body, endpoint.returns, *endpoint.others.values())
        if kind is not None
    )


class _Document:
    """Makes the operations of a document."""

    def __init__(self, schema_of: dict[int, dict[str, Any]], components: dict[str, Any]) -> None:
        self._schema_of = schema_of
        self._components = components

    def operation(self, endpoint: Endpoint) -> dict[str, Any]:
        place = endpoint.path.removeprefix("/v1/").partition("/")[0]
        title = endpoint.about.partition(";")[0]
        operation: dict[str, Any] = {
            "operationId": endpoint.name,
            "tags": [place if place in TAGS else "server"],
            "summary": title[:1].upper() + title[1:],
            "description": endpoint.description,
            "parameters": [*self._parameters(endpoint)],
            "responses": self._responses(endpoint),
        }
        if endpoint.control:
            operation["x-control"] = True
        if endpoint.body is not None:
            schema = self._schema_of[id(endpoint.body)]
            needed = any(each.required for each in msgspec.structs.fields(endpoint.body))
            operation["requestBody"] = {"required": needed, "content": {_JSON: {"schema": schema}}}
        return operation

    def _parameters(self, endpoint: Endpoint) -> Iterable[dict[str, Any]]:
        for name in re.findall(r"{([^}]+)}", endpoint.path):
            yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        if endpoint.query is not None:
            struct = self._components[self._schema_of[id(endpoint.query)]["$ref"].rpartition("/")[2]]
            for name, schema in struct["properties"].items():
                yield {
                    "name": name,
                    "in": "query",
                    "required": name in struct.get("required", ()),
                    "schema": _without_null(schema),
                }
        for name, about in endpoint.headers.items():
            yield {"name": name, "in": "header", "required": False, "description": about, "schema": {"type": "string"}}

    def _responses(self, endpoint: Endpoint) -> dict[str, Any]:
        refusals = dict(_ANY)
        if endpoint.query is not None:
            refusals |= _WITH_QUERY
        if endpoint.method in _TAKES_BODY:
            refusals |= _WITH_BODY
        refusals |= {status: refusals.get(status) or _OWN[status] for status in endpoint.refusals}
        problem = self._schema_of[id(Problem)]
        responses = {status: _answer(text, {PROBLEM_JSON: problem}) for status, text in refusals.items()}
        own = {} if endpoint.returns is None else self._schema_of[id(endpoint.returns)]
        content = {kind: own if kind == _JSON else dict(_SCHEMAS.get(kind, _TEXT)) for kind in endpoint.content_types}
        success = responses[endpoint.status] = _answer("As asked.", content)
        if endpoint.creates:
            success["headers"] = {"Location": {"description": f"Its path: {endpoint.creates}.", "schema": dict(_TEXT)}}
        for status, kind in endpoint.others.items():
            responses[status]["content"][_JSON] = {"schema": self._schema_of[id(kind)]}
        return {str(status): responses[status] for status in sorted(responses)}


def _answer(text: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {kind: {"schema": schema} for kind, schema in content.items()}}


def _say_types(schema: Any) -> None:
    """Says what generators do not find out themselves: the type of an enumeration, and that an integer needs 64 bits."""
    if isinstance(schema, list):
        for each in schema:
            _say_types(each)
    elif isinstance(schema, dict):
        if schema.get("type") == "integer" and schema.get("maximum", INT32_MAX + 1) > INT32_MAX:
            schema["format"] = "int64"
        if isinstance(values := schema.get("enum"), list):
            schema["type"] = "boolean" if isinstance(values[0], bool) else "string"
        for each in schema.values():
            _say_types(each)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a query field, which can be absent but not null."""
    schema = {name: value for name, value in schema.items() if (name, value) != ("default", None)}
    kinds = [kind for kind in schema.pop("anyOf", []) if kind != {"type": "null"}]
    if not kinds:
        return schema
    return schema | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds})


def openapi(_server: ServerView, request: Request) -> Response:
    """The OpenAPI document."""
    return Response(body=json_bytes(document(request.endpoints)))


ENDPOINTS = (
    Endpoint(
        "GET", "/v1/openapi.json", "get the OpenAPI 3.1 document of all endpoints", openapi, name="getOpenapi",
        returns=dict[str, Any],
    ),
)  # fmt: skip
