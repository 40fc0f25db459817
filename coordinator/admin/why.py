"""`GET /v1/groups/{group}/why`: why a group rebalances, and which offsets went back; the answer of `coordinator groups why`.

It reads what is durable of the group's log, a slice at a time, in a thread. Only one answer is worked out at a time.
"""

from functools import partial
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request, in_thread
from coordinator.admin.event_history import unreadable
from coordinator.admin.event_stream import ServerEvents
from coordinator.admin.fault_events import fault_events
from coordinator.admin.located import LOCATED_REFUSALS, group_shard
from coordinator.admin.server_view import ServerView
from coordinator.admin.share_view import SharePartitionView, led_here, share_partitions
from coordinator.groups.cause_words import as_values
from coordinator.groups.group_events import EventReader
from coordinator.groups.rebalance_causes import Client
from coordinator.groups.share.group import ShareGroup
from coordinator.log.batch import split
from coordinator.log.journaled_log import JournaledLog

HOUR_MS = 3_600_000
SLICE_BYTES = 512 << 10


class WhyQuery(Struct, forbid_unknown_fields=True):
    """How far to look back."""

    last_ms: Annotated[int, Meta(ge=1, le=2**53, description="The time before now, in milliseconds.")] = HOUR_MS


class RebalanceCause(Struct):
    """A cause; `client_id` is null if no client is to blame."""

    cause: str
    kind: str
    client_id: str | None
    host: str | None
    rebalances: int
    ms: int


class RebalanceCauses(Struct, omit_defaults=True):
    """The answer. Causes come with the most frequent first; of rebalances and rewound offsets there are the newest."""

    group_id: str
    from_ms: int
    to_ms: int
    sentence: str
    unrecorded_ms: int
    """How long of that time nothing was recorded before a start of the server: it counts as no time."""
    rebalancing_ms: int
    rebalancing_share: float
    causes: list[RebalanceCause]
    clients: list[dict[str, Any]]
    rebalances: list[dict[str, Any]]
    rewound_offsets: list[dict[str, Any]]
    deliveries: list[dict[str, Any]]
    """Of a share group: what became of records that no member completed, the newest."""
    share_partitions: list[SharePartitionView] | UnsetType = UNSET
    """Of a share group: what is in flight now, and which member holds it."""
    unknown: list[str] | UnsetType = UNSET
    """Of a watcher: what the log of a Kafka does not say."""


async def why(server: ServerView, request: Request) -> dict[str, Any]:
    """The causes of the rebalances of a group in a time before now, and the offsets that went back in it.

    Raises RefusedRequest: 404 there is no such group, and nothing happened to it; 409 there are no events; 421 another worker
    has it; 503 no worker has it at the moment, or the log cannot be read.
    """
    group_id, last_ms = request.parameters["group_id"], request.query.last_ms
    shard = group_shard(server, group_id)
    ((index, log),) = ServerEvents(server).logs(group_id)
    now_ms = server.clock.wall_ms()
    try:
        async with fault_events(server).reading:
            reader = await _read(server, log, group_id, now_ms - last_ms)
    except Exception as error:
        raise unreadable(index, error) from error
    group = shard.state.by_id.get(group_id)
    if group is None and not any(event.type != "EventLogOpened" for event in reader.events):
        raise RefusedRequest(404, "there is no such group, and nothing happened to it in that time")
    members = {} if group is None else group.members
    known = {each: Client(member.client_id, member.client_host) for each, member in members.items()}
    answer = as_values(reader.found(known).findings(group_id, now_ms, last_ms))
    if isinstance(group, ShareGroup):
        answer["share_partitions"] = share_partitions(server, group)
    return answer | ({"unknown": list(server.unknown)} if server.unknown else {})


class InFlight(Struct):
    """Share partitions of a group that a server leads."""

    group_id: str
    share_partitions: list[SharePartitionView]


def in_flight(server: ServerView, request: Request) -> dict[str, Any]:
    """What is in flight in the share partitions of a group that this server leads, also if it has not the group."""
    group_id = request.parameters["group_id"]
    return {"group_id": group_id, "share_partitions": led_here(server, group_id)}


async def _read(server: ServerView, log: JournaledLog, group_id: str, since_ms: int) -> EventReader:
    """Reads the segments that have events since a time."""
    reader = EventReader(group_id)
    recent = (each.base_offset for each in log.segments if each.max_timestamp >= since_ms)
    offset = max(log.start_offset, next(recent, log.durable_offset))
    if offset > log.start_offset:
        reader.first_ms = since_ms  # or earlier
    while offset < log.durable_offset:
        data = log.read(offset, SLICE_BYTES, offset_end=log.durable_offset)
        if not data:
            break
        offset = await in_thread(server, partial(_take, reader, data))
        offset = max(offset, log.start_offset)
    return reader


def _take(reader: EventReader, data: bytes) -> int:
    """Returns the offset behind the batches."""
    offset = 0
    for position, header in split(data):
        reader.batch(data, position, header)
        offset = header.next_offset
    return offset


ENDPOINTS = (
    Endpoint(
        "GET", "/v1/groups/{group_id}/why", "explain why a group rebalances, and which offsets went back", why,
        name="explainRebalances", query=WhyQuery, returns=RebalanceCauses, refusals=(404, 409, *LOCATED_REFUSALS),
    ),
    Endpoint(
        "GET", "/v1/groups/{group_id}/in-flight", "list what is in flight in the share partitions that the server leads",
        in_flight, name="listInFlight", returns=InFlight,
    ),
)  # fmt: skip
