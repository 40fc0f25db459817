"""UpdateFeatures (key 57): sets the finalized levels of features (KIP-584, KIP-778; Kafka: `FeatureControlManager`).

All features of a request change or none. v0 cannot say that a feature is downgraded, as in Kafka. v0 and v1 list the features
of a request that succeeds, each with the message "NONE". Clients of an emulated release can set the levels that it has.
"""

from coordinator.api import Api, Exchange, Server
from coordinator.api.guards import guarded_by_cluster
from coordinator.config import features
from coordinator.config.features import Update
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from coordinator.security.access import ALTER_CLUSTER

_LISTS_NONE_SINCE = 2
_Result = UpdateFeaturesResponse.UpdatableFeatureResult


def handle(server: Server, exchange: Exchange[UpdateFeaturesRequest]) -> None:
    server.topics.metadata.in_turn(lambda: _update(server, exchange), exchange.refuse)


def _update(server: Server, exchange: Exchange[UpdateFeaturesRequest]) -> None:
    request, release = exchange.request, exchange.route.api.release
    updates = [Update(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates]
    try:
        levels = features.levels_as(release, server.config, server.topics.registry)
        records = features.plan(levels, updates, server.node_id, features.supported(release))
    except KafkaError as error:
        exchange.fail(error)
        return

    def done(code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            exchange.refuse(code)
            return
        listed = updates if exchange.api_version < _LISTS_NONE_SINCE else []
        results = [_Result(feature=update.name, error_message="NONE") for update in listed]
        exchange.reply(UpdateFeaturesResponse(error_message=None, results=results))

    if records and not request.validate_only:
        server.topics.metadata.commit(records, done)
    else:
        done(ErrorCode.NONE)


_ERRORS = frozenset({
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NOT_CONTROLLER, ErrorCode.FEATURE_UPDATE_FAILED,
    ErrorCode.INVALID_UPDATE_VERSION,
})  # fmt: skip

API = Api(
    key=57,
    name="UpdateFeatures",
    versions=(0, 2),
    access=(ALTER_CLUSTER,),
    handle=handle,
    guard=guarded_by_cluster(ALTER_CLUSTER, handle),
    errors=_ERRORS,
)
