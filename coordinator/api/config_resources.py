"""The resources that have configs: one entry of `RESOURCES` for each type that clients may describe and alter.

    TOPIC          its own configs, and the server's where it has none; altered at once and kept (topics/topic_settings.py)
    BROKER         the server's settings (config/broker_configs.py). Those that Kafka changes while it runs are altered at
                   once and kept, for this broker or for the cluster (config/dynamic_configs.py)
    BROKER_LOGGER  the levels of the server's loggers; altered at once, and lost with the process (config/logger_levels.py)
    GROUP          its own configs, whether or not the group exists, and the server's where it has none; kept
                   (groups/group_configs.py, config/group_resources.py)
    CLIENT_METRICS the configs of a subscription; kept (config/client_metrics.py)

DescribeConfigs, ListConfigResources, IncrementalAlterConfigs and AlterConfigs know of the types only what stands in this table.
"""

import re
from collections.abc import Mapping
from enum import IntEnum
from functools import partial
from typing import Any, Protocol

from coordinator.api.server import Server
from coordinator.config import broker_configs, client_metrics, dynamic_configs, group_resources, logger_levels
from coordinator.config.parsers import INT_MAX
from coordinator.groups import group_configs
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.security import audit
from coordinator.security.access import Access, AclOperation, ResourceType
from coordinator.security.authorizer import CLUSTER_NAME
from coordinator.topics import names, topic_settings
from coordinator.topics.alter_configs import Changes, Done, Plan, WhyNot, alter, alter_topic, not_a_list
from coordinator.topics.topic_settings import MIN_INSYNC_REPLICAS, ROWS, ConfigValue


class ConfigResourceType(IntEnum):
    """Kafka's `ConfigResource.Type`, with its codes."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_PROTECTED = {ConfigResourceType.TOPIC: ResourceType.TOPIC, ConfigResourceType.GROUP: ResourceType.GROUP}
"""The configs of all other types are the cluster's."""


def config_access(operation: AclOperation, resource_type: int, name: str) -> tuple[Access, str]:
    """The permission that an operation on the configs of a resource needs, and the name of what it is needed for."""
    protected = _PROTECTED.get(resource_type, ResourceType.CLUSTER)  # type: ignore[call-overload]
    return Access(operation, protected), CLUSTER_NAME if protected is ResourceType.CLUSTER else name


class ConfigResource(Protocol):
    """One type of resource. Every method may raise KafkaError."""

    lists: Mapping[str, str]
    """The configs that are lists, with their defaults."""
    legacy: bool
    """Whether the older AlterConfigs may alter it too."""
    why_not: WhyNot
    """Why APPEND and SUBTRACT to another config are refused."""

    def names(self, server: Server, advertised: tuple[str, int]) -> list[str]:
        """The names of the resources with configs: all topics and brokers; of groups those with configs of their own.

        `advertised`: the address at which the client reaches this broker.
        """

    def describe(self, server: Server, name: str) -> list[ConfigValue]:
        """All configs of the resource of this name."""

    def alter(self, server: Server, name: str, plan: Plan, done: Done, *, validate_only: bool) -> None:
        """Alters configs. Calls `done(None)` once the change is in force, or `done(error)`, at once or later."""


class _Topics:
    lists: Mapping[str, str] = topic_settings.LISTS
    legacy = True
    why_not: WhyNot = staticmethod(not_a_list)

    def names(self, server: Server, _advertised: tuple[str, int]) -> list[str]:
        return list(server.topics.registry.topics)

    def describe(self, server: Server, name: str) -> list[ConfigValue]:
        reason = names.why_invalid(name)
        if reason is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
        topic = server.topics.registry.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return topic_settings.describe(topic.configs, server.topics.config)

    def alter(self, server: Server, name: str, plan: Plan, done: Done, *, validate_only: bool) -> None:
        alter_topic(server.topics, name, plan, done, validate_only=validate_only)


