"""ShareGroupDescribe (key 77): epochs, members and partitions of share groups (KIP-932)."""

from collections.abc import Iterator

from coordinator.api.declaration import Api, Coordinator, Overlay
from coordinator.api.error_families import GROUP_ERRORS
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.config.features import serves
from coordinator.groups.kinds import Kind
from coordinator.groups.share.describe import describe_share_group
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from coordinator.requests.describe_groups import describe_groups, hide_by_topics, invalid_ids_first
from coordinator.security.access import DESCRIBE_GROUP, DESCRIBE_TOPIC

_Described = ShareGroupDescribeResponse.DescribedGroup
_HIDDEN = "The group has described topic(s) that the client is not authorized to describe."


def handle(server: Server, exchange: Exchange[ShareGroupDescribeRequest]) -> None:
    if not serves(server.config, server.topics.registry, Kind.SHARE):
        exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)
        return

    describe_groups(
        server.groups,
        exchange.request.group_ids,
        exchange,
        describe_share_group,
        lambda groups: ShareGroupDescribeResponse(groups=groups),
        refused=_refused,
        sort=invalid_ids_first,
        hide=hide_by_topics(_topics_of, _hidden),
    )


def refuse(request: ShareGroupDescribeRequest, error: KafkaError, api_version: int) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(groups=[_refused(group_id, error.code) for group_id in request.group_ids])


def _refused(group_id: str, error: ErrorCode, text: str | None = None) -> _Described:
    return _Described(error_code=error, group_id=group_id, error_message=text)


def _hidden(group_id: str) -> _Described:
    return _refused(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _HIDDEN)


def _topics_of(group: _Described) -> Iterator[str]:
    for member in group.members:
        for topic in member.assignment.topic_partitions:
            yield topic.topic_name


API = Api(
    key=77,
    name="ShareGroupDescribe",
    versions=(1, 1),
    access=(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    writes=False,
    errors=GROUP_ERRORS | {ErrorCode.TOPIC_AUTHORIZATION_FAILED},
    elements=("group_ids",),
    coordinator=Coordinator.GROUP,
    overlay=Overlay.HIDDEN,
)
