"""AlterUserScramCredentials (key 51): sets and deletes SCRAM credentials (KIP-554; Kafka: `ScramControlManager`).

The client salts the password, and the server keeps in the metadata log what verifies it. The changes of a request are a batch.
"""

from typing import Any

from coordinator.api import Api, Exchange, Server
from coordinator.api.guards import guarded_by_cluster
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    Message,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from coordinator.security.access import ALTER_CLUSTER
from coordinator.security.scram import CODES, ITERATIONS_MAX, ITERATIONS_MIN, credential_of_salted
from coordinator.topics.registry import Registry

_Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
_Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
_Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
_MECHANISMS = {code: name for name, code in CODES.items()}
_TWICE = KafkaError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")


def handle(server: Server, exchange: Exchange[AlterUserScramCredentialsRequest]) -> None:
    server.topics.metadata.in_turn(lambda: _alter(server, exchange), exchange.refuse)


def _alter(server: Server, exchange: Exchange[AlterUserScramCredentialsRequest]) -> None:
    changes, errors = _plan(server.topics.registry, exchange.request)

    def done(code: ErrorCode) -> None:
        failure = None if code is ErrorCode.NONE else KafkaError(code)
        outcomes = {**dict.fromkeys(changes, failure), **errors}
        exchange.reply(AlterUserScramCredentialsResponse(results=[_result(*each) for each in outcomes.items()]))

    if changes:
        server.topics.metadata.commit(list(changes.values()), done)
    else:
        done(ErrorCode.NONE)


def _plan(
    registry: Registry, request: AlterUserScramCredentialsRequest
) -> tuple[dict[str, Message], dict[str, KafkaError]]:
    """The record that changes each user, and the errors of the others. As in Kafka, a user occurs once in a request."""
    changes: dict[str, Message] = {}
    errors: dict[str, KafkaError] = {}
    alterations: list[Any] = [*request.deletions, *request.upsertions]
    for alteration in alterations:
        name = alteration.name
        if name in errors:
            continue
        if changes.pop(name, None) is not None:
            errors[name] = _TWICE
            continue
        try:
            changes[name] = (
                _deletion(registry, alteration) if isinstance(alteration, _Deletion) else _upsertion(alteration)
            )
        except KafkaError as error:
            errors[name] = error
    return changes, errors


def _deletion(registry: Registry, deletion: _Deletion) -> Message:
    _check(deletion)
    if (deletion.name, deletion.mechanism) not in registry.scram_credentials:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return RemoveUserScramCredentialRecord(deletion.name, deletion.mechanism)


def _upsertion(upsertion: _Upsertion) -> Message:
    _check(upsertion)
    if upsertion.iterations < ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if upsertion.iterations > ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not upsertion.salted_password:  # Java's HMAC takes no empty key
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    name = _MECHANISMS[upsertion.mechanism]
    made = credential_of_salted(name, upsertion.salted_password, upsertion.salt, upsertion.iterations)
    return UserScramCredentialRecord(
        name=upsertion.name,
        mechanism=upsertion.mechanism,
        salt=made.salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=made.iterations,
    )


def _check(alteration: _Deletion | _Upsertion) -> None:
    """Raises UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM."""
    if not alteration.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if alteration.mechanism not in _MECHANISMS:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _result(user: str, error: KafkaError | None) -> _Result:
    if error is None:
        return _Result(user=user, error_message=None)
    return _Result(user=user, error_code=error.code, error_message=error.message)


def refuse(
    request: AlterUserScramCredentialsRequest, error: KafkaError, _api_version: int
) -> AlterUserScramCredentialsResponse:
    alterations: list[Any] = [*request.deletions, *request.upsertions]
    users = dict.fromkeys(each.name for each in alterations)
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user in users])


_ERRORS = frozenset({
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NOT_CONTROLLER, ErrorCode.DUPLICATE_RESOURCE,
    ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.UNACCEPTABLE_CREDENTIAL, ErrorCode.UNSUPPORTED_SASL_MECHANISM,
})  # fmt: skip

API = Api(
    key=51,
    name="AlterUserScramCredentials",
    versions=(0, 0),
    access=(ALTER_CLUSTER,),
    handle=handle,
    guard=guarded_by_cluster(ALTER_CLUSTER, handle),
    refuse=refuse,
    errors=_ERRORS,
)
