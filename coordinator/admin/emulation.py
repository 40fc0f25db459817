"""The release of Kafka that clients see: which one it is, and an upgrade or downgrade while they run."""

from msgspec import Struct

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request
from coordinator.admin.server_view import ServerView
from coordinator.protocol.releases import NEWEST, releases


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
    release = _release(server)
    return Emulation(release, release, 0)


def emulate(server: ServerView, request: Request) -> Emulation:
    """Becomes another release of Kafka. All connections end, as in a rolling upgrade; groups, offsets and topics stay."""
    former = _release(server)
    known, wanted = (NEWEST, *releases()), request.body.release
    if wanted not in known:
        raise RefusedRequest(422, f"there is no release {wanted!r} to emulate", list(known))
    if server.has_cluster_behind:
        raise RefusedRequest(409, "clients see the release of the cluster behind the server")
    return Emulation(wanted, former, 0 if wanted == former else server.emulate(wanted))


def _release(server: ServerView) -> str:
    if server.emulates is None:
        raise RefusedRequest(
            409, "several workers are the release that they were started with; use the setting emulate"
        )
    return server.emulates


ENDPOINTS = (
    Endpoint(
        "GET", "/v1/emulation", "get the release of Kafka that clients see", show_emulation, name="getEmulation",
        returns=Emulation, refusals=(409,),
    ),
    Endpoint(
        "POST", "/v1/emulation", "become another release of Kafka", emulate, name="changeEmulation", body=EmulationRequest,
        returns=Emulation, refusals=(409, 422), control=True,
    ),
)  # fmt: skip
