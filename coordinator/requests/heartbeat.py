"""Heartbeat (key 12): a member of a classic group reports that it is alive. v3 knows static members (KIP-345).

While a shard loads, its members are unknown. They are answered NONE, because any error would make them rejoin; so they survive
a short restart.
"""

from operator import attrgetter

from coordinator.api import HERE, Api, Coordinator, Exchange, Server
from coordinator.api.error_families import GENERATION_ERRORS
from coordinator.api.guards import check_group_is_named, guarded_by
from coordinator.groups.classic_protocol import heartbeat
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import HeartbeatRequest, HeartbeatResponse
from coordinator.security.access import READ_GROUP


def handle(server: Server, exchange: Exchange[HeartbeatRequest]) -> None:
    check_group_is_named(exchange.request.group_id)
    server.groups.submit(exchange.request.group_id, heartbeat, exchange)


def refuse(request: HeartbeatRequest, error: KafkaError, api_version: int) -> HeartbeatResponse:
    is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)


API = Api(
    key=12,
    name="Heartbeat",
    versions=(0, 4),
    access=(READ_GROUP,),
    handle=handle,
    refuse=refuse,
    guard=guarded_by(READ_GROUP, attrgetter("group_id"), handle),
    is_guarded_whole=True,
    is_cacheable=True,
    writes=False,
    errors=GENERATION_ERRORS - {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS},
    coordinator=Coordinator.GROUP,
    overlay=HERE,
)
