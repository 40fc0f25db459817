"""StreamsGroupDescribe (key 89): topology, epochs, members and tasks of streams groups (KIP-1071).

v1 adds the assignor in use (KIP-1357) and, on request, a description of the topology (KIP-1331). In Kafka a plugin stores that
description; here it is always answered as not stored.
"""

from collections.abc import Iterator

from coordinator.api import HERE
from coordinator.groups.kinds import Kind
from coordinator.groups.streams.describe import describe_streams_group
from coordinator.protocol.messages import StreamsGroupDescribeResponse
from coordinator.requests.describe_groups import DescribesKind

_Described = StreamsGroupDescribeResponse.DescribedGroup


def _topics_of(group: _Described) -> Iterator[str]:
    for part in (group.topology and group.topology.subtopologies) or ():
        yield from part.source_topics
        yield from part.repartition_sink_topics
        yield from (topic.name for topic in part.repartition_source_topics)
        yield from (topic.name for topic in part.state_changelog_topics)


API = DescribesKind(
    Kind.STREAMS,
    StreamsGroupDescribeResponse,
    _Described,
    lambda exchange, groups, group_id: describe_streams_group(
        groups, group_id, exchange.behaviours, wants_description=exchange.request.include_topology_description
    ),
    _topics_of,
    "The described group uses topics that the client is not authorized to describe.",
).api(89, "StreamsGroupDescribe", versions=(0, 1), overlay=HERE)
