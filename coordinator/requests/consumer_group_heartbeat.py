"""ConsumerGroupHeartbeat (key 68): a member joins a consumer group, stays in it, learns its assignment, and leaves (KIP-848).

v1 lets a member subscribe by a regular expression, and requires it to choose its own member id (KIP-1082); in v0 the server
generates an id for a member that sends none.
"""

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.groups.consumer.heartbeat import MEMBER_ID_REQUIRED_SINCE, consumer_group_heartbeat
from coordinator.groups.kinds import Kind
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from coordinator.security.access import DESCRIBE_TOPIC, READ_GROUP


def handle(server: Server, exchange: Exchange[ConsumerGroupHeartbeatRequest]) -> None:
    request = exchange.request
    if Kind.CONSUMER.label not in server.config.groups.group_coordinator_rebalance_protocols:
        exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)
        return
    if exchange.api_version < MEMBER_ID_REQUIRED_SINCE and not request.member_id:
        exchange.fresh_id = server.entropy.uuid()
    server.groups.submit(request.group_id, consumer_group_heartbeat, exchange)


def refuse(
    request: ConsumerGroupHeartbeatRequest, error: KafkaError, api_version: int
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


API = Api(
    key=68,
    name="ConsumerGroupHeartbeat",
    versions=(0, 1),
    access=(READ_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    is_cacheable=True,
)
