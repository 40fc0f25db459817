"""ConsumerGroupDescribe (key 69): epochs, members and assignments of consumer groups (KIP-848).

v1 adds the protocol that each member uses (KIP-1099).
"""

from coordinator.api.declaration import Api
from coordinator.api.described_groups import describe_groups, invalid_ids_first
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.groups.consumer.describe import describe_consumer_group
from coordinator.groups.kinds import Kind
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from coordinator.security.access import DESCRIBE_GROUP, DESCRIBE_TOPIC

_Described = ConsumerGroupDescribeResponse.DescribedGroup


def handle(server: Server, exchange: Exchange[ConsumerGroupDescribeRequest]) -> None:
    if Kind.CONSUMER.label not in server.config.groups.group_coordinator_rebalance_protocols:
        exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)
        return

    describe_groups(
        server.groups,
        invalid_ids_first(exchange.request.group_ids),
        exchange,
        describe_consumer_group,
        lambda groups: ConsumerGroupDescribeResponse(groups=groups),
    )


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
