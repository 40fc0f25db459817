"""The start page of the admin address: the endpoints that it has, for a person who has only the address."""

from msgspec import Struct

from coordinator.admin.endpoint import Endpoint, Request
from coordinator.admin.server_view import ServerView


class Listed(Struct):
    """An endpoint."""

    method: str
    path: str
    about: str
    control: bool
    """Whether it needs `admin.control.enable`."""


class Index(Struct):
    """All endpoints."""

    server: str
    paths: list[Listed]


def index(_server: ServerView, _request: Request) -> Index:
    """The list of all endpoints."""
    from coordinator.admin.routes import all_endpoints  # noqa: PLC0415 - it lists this module too

    return Index(
        "kafka-group-coordinator",
        [Listed(each.method, each.path, each.about, each.control) for each in all_endpoints()],
    )


ENDPOINTS = (Endpoint("GET", "/", "this list", index, returns=Index),)
