"""What all workers know is the same, once everything has settled (I39).

- I39: at rest every worker has the topics, settings, users, ACLs, quotas and reserved producer ids that the engine has of the
  metadata, and its own APIs show them alike. What was acknowledged is among them.

The engine's are replayed from everything that ever became durable, so a mistake in the compaction of the metadata shows, too.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.groups.group_configs import RESOURCE_TYPE
from coordinator.log.batch import split
from coordinator.protocol.messages import (
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeConfigsRequest,
    DescribeUserScramCredentialsRequest,
    Message,
    MetadataRequest,
)
from coordinator.server.composition import Server
from coordinator.topics.metadata_log import messages_in
from coordinator.topics.metadata_records import TOPIC_RESOURCE
from coordinator.topics.registry import Registry
from coordinator.topics.topics import METADATA_FOLDER
from coordinator_lab.simulation.history import OnBroken
from coordinator_lab.simulation.metadata_clients import Known, Thing
from coordinator_lab.simulation.shared_store import SharedStore
from coordinator_lab.simulation.wire import Caller, NoResponse

INVARIANT = "I39 all workers know the same at rest"
WITHIN_S = 5.0
"""How long workers may take to follow what was written last."""
POLL_S = 0.2
_ANY = 1


def registry_of(store: SharedStore) -> Registry:
    """What the engine has of the metadata."""
    registry = Registry()
    for piece in store.of(METADATA_FOLDER).pieces:
        for position, header in split(piece):
            for message in messages_in(piece, position, header):
                registry.replay(message)
    return registry


def content_of(registry: Registry) -> dict[str, Any]:
    """Everything in a registry, without the names of deleted topics."""
    topics = {
        each.name: (each.topic_id.hex(), each.partitions, dict(each.configs)) for each in registry.topics.values()
    }
    return {
        "topics": topics,
        "ids of topics": {topic_id.hex(): topic.name for topic_id, topic in registry.by_id.items()},
        "partitions": registry.partitions,
        "names that collide": registry.collisions,
        "settings": registry.other_configs,
        "users": registry.scram_credentials,
        "quotas": registry.client_quotas,
        "ACLs": registry.acls,
        "tokens": registry.delegation_tokens,
        "features": registry.feature_levels,
        "producer ids": registry.next_producer_id,
    }


def things_in(registry: Registry) -> set[Thing]:
    """What a `MetadataChanger` may have created."""
    things = {("topic", name) for name in registry.topics}
    things |= {("user", name) for name, _ in registry.scram_credentials if name}
    things |= {("acl", each.resource_name) for each in registry.acls.values()}
    return things | {("settings", name) for kind, name in registry.other_configs if kind == RESOURCE_TYPE}


def questions(registry: Registry, *, has_acls: bool) -> Iterator[tuple[Message, int, str]]:
    """Requests, their versions, and the field of the response that every worker must answer alike."""
    yield MetadataRequest(topics=None), 12, "topics"
    yield DescribeClientQuotasRequest(), 1, "entries"
    yield DescribeUserScramCredentialsRequest(users=None), 0, "results"
    named = [(TOPIC_RESOURCE, name) for name in registry.topics] + list(registry.other_configs)
    resources = [DescribeConfigsRequest.DescribeConfigsResource(*each, None) for each in sorted(named)]
    yield DescribeConfigsRequest(resources), 4, "results"
    if has_acls:
        yield DescribeAclsRequest(_ANY, None, _ANY, None, None, _ANY, _ANY), 3, "resources"


def _in_order(value: Any) -> Any:
    """A value that does not depend on the order of lists, which no worker promises."""
    if isinstance(value, list):
        return tuple(sorted((_in_order(each) for each in value), key=repr))
    if isinstance(value, Message):
        return tuple(_in_order(getattr(value, name)) for name in type(value).__slots__)  # type: ignore[attr-defined]
    return value


@dataclass(slots=True)
class MetadataCheck:
    """Compares the workers of a run at rest. `callers`: a way to each worker. `known`: what was acknowledged."""

    store: SharedStore
    servers: Callable[[], Sequence[Server]]
    callers: Sequence[Caller]
    known: Callable[[], Mapping[Thing, Known]]
    sleep: Callable[[float], Awaitable[None]]
    broken: OnBroken

    async def check(self) -> None:
        """Waits until all workers know the same; reports what they do not agree about after `WITHIN_S`."""
        waited_s, problem = 0.0, await self._problem()
        while problem and waited_s < WITHIN_S:
            await self.sleep(POLL_S)
            waited_s += POLL_S
            problem = await self._problem()
        if problem:
            self.broken(INVARIANT, problem)

    async def _problem(self) -> str:
        registry = registry_of(self.store)
        there, wanted = things_in(registry), content_of(registry)
        for thing, known in self.known().items():
            if known is not Known.IN_DOUBT and (thing in there) is not (known is Known.THERE):
                return f"{thing} is {known.value}, as was acknowledged, and the engine says something else"
        for server in self.servers():
            found = content_of(server.topics.registry)
            for name in wanted:
                if found[name] != wanted[name]:
                    return f"worker {server.config.node_id} has the {name} {found[name]}, and the engine {wanted[name]}"
        return await self._shown_differently(registry)

    async def _shown_differently(self, registry: Registry) -> str:
        has_acls = any(server.authorizer is not None for server in self.servers())
        for request, version, field in questions(registry, has_acls=has_acls):
            answers: list[set[Any]] = []
            for caller in self.callers:
                try:
                    response = await caller.call(request, version, WITHIN_S)
                except NoResponse:
                    return f"a worker does not answer {request.NAME}"
                answers.append(set(_in_order(getattr(response, field))))
            only_some = [each - set.intersection(*answers) for each in answers]
            if any(only_some):
                return f"workers answer {request.NAME} differently: {only_some}"
        return ""