class _Brokers:
    lists: Mapping[str, str] = broker_configs.LISTS
    legacy = True
    why_not: WhyNot = staticmethod(dynamic_configs.not_a_list)

    def names(self, server: Server, advertised: tuple[str, int]) -> list[str]:
        return [str(node.id) for node in server.cluster.nodes(advertised)]

    def describe(self, server: Server, name: str) -> list[ConfigValue]:
        registry = server.topics.registry
        if not name:
            return broker_configs.describe_cluster(registry.configs_of(ConfigResourceType.BROKER, ""))
        if _number(name, "Broker id must be an integer, but it is: ") != server.node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {server.node_id} or empty string, but received {name}",
            )
        return broker_configs.describe(server, dynamic_configs.layers(registry, server.node_id))

    def alter(self, server: Server, name: str, plan: Plan, done: Done, *, validate_only: bool) -> None:
        if name and _number(name, "Node id must be an integer, but it is: ") != server.node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {server.node_id}, but received {name}"
            )
        name = name and str(server.node_id)
        changes: Changes = {}

        def planned(current: Mapping[str, str]) -> Changes:
            # Kafka sets this config itself when a cluster is new, so that a request may remove it.
            implied = {} if name else {MIN_INSYNC_REPLICAS: ROWS[MIN_INSYNC_REPLICAS].default}
            changes.update(plan(implied | dict(current)))
            return changes

        def check(after: Mapping[str, str]) -> None:
            dynamic_configs.check(server.config, name, after, changes)

        alter(server.topics, ConfigResourceType.BROKER, name, planned, check, done, validate_only=validate_only)


class _Loggers:
    lists: Mapping[str, str] = {}
    legacy = False
    why_not: WhyNot = staticmethod(not_a_list)

    def names(self, server: Server, advertised: tuple[str, int]) -> list[str]:
        return [str(node.id) for node in server.cluster.nodes(advertised)]

    def describe(self, server: Server, name: str) -> list[ConfigValue]:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        if _number(name, "Broker id must be an integer, but it is: ") != server.node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {server.node_id} but received {name}"
            )
        return logger_levels.describe((audit.LOGGER,))

    def alter(self, server: Server, name: str, plan: Plan, done: Done, *, validate_only: bool) -> None:
        if _number(name, "Node id must be an integer, but it is: ") != server.node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {server.node_id}, but received {name}"
            )
        logger_levels.alter((audit.LOGGER,), plan({}), validate_only=validate_only)
        done(None)


class _Groups:
    lists: Mapping[str, str] = {}
    legacy = True
    why_not: WhyNot = staticmethod(not_a_list)

    def names(self, server: Server, _advertised: tuple[str, int]) -> list[str]:
        return _with_configs(server, ConfigResourceType.GROUP)

    def describe(self, server: Server, name: str) -> list[ConfigValue]:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        registry = server.topics.registry
        own = registry.configs_of(ConfigResourceType.GROUP, name)
        return group_resources.describe(own, server.config.groups, dynamic_configs.layers(registry, server.node_id))

    def alter(self, server: Server, name: str, plan: Plan, done: Done, *, validate_only: bool) -> None:
        def check(after: Mapping[str, str]) -> None:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
            group_configs.check(server.config.groups, after)

        alter(server.topics, ConfigResourceType.GROUP, name, plan, check, done, validate_only=validate_only)


class _ClientMetrics:
    lists: Mapping[str, str] = {}
    legacy = True
    why_not: WhyNot = staticmethod(not_a_list)

    def names(self, server: Server, _advertised: tuple[str, int]) -> list[str]:
        return _with_configs(server, ConfigResourceType.CLIENT_METRICS)

    def describe(self, server: Server, name: str) -> list[ConfigValue]:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return client_metrics.describe(server.topics.registry.configs_of(ConfigResourceType.CLIENT_METRICS, name))

    def alter(self, server: Server, name: str, plan: Plan, done: Done, *, validate_only: bool) -> None:
        check = partial(client_metrics.check, name)
        alter(server.topics, ConfigResourceType.CLIENT_METRICS, name, plan, check, done, validate_only=validate_only)


def _with_configs(server: Server, resource_type: ConfigResourceType) -> list[str]:
    return [name for kind, name in server.topics.registry.other_configs if kind == resource_type]


RESOURCES: dict[int, ConfigResource] = {
    ConfigResourceType.TOPIC: _Topics(),
    ConfigResourceType.BROKER: _Brokers(),
    ConfigResourceType.BROKER_LOGGER: _Loggers(),
    ConfigResourceType.GROUP: _Groups(),
    ConfigResourceType.CLIENT_METRICS: _ClientMetrics(),
}


def config_resource(resource_type: int) -> ConfigResource:
    """Finds a type of resource. Raises INVALID_REQUEST for one that there is not."""
    found = RESOURCES.get(resource_type)
    if found is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")
    return found


def _number(name: str, complaint: str) -> int:
    """The number that Java's `Integer.parseInt` reads."""
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", name, re.ASCII) or not -INT_MAX - 1 <= int(name) <= INT_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, complaint + name)
    return int(name)


def is_of_groups(request: Any) -> bool | None:
    """Whether a request for configs is about groups; None: about groups and other resources."""
    kinds = {resource.resource_type == ConfigResourceType.GROUP for resource in request.resources}
    return None if len(kinds) > 1 else True in kinds
