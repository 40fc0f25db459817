"""StreamsGroupDescribe (key 89): topology, epochs, members and tasks of streams groups (KIP-1071).

v1 adds the assignor in use (KIP-1357) and, on request, a description of the topology (KIP-1331). In Kafka a plugin stores that
description; here it is always answered as not stored.
"""

from collections.abc import Iterator
from functools import partial

from coordinator.api.declaration import HERE, Api, Coordinator
from coordinator.api.error_families import GROUP_ERRORS
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.config.features import serves
from coordinator.groups.kinds import Kind
from coordinator.groups.streams.describe import describe_streams_group
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from coordinator.requests.describe_groups import describe_groups, hide_by_topics, invalid_ids_first
from coordinator.security.access import DESCRIBE_GROUP, DESCRIBE_TOPIC

_Described = StreamsGroupDescribeResponse.DescribedGroup
_HIDDEN = "The described group uses topics that the client is not authorized to describe."


def handle(server: Server, exchange: Exchange[StreamsGroupDescribeRequest]) -> None:
    request = exchange.request
    if not serves(server.config, server.topics.registry, Kind.STREAMS):
        exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)
        return

    describe_groups(
        server.groups,
        request.group_ids,
        exchange,
        partial(describe_streams_group, wants_description=request.include_topology_description),
        lambda groups: StreamsGroupDescribeResponse(groups=groups),
        refused=_refused,
        sort=invalid_ids_first,
        hide=hide_by_topics(_topics_of, _hidden),
    )


def refuse(request: StreamsGroupDescribeRequest, error: KafkaError, api_version: int) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(groups=[_refused(group_id, error.code) for group_id in request.group_ids])


def _refused(group_id: str, error: ErrorCode, text: str | None = None) -> _Described:
    return _Described(error_code=error, group_id=group_id, error_message=text)


def _hidden(group_id: str) -> _Described:
    return _refused(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _HIDDEN)


def _topics_of(group: _Described) -> Iterator[str]:
    for part in (group.topology and group.topology.subtopologies) or ():
        yield from part.source_topics
        yield from part.repartition_sink_topics
        yield from (topic.name for topic in part.repartition_source_topics)
        yield from (topic.name for topic in part.state_changelog_topics)


API = Api(
    key=89,
    name="StreamsGroupDescribe",
    versions=(0, 1),
    access=(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    writes=False,
    errors=GROUP_ERRORS | {ErrorCode.TOPIC_AUTHORIZATION_FAILED},
    elements=("group_ids",),
    coordinator=Coordinator.GROUP,
    overlay=HERE,
)
