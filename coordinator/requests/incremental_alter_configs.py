"""IncrementalAlterConfigs (key 44): sets, deletes, appends to and subtracts from configs (KIP-339).

Each resource is changed as a whole or not at all. An unknown operation on a topic, a group or client metrics fails all
resources but loggers with UNKNOWN_SERVER_ERROR, because Kafka's controller cannot read the request. AlterConfigs, its
predecessor, uses `alter_resources` and `results` too.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from coordinator.api import Api, Exchange, Forwarded, Permits, Pieces, Server, denial
from coordinator.api.config_resources import (
    RESOURCES,
    ConfigResource,
    ConfigResourceType,
    config_access,
    config_resource,
    is_of_groups,
)
from coordinator.api.error_families import CONFIGS_ERRORS
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from coordinator.security.access import ALTER_CLUSTER_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_TOPIC_CONFIGS, AclOperation
from coordinator.topics.alter_configs import OPERATIONS, Changes, ConfigChange, Done, Plan, check_entries, incremental

_Result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
_R = TypeVar("_R")
_TYPES = frozenset(ConfigResourceType)
_OF_BROKERS = frozenset({ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER})
_PIECE_RESOURCES = 20
"""Resources whose change is decided in about a millisecond."""
_PIECE_CHARACTERS = 10_000
"""Characters of names and of values, which may be long lists, that are checked in about a millisecond."""


class _Resource(Protocol):
    """A resource as either request names it."""

    resource_type: int
    resource_name: str


class Altered(NamedTuple):
    """A resource and the changes of its configs. `plan` turns the entries into a plan, given the type of resource."""

    resource_type: int
    name: str
    entries: Sequence[ConfigChange]
    plan: Callable[[ConfigResource], Plan]


def handle(server: Server, exchange: Exchange[IncrementalAlterConfigsRequest]) -> None:
    request = exchange.request

    def altered(resource: IncrementalAlterConfigsRequest.AlterConfigsResource) -> Altered:
        entries = [ConfigChange(entry.name, entry.config_operation, entry.value) for entry in resource.configs]
        return Altered(
            resource.resource_type,
            resource.resource_name,
            entries,
            lambda kind: incremental(entries, kind.lists, kind.why_not),
        )

    def reply(errors: list[KafkaError | None]) -> None:
        exchange.reply_in_slices(IncrementalAlterConfigsResponse(responses=results(_Result, request.resources, errors)))

    requested = map(altered, request.resources)
    pieces = alter_resources(
        server, exchange.permits, requested, reply, validate_only=request.validate_only, legacy=False
    )
    exchange.run_in_slices(pieces, even_if_lost=True)


def alter_resources(
    server: Server,
    permits: Permits,
    named: Iterable[Altered],
    reply: Callable[[list[KafkaError | None]], None],
    *,
    validate_only: bool,
    legacy: bool,
) -> Pieces:
    """Changes each resource by itself. When all are done, calls `reply` with an error or None for each."""
    yield  # decoding has taken some milliseconds
    requested = list(named)
    yield
    times_named = Counter((resource.resource_type, resource.name) for resource in requested)
    errors: list[KafkaError | None] = [None] * len(requested)
    left = len(requested)

    def done(index: int, error: KafkaError | None) -> None:
        nonlocal left
        errors[index] = error
        left -= 1
        if not left:
            reply(errors)

    if not requested:
        reply([])
    if any(times_named[each.resource_type, each.name] == 1 and _fails_all(each) for each in requested):
        requested = [
            each if each.resource_type == ConfigResourceType.BROKER_LOGGER else each._replace(plan=_failing)
            for each in requested
        ]
    yield
    resources = characters = 0
    for index, resource in enumerate(requested):
        resources += 1
        characters += sum(len(entry.name) + len(entry.value or "") for entry in resource.entries)
        if resources >= _PIECE_RESOURCES or characters >= _PIECE_CHARACTERS:
            resources = characters = 0
            yield
        try:
            _alter(
                server,
                permits,
                resource,
                times_named[resource.resource_type, resource.name],
                lambda error, index=index: done(index, error),  # type: ignore[misc]
                validate_only=validate_only,
                legacy=legacy,
            )
        except KafkaError as error:
            done(index, error)


def _alter(
    server: Server,
    permits: Permits,
    resource: Altered,
    times_named: int,
    done: Done,
    *,
    validate_only: bool,
    legacy: bool,
) -> None:
    """Alters one resource. Kafka says what is wrong with the request alone before it asks whether the client may do it."""
    if times_named > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    check_entries(resource.entries)
    _check_type(resource.resource_type, legacy=legacy)
    _check_permit(permits, resource)
    kind = config_resource(resource.resource_type)
    kind.alter(server, resource.name, resource.plan(kind), done, validate_only=validate_only)


def _fails_all(resource: Altered) -> bool:
    """Whether Kafka's broker passes a resource with an unknown operation on to its controller, which cannot read that."""
    if resource.resource_type not in _TYPES - _OF_BROKERS:
        return False
    if all(entry.operation in OPERATIONS for entry in resource.entries):
        return False
    try:
        check_entries(resource.entries)
    except KafkaError:
        return False
    return True


def _failing(_kind: ConfigResource) -> Plan:
    def plan(_current: Mapping[str, str]) -> Changes:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

    return plan


def refuse(
    request: IncrementalAlterConfigsRequest, error: KafkaError, _api_version: int
) -> IncrementalAlterConfigsResponse:
    errors = [error] * len(request.resources)
    return IncrementalAlterConfigsResponse(responses=results(_Result, request.resources, errors))


def _check_type(resource_type: int, *, legacy: bool) -> None:
    known = resource_type in _TYPES
    if not known or (legacy and resource_type in RESOURCES and not RESOURCES[resource_type].legacy):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def _check_permit(permits: Permits, resource: Altered) -> None:
    """Raises the authorization error, in Kafka without a message if the resource is a broker."""
    access, name = config_access(AclOperation.ALTER_CONFIGS, resource.resource_type, resource.name)
    if resource.resource_type in _OF_BROKERS:
        permits.require(access, name)
    elif not permits.allows(access, name):
        raise denial(access.resource_type)


def results(make: Callable[..., _R], resources: Sequence[_Resource], errors: Sequence[KafkaError | None]) -> list[_R]:
    """Makes one result for each resource of a request."""
    return [
        make(
            error_code=error.code if error is not None else ErrorCode.NONE,
            error_message=error.message if error is not None else None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, error in zip(resources, errors, strict=True)
    ]


API = Api(
    key=44,
    name="IncrementalAlterConfigs",
    versions=(0, 1),
    access=(ALTER_CLUSTER_CONFIGS, ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS),
    handle=handle,
    refuse=refuse,
    errors=CONFIGS_ERRORS,
    elements=("resources",),
    overlay=Forwarded(last=1, is_ours=is_of_groups),
)
