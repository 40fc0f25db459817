"""AlterClientQuotas (key 49): sets and removes quotas (KIP-546; quotas/alter.py).

The changes of a request are one batch of the metadata log.
"""

from coordinator.api import Api, Exchange, Server
from coordinator.api.guards import guarded_by_cluster
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import AlterClientQuotasRequest, AlterClientQuotasResponse
from coordinator.quotas.alter import Names, plan_alterations
from coordinator.security.access import ALTER_CLUSTER_CONFIGS

_Entry = AlterClientQuotasResponse.EntryData
_Entity = AlterClientQuotasResponse.EntityData
_TEXTS = {ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed."}
"""Kafka's message of an error that has no other."""


def handle(server: Server, exchange: Exchange[AlterClientQuotasRequest]) -> None:
    server.topics.metadata.in_turn(lambda: _alter(server, exchange), exchange.refuse)


def _alter(server: Server, exchange: Exchange[AlterClientQuotasRequest]) -> None:
    request = exchange.request
    records, results = plan_alterations(server.topics.registry.client_quotas, request.entries)

    def done(code: ErrorCode) -> None:
        failure = None if code is ErrorCode.NONE else KafkaError(code)
        exchange.reply(
            AlterClientQuotasResponse(entries=[_result(names, error or failure) for names, error in results])
        )

    if records and not request.validate_only:
        server.topics.metadata.commit(records, done)
    else:
        done(ErrorCode.NONE)


def _result(names: Names, error: KafkaError | None) -> _Entry:
    entity = [_Entity(kind, name) for kind, name in names.items()]
    if error is None:
        return _Entry(error_message=None, entity=entity)
    return _Entry(error_code=error.code, error_message=error.message or _TEXTS.get(error.code), entity=entity)


def refuse(request: AlterClientQuotasRequest, error: KafkaError, _api_version: int) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            _result({each.entity_type: each.entity_name for each in entry.entity}, error) for entry in request.entries
        ]
    )


_ERRORS = frozenset({
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED,
})  # fmt: skip

API = Api(
    key=49,
    name="AlterClientQuotas",
    versions=(0, 1),
    access=(ALTER_CLUSTER_CONFIGS,),
    handle=handle,
    refuse=refuse,
    guard=guarded_by_cluster(ALTER_CLUSTER_CONFIGS, handle),
    errors=_ERRORS,
)
