"""The start of the admin address: the page for browsers, and for programs the list of the endpoints."""

from importlib.metadata import version
from typing import Annotated

from msgspec import Meta, Struct

from coordinator.admin.browser_page import page, wants_page
from coordinator.admin.endpoint import Endpoint, Request, Response
from coordinator.admin.server_view import ServerView


class ListedEndpoint(Struct):
    """An endpoint."""

    method: str
    path: str
    about: str
    control: bool
    """Whether it needs `admin.control.enable`."""


class EndpointList(Struct):
    """The server and all its endpoints."""

    server: str
    version: str
    addresses: list[str]
    """HOST:PORT of each listener, as clients get it."""
    paths: list[ListedEndpoint]


class Shown(Struct, forbid_unknown_fields=True):
    """What the page shows."""

    group: Annotated[str, Meta(description="The page shows this group. Programs get the same list.")] | None = None
    view: Annotated[str, Meta(description="groups, topics, events, faults, workers or brokers.")] | None = None
    topic: Annotated[str, Meta(description="The page shows this topic.")] | None = None
    partition: Annotated[str, Meta(description="Records of this partition of the topic.")] | None = None
    offset: Annotated[str, Meta(description="Records of the partition from here on.")] | None = None
    moment: (
        Annotated[str, Meta(description="The group at an offset of its events, or at t and milliseconds.")] | None
    ) = None
    by: Annotated[str, Meta(description="What events are searched by: group, member, client.")] | None = None
    search: Annotated[str, Meta(description="The text of that search.")] | None = None


def index(server: ServerView, request: Request) -> EndpointList | Response:
    """The page for a browser, else the list of all endpoints."""
    if wants_page(request):
        return page()
    return EndpointList(
        "kafka-group-coordinator",
        version("kafka-group-coordinator"),
        server.addresses,
        [ListedEndpoint(each.method, each.path, each.about, each.control) for each in request.endpoints],
    )


ENDPOINTS = (
    Endpoint(
        "GET", "/", "list the endpoints; a browser gets the page", index, name="listEndpoints", query=Shown,
        returns=EndpointList, content_types=("application/json", "text/html"),
    ),
)  # fmt: skip
