"""DescribeUserScramCredentials (key 50): which users have SCRAM credentials, without the credentials (KIP-554).

Users of `sasl.users.file` are not listed: their credentials are not in the metadata log.
"""

from collections import Counter

from coordinator.api import Api, Exchange, Server
from coordinator.api.guards import guarded_by
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from coordinator.security.access import DESCRIBE_CLUSTER
from coordinator.security.authorizer import CLUSTER_NAME

_Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
_Info = DescribeUserScramCredentialsResponse.CredentialInfo


def handle(server: Server, exchange: Exchange[DescribeUserScramCredentialsRequest]) -> None:
    credentials = server.topics.registry.scram_credentials
    by_user: dict[str, list[_Info]] = {}
    for (user, mechanism), credential in credentials.items():
        if not user:  # the key of made-up salts
            continue
        by_user.setdefault(user, []).append(_Info(mechanism, credential.iterations))
    names = Counter([each.name for each in exchange.request.users or ()] or list(by_user))
    results = [_described(name, times, by_user.get(name)) for name, times in names.items()]
    exchange.reply_in_slices(DescribeUserScramCredentialsResponse(results=results))


def _described(name: str, times: int, infos: list[_Info] | None) -> _Result:
    if times > 1:
        return _Result(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    if infos is None:
        return _Result(
            user=name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {name}",
        )
    return _Result(user=name, credential_infos=infos)


def refuse(
    request: DescribeUserScramCredentialsRequest, error: KafkaError, _api_version: int
) -> DescribeUserScramCredentialsResponse:
    """Kafka leaves out the names."""
    results = [_Result(error_code=error.code, error_message=error.message) for _ in request.users or ()]
    return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.message, results=results)


_ERRORS = frozenset({
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.DUPLICATE_RESOURCE, ErrorCode.RESOURCE_NOT_FOUND,
})  # fmt: skip

API = Api(
    key=50,
    name="DescribeUserScramCredentials",
    versions=(0, 0),
    access=(DESCRIBE_CLUSTER,),
    handle=handle,
    guard=guarded_by(DESCRIBE_CLUSTER, lambda _request: CLUSTER_NAME, handle),
    refuse=refuse,
    writes=False,
    errors=_ERRORS,
)
