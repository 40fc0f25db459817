"""ConsumerGroupDescribe (key 69): epochs, members and assignments of consumer groups (KIP-848).

v1 says of each member which protocol it speaks (KIP-1099).
"""

from typing import Any

from coordinator.api.access import DESCRIBE_GROUP, DESCRIBE_TOPIC
from coordinator.api.declaration import Api
from coordinator.api.described_groups import in_order
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.groups.consumer.describe import describe_consumer_group
from coordinator.groups.settings import CONSUMER
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from coordinator.runtime.result import RequestContext, Result

_Described = ConsumerGroupDescribeResponse.DescribedGroup


def handle(server: Server, exchange: Exchange[ConsumerGroupDescribeRequest]) -> None:
    request = exchange.request
    if CONSUMER not in server.config.groups.group_coordinator_rebalance_protocols:
        exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)
        return

    def combine(parts: list[Any]) -> ConsumerGroupDescribeResponse:
        return ConsumerGroupDescribeResponse(groups=in_order(request, parts))

    server.groups.gather_by_group(dict.fromkeys(request.group_ids), _describe, exchange, combine)


def _describe(groups: Any, group_ids: Any, context: RequestContext, now_ms: int) -> Result:
    described: Any = [describe_consumer_group(groups, group_id) for group_id in group_ids]
    return Result(described)


def refuse(request: ConsumerGroupDescribeRequest, error: KafkaError, api_version: int) -> ConsumerGroupDescribeResponse:
    groups = [_Described(error_code=error.code, group_id=group_id) for group_id in request.group_ids]
    return ConsumerGroupDescribeResponse(groups=groups)


API = Api(
    key=69,
    name="ConsumerGroupDescribe",
    versions=(0, 1),
    access=(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    writes=False,
)
