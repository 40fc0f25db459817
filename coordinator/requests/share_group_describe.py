"""ShareGroupDescribe (key 77): epochs, members and partitions of share groups (KIP-932)."""

from collections.abc import Iterator

from coordinator.api import Overlay
from coordinator.groups.kinds import Kind
from coordinator.groups.share.describe import describe_share_group
from coordinator.protocol.messages import ShareGroupDescribeResponse
from coordinator.requests.describe_groups import DescribesKind

_Described = ShareGroupDescribeResponse.DescribedGroup


def _topics_of(group: _Described) -> Iterator[str]:
    for member in group.members:
        for topic in member.assignment.topic_partitions:
            yield topic.topic_name


API = DescribesKind(
    Kind.SHARE,
    ShareGroupDescribeResponse,
    _Described,
    lambda _exchange, *of: describe_share_group(*of),
    _topics_of,
    "The group has described topic(s) that the client is not authorized to describe.",
).api(77, "ShareGroupDescribe", versions=(1, 1), overlay=Overlay.HIDDEN)
