"""ConsumerGroupDescribe (key 69): epochs, members and assignments of consumer groups (KIP-848).

v1 adds the protocol that each member uses (KIP-1099).
"""

from collections.abc import Iterator

from coordinator.api import HERE, Api, Coordinator, Exchange, Server
from coordinator.api.error_families import GROUP_ERRORS
from coordinator.groups.consumer.describe import describe_consumer_group
from coordinator.groups.kinds import Kind
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from coordinator.requests.describe_groups import DescribesKind
from coordinator.security.access import DESCRIBE_GROUP, DESCRIBE_TOPIC

_Described = ConsumerGroupDescribeResponse.DescribedGroup


def _topics_of(group: _Described) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (topic.topic_name for topic in assignment.topic_partitions)


_DESCRIBES = DescribesKind(
    Kind.CONSUMER,
    ConsumerGroupDescribeResponse,
    _Described,
    lambda exchange, groups, group_id: describe_consumer_group(groups, group_id, exchange.behaviours),
    _topics_of,
    "The group has described topic(s) that the client is not authorized to describe.",
)


def handle(server: Server, exchange: Exchange[ConsumerGroupDescribeRequest]) -> None:
    _DESCRIBES.handle(server, exchange)


API = Api(
    key=69,
    name="ConsumerGroupDescribe",
    versions=(0, 1),
    access=(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    refuse=_DESCRIBES.refuse,
    writes=False,
    errors=GROUP_ERRORS | {ErrorCode.TOPIC_AUTHORIZATION_FAILED},
    elements=("group_ids",),
    coordinator=Coordinator.GROUP,
    overlay=HERE,
)
