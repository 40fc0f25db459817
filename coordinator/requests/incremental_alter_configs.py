"""IncrementalAlterConfigs: sets, removes, appends to and takes from settings; each resource is all or nothing.

AlterConfigs, its predecessor, shares everything from here but how the changes are told (`alter_resources`, `results`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from coordinator.api.access import ALTER_CLUSTER_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_TOPIC_CONFIGS
from coordinator.api.config_resources import RESOURCES, ConfigResource, ConfigResourceType, resource
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from coordinator.topics.alter_configs import ConfigChange, Done, Plan, check_entries, incremental

_Result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
_R = TypeVar("_R")


class Altered(NamedTuple):
    """A resource whose settings shall change, and by what; `plan` makes a plan of the entries."""

    resource_type: int
    name: str
    entries: Sequence[ConfigChange]
    plan: Callable[[ConfigResource], Plan]


def handle(server: Server, exchange: Exchange[IncrementalAlterConfigsRequest]) -> None:
    request = exchange.request

    def altered(asked: IncrementalAlterConfigsRequest.AlterConfigsResource) -> Altered:
        entries = [ConfigChange(entry.name, entry.config_operation, entry.value) for entry in asked.configs]
        return Altered(asked.resource_type, asked.resource_name, entries, lambda kind: incremental(entries, kind.lists))

    def answer(errors: list[KafkaError | None]) -> None:
        exchange.reply(IncrementalAlterConfigsResponse(responses=results(_Result, request.resources, errors)))

    wanted = [altered(asked) for asked in request.resources]
    alter_resources(server, wanted, answer, validate_only=request.validate_only, legacy=False)


def alter_resources(
    server: Server,
    wanted: Sequence[Altered],
    answer: Callable[[list[KafkaError | None]], None],
    *,
    validate_only: bool,
    legacy: bool,
) -> None:
    """Changes each resource by itself; answers with an error or None for each when all are through."""
    times_named = Counter((asked.resource_type, asked.name) for asked in wanted)
    errors: list[KafkaError | None] = [None] * len(wanted)
    left = len(wanted)

    def done(index: int, error: KafkaError | None) -> None:
        nonlocal left
        errors[index] = error
        left -= 1
        if not left:
            answer(errors)

    if not wanted:
        answer([])
    for index, asked in enumerate(wanted):
        try:
            _alter(
                server,
                asked,
                times_named[asked.resource_type, asked.name],
                lambda error, index=index: done(index, error),  # type: ignore[misc]
                validate_only=validate_only,
                legacy=legacy,
            )
        except KafkaError as error:
            done(index, error)


def _alter(server: Server, asked: Altered, times_named: int, done: Done, *, validate_only: bool, legacy: bool) -> None:
    if times_named > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    check_entries(asked.entries)
    kind = _kind(asked.resource_type, legacy=legacy)
    kind.alter(server, asked.name, asked.plan(kind), done, validate_only=validate_only)


def refuse(
    request: IncrementalAlterConfigsRequest, error: KafkaError, _api_version: int
) -> IncrementalAlterConfigsResponse:
    errors = [error] * len(request.resources)
    return IncrementalAlterConfigsResponse(responses=results(_Result, request.resources, errors))


def _kind(resource_type: int, *, legacy: bool) -> ConfigResource:
    known = resource_type in set(ConfigResourceType)
    if not known or (legacy and resource_type in RESOURCES and not RESOURCES[resource_type].legacy):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
    return resource(resource_type)


def results(make: Callable[..., _R], resources: Sequence[Any], errors: Sequence[KafkaError | None]) -> list[_R]:
    """One result for each resource that a request names."""
    return [
        make(
            error_code=error.code if error is not None else ErrorCode.NONE,
            error_message=error.message if error is not None else None,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
        )
        for asked, error in zip(resources, errors, strict=True)
    ]


API = Api(
    key=44,
    name="IncrementalAlterConfigs",
    versions=(0, 1),
    access=(ALTER_CLUSTER_CONFIGS, ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS),
    handle=handle,
    refuse=refuse,
)
