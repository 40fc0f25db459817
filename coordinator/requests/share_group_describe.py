"""ShareGroupDescribe (key 77): epochs, members and partitions of share groups (KIP-932)."""

from collections.abc import Iterator

from coordinator.api import Api, Coordinator, Exchange, Overlay, Server
from coordinator.api.error_families import GROUP_ERRORS
from coordinator.groups.kinds import Kind
from coordinator.groups.share.describe import describe_share_group
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from coordinator.requests.describe_groups import DescribesKind
from coordinator.security.access import DESCRIBE_GROUP, DESCRIBE_TOPIC

_Described = ShareGroupDescribeResponse.DescribedGroup


def _topics_of(group: _Described) -> Iterator[str]:
    for member in group.members:
        for topic in member.assignment.topic_partitions:
            yield topic.topic_name


_DESCRIBES = DescribesKind(
    Kind.SHARE,
    ShareGroupDescribeResponse,
    _Described,
    lambda _exchange, *of: describe_share_group(*of),
    _topics_of,
    "The group has described topic(s) that the client is not authorized to describe.",
)


def handle(server: Server, exchange: Exchange[ShareGroupDescribeRequest]) -> None:
    _DESCRIBES.handle(server, exchange)


API = Api(
    key=77,
    name="ShareGroupDescribe",
    versions=(1, 1),
    access=(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    refuse=_DESCRIBES.refuse,
    writes=False,
    errors=GROUP_ERRORS | {ErrorCode.TOPIC_AUTHORIZATION_FAILED},
    elements=("group_ids",),
    coordinator=Coordinator.GROUP,
    overlay=Overlay.HIDDEN,
)
