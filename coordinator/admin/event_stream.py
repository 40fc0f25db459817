"""The events of all groups or of one: `GET /v1/events` is a stream of server-sent events, `GET /v1/events/page` a page of them.

They have a path each, because the functions of a generated client have one type of answer.

The id of an event is the position behind it. A client that connects again sends it as Last-Event-ID and misses nothing, and
gets nothing twice. A stream is history first and then follows live; there is no seam, because both come from the log's files.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, json

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request, Response, Stream
from coordinator.admin.event_history import POSITION_PATTERN, EventLogs, History
from coordinator.admin.event_json import ALL, TYPES, Wanted
from coordinator.admin.fault_events import fault_events
from coordinator.admin.located import group_shard
from coordinator.admin.server_view import ServerView
from coordinator.log.journaled_log import JournaledLog
from coordinator.topics.names import COORDINATOR_EVENTS
from coordinator.topics.partition import Reader

NAMES = frozenset({*TYPES.values(), "FaultActed"})
PAGE_PATH = "/v1/events/page"
LIMIT_MAX = 1_000
"""Events of a page."""
_CHUNK_EVENTS = 100
KEEP_ALIVE_S = 15.0
"""A stream without events sends a comment this often, so that both ends notice when the other one is gone."""
_SEARCH_S = 2.0
"""A page ends after this time, full or not: a group may have few events in a large log."""


class PageQuery(Struct, forbid_unknown_fields=True):
    """Which events."""

    group: str | None = None
    type: Annotated[str, Meta(description="Types of docs/events.md, with commas between them.")] | None = None
    member: Annotated[str, Meta(description="A part of the id of the member.")] = ""
    client: Annotated[
        str, Meta(description="A part of the client id or host of the member, if the search meets its MemberJoined.")
    ] = ""
    since_ms: Annotated[int, Meta(ge=0, le=2**53, description="Without events before this time.")] = 0
    after: (
        Annotated[
            str,
            Meta(
                pattern=POSITION_PATTERN,
                description="An offset of the group's event log, the id of an event, the next of a page, or now;"
                " without it from the oldest event on.",
            ),
        ]
        | None
    ) = None
    limit: (
        Annotated[
            int, Meta(ge=1, le=1_000_000, description="The stream ends after this many; a page has at most 1,000.")
        ]
        | None
    ) = None


class EventQuery(PageQuery):
    """Which events, and how long."""

    follow: Annotated[bool, Meta(description="Whether the stream goes on when it has caught up.")] = True


class Event(Struct):
    """An event. docs/events.md has the fields of each type, here in snake_case."""

    type: str
    time_ms: int
    shard: int | None
    """Null for FaultActed, which is in no log."""
    offset: int | None
    group: str | None


class EventPage(Struct):
    """A page of events."""

    events: list[Event]
    next: str
    """The `after` of the page that follows, now or later."""
    at_end: bool
    """Whether everything that is durable was read."""


def events(server: ServerView, request: Request) -> Stream:
    """Server-sent events from a position on, which go on as they happen.

    Raises RefusedRequest: 406 the client wants JSON; 409 there is no event log, or it is elsewhere; 422 there is no such
    position.
    """
    return stream_of(ServerEvents(server), request)


async def event_page(server: ServerView, request: Request) -> Response:
    """The events from a position on, as far as they have happened.

    Raises RefusedRequest: 409 there is no event log, or it is elsewhere; 422 there is no such position.
    """
    return await page_of(ServerEvents(server), request)


def stream_of(here: EventLogs, request: Request) -> Stream:
    """The events of these logs. Raises RefusedRequest: 406, 409, 422."""
    accepted = request.headers.get("accept", "")
    if "application/json" in accepted and "text/event-stream" not in accepted:
        raise RefusedRequest(406, f"this is a stream of server-sent events; {PAGE_PATH} has them as JSON")
    return Stream(
        chunks=_stream(here, _history(here, request), request.query),
        content_type="text/event-stream",
        last=lambda reason: _message({"type": "StreamEnded", "reason": reason}, "end"),
    )


async def page_of(here: EventLogs, request: Request) -> Response:
    """A page of the events of these logs. Raises RefusedRequest: 409, 422."""
    return await _page(_history(here, request), request.query.limit)


def _history(here: EventLogs, request: Request) -> History:
    """The events that are asked for. Raises RefusedRequest: 409, 422."""
    query: PageQuery = request.query
    types = [] if query.type is None else query.type.split(",")
    if unknown := [each for each in types if each not in NAMES]:
        raise RefusedRequest(422, f"type: there is no event {unknown[0]}", sorted(NAMES))
    is_search = bool(types or query.member or query.client or query.since_ms)
    wanted = Wanted(types, query.member, query.client, query.since_ms) if is_search else ALL
    history = History(here, query.group, wanted)
    position = request.headers.get("last-event-id") or query.after
    if position:
        history.begin_after(position)
    return history


def no_events() -> RefusedRequest:
    """The refusal where decisions are not recorded, and never were."""
    return RefusedRequest(409, "the server records no events: coordinator.events is none", ["refused", "all"])


class ServerEvents:
    """The event logs of one server."""

    def __init__(self, server: ServerView) -> None:
        self._server = server
        self.faults = fault_events(server)
        self.wall_ms = server.clock.wall_ms
        self.run_in_thread = server.run_in_thread

    def logs(self, group: str | None) -> Sequence[tuple[int, JournaledLog]]:
        server = self._server
        shards = server.groups.shards if group is None else [group_shard(server, group)]
        recording = [(shard.index, shard.events.log) for shard in shards if shard.events is not None]
        if not recording:
            raise no_events()
        logs = [(index, log) for index, log in recording if self.readers(index) is not None]
        if not logs:
            raise RefusedRequest(409, "these events are at another worker, or are about to be read from the journal")
        return logs

    def readers(self, shard: int) -> dict[Reader, None] | None:
        partition = self._server.topics.partition(COORDINATOR_EVENTS, shard)
        return None if partition is None else partition.readers


async def _page(history: History, limit: int | None) -> Response:
    wanted = min(limit or LIMIT_MAX, LIMIT_MAX)
    found: list[bytes] = []
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _SEARCH_S
    while len(found) < wanted and not history.is_at_end and loop.time() < until_s:
        found += [event for _, event in await history.read(wanted - len(found))]
    at_end = "true" if history.is_at_end else "false"
    tail = f'\n],\n"next": "{history.position}",\n"at_end": {at_end}}}\n'
    return Response(body=b'{"events": [\n' + b",\n".join(found) + tail.encode())


class _Follower:
    """Notified when there is more to read."""

    def __init__(self) -> None:
        self.is_more = asyncio.Event()

    def notify(self, _bytes_count: int) -> None:
        self.is_more.set()


async def _stream(here: EventLogs, history: History, query: EventQuery) -> AsyncGenerator[bytes, None]:
    follower, left = _Follower(), query.limit
    of_logs = (here.readers(shard) for shard in history.shards)
    watched = [here.faults.readers, *(each for each in of_logs if each is not None)]
    for readers in watched:
        readers[follower] = None
    try:
        yield f"retry: 1000\nid: {history.position}\n\n".encode()
        while left is None or left > 0:
            follower.is_more.clear()
            found = await history.read(min(_CHUNK_EVENTS, left or _CHUNK_EVENTS))
            if found:
                left = None if left is None else left - len(found)
                yield b"".join(b"id: %b\ndata: %b\n\n" % (at.encode(), event) for at, event in found)
            elif history.is_at_end:
                if not query.follow:
                    return
                try:
                    async with asyncio.timeout(KEEP_ALIVE_S):
                        await follower.is_more.wait()
                except TimeoutError:
                    yield b": waiting\n\n"
    except RefusedRequest as refused:
        yield _message({"type": "StreamEnded", "reason": str(refused)}, "end")
    finally:
        for readers in watched:
            readers.pop(follower, None)


def _message(fields: dict[str, Any], name: str) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), json.encode(fields))


ENDPOINTS = (
    Endpoint(
        "GET", "/v1/events", "stream the events of all groups; ?group= selects one", events, name="streamEvents",
        query=EventQuery, refusals=(406, 409, 422), content_types=("text/event-stream",),
        headers={"Last-Event-ID": "The id of the last event that arrived; it takes the place of after."},
    ),
    Endpoint(
        "GET", PAGE_PATH, "list the events of all groups; ?group= selects one, ?after= the next page", event_page,
        name="listEvents", query=PageQuery, returns=EventPage, refusals=(409, 422),
    ),
)  # fmt: skip
