"""The release of Kafka that clients see: which one it is, and an upgrade or downgrade while they run."""

from msgspec import Struct

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request
from coordinator.admin.server_view import ServerView
from coordinator.protocol.releases import NEWEST, releases

PATH = "/v1/emulation"


class Emulation(Struct):
    """The release that clients see."""

    release: str
    """Such as "3.6". Listeners that are configured with a release of their own keep it."""
    former: str
    """The release before; the same where nothing changed."""
    connections_closed: int
    """How many connections the change ended."""


class EmulationRequest(Struct, forbid_unknown_fields=True):
    """The release to become."""

    release: str


def show_emulation(server: ServerView, _request: Request) -> Emulation:
    """The release of Kafka that clients see."""
    return Emulation(server.emulates, server.emulates, 0)


def emulate(server: ServerView, request: Request) -> Emulation:
    """Becomes another release of Kafka. All connections end, as in a rolling upgrade; groups, offsets and topics stay."""
    check(request)
    if server.has_cluster_behind:
        raise RefusedRequest(409, "clients see the release of the cluster behind the server")
    former, wanted = server.emulates, request.body.release
    return Emulation(wanted, former, 0 if wanted == former else server.emulate(wanted))


def check(request: Request) -> None:
    """Raises RefusedRequest (422) if there is no such release."""
    known, wanted = (NEWEST, *releases()), request.body.release
    if wanted not in known:
        raise RefusedRequest(422, f"there is no release {wanted!r} to emulate", list(known))


ENDPOINTS = (
    Endpoint(
        "GET", PATH, "get the release of Kafka that clients see", show_emulation, name="getEmulation", returns=Emulation,
    ),
    Endpoint(
        "POST", PATH, "become another release of Kafka", emulate, name="changeEmulation", body=EmulationRequest,
        returns=Emulation, refusals=(409, 422), control=True,
    ),
)  # fmt: skip
