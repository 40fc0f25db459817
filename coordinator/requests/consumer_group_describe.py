"""ConsumerGroupDescribe (key 69): epochs, members and assignments of consumer groups (KIP-848).

v1 adds the protocol that each member uses (KIP-1099).
"""

from collections.abc import Iterator

from coordinator.api import HERE
from coordinator.groups.consumer.describe import describe_consumer_group
from coordinator.groups.kinds import Kind
from coordinator.protocol.messages import ConsumerGroupDescribeResponse
from coordinator.requests.describe_groups import DescribesKind

_Described = ConsumerGroupDescribeResponse.DescribedGroup


def _topics_of(group: _Described) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (topic.topic_name for topic in assignment.topic_partitions)


API = DescribesKind(
    Kind.CONSUMER,
    ConsumerGroupDescribeResponse,
    _Described,
    lambda exchange, groups, group_id: describe_consumer_group(groups, group_id, exchange.behaviours),
    _topics_of,
    "The group has described topic(s) that the client is not authorized to describe.",
).api(69, "ConsumerGroupDescribe", versions=(0, 1), overlay=HERE)
