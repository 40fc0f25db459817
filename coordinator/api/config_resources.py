"""The resources that have configs: one entry of `RESOURCES` for each type that clients may describe and alter.

    TOPIC          its own configs, and the server's where it has none; altered at once and kept (topics/topic_settings.py)
    BROKER         the server's settings, read-only (api/broker_configs.py): they come from a file, the environment and the
                   command line, and do not change while it runs. Altering one is refused, as Kafka refuses it for a config
                   that is not dynamic
    BROKER_LOGGER  the levels of the server's loggers; altered at once, and lost with the process
    GROUP          its own configs, whether or not the group exists, and the server's where it has none; kept
                   (groups/group_configs.py)

DescribeConfigs, ListConfigResources, IncrementalAlterConfigs and AlterConfigs know of the types only what stands in this table.
Types that Kafka has and this server lacks are refused with INVALID_REQUEST and a message.
"""

import logging
import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol

from coordinator.api import broker_configs
from coordinator.api.server import Server
from coordinator.config.parsers import INT_MAX
from coordinator.groups import group_configs
from coordinator.groups.group_configs import GROUP_CONFIGS, GroupConfig
from coordinator.groups.settings import GroupsConfig
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.security import audit
from coordinator.security.access import Access, AclOperation, ResourceType
from coordinator.security.authorizer import CLUSTER_NAME
from coordinator.topics import names, topic_settings
from coordinator.topics.alter_configs import Done, Plan, alter, alter_topic
from coordinator.topics.topic_settings import SOURCE_DEFAULT, SOURCE_STATIC_BROKER, ConfigValue, Kind, Synonym

_SOURCE_LOGGER = 6
_SOURCE_GROUP = 8
_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_LEVEL_NAMES = {level: name for name, level in _LEVELS.items()}
_ROOT = "root"


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

    def names(self, server: Server) -> list[str]:
        """The names of the resources with configs: all topics; of groups those with configs of their own."""

    def describe(self, server: Server, name: str) -> list[ConfigValue]:
        """All configs of the resource of this name."""

    def alter(self, server: Server, name: str, plan: Plan, done: Done, *, validate_only: bool) -> None:
        """Alters configs. Calls `done(None)` once the change is in force, or `done(error)`, at once or later."""


class _Topics:
    lists: Mapping[str, str] = topic_settings.LISTS
    legacy = True

    def names(self, server: Server) -> list[str]:
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

    def names(self, server: Server) -> list[str]:
        return [str(server.node_id)]

    def describe(self, server: Server, name: str) -> list[ConfigValue]:
        if not name:
            return broker_configs.describe_cluster()
        if _number(name, "Broker id must be an integer, but it is: ") != server.node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {server.node_id} or empty string, but received {name}",
            )
        return broker_configs.describe(server)

    def alter(self, server: Server, name: str, plan: Plan, done: Done, *, validate_only: bool) -> None:  # noqa: ARG002
        if name and _number(name, "Node id must be an integer, but it is: ") != server.node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {server.node_id}, but received {name}"
            )
        fixed = [setting for setting, value in plan({}).items() if value is not None]
        if fixed:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
            )
        done(None)


class _Loggers:
    lists: Mapping[str, str] = {}
    legacy = False

    def names(self, server: Server) -> list[str]:
        return [str(server.node_id)]

    def describe(self, server: Server, name: str) -> list[ConfigValue]:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        if _number(name, "Broker id must be an integer, but it is: ") != server.node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {server.node_id} but received {name}"
            )
        return [
            ConfigValue(logger, _LEVEL_NAMES.get(_logger(logger).getEffectiveLevel(), "INFO"), _SOURCE_LOGGER)
            for logger in _loggers()
        ]

    def alter(self, server: Server, name: str, plan: Plan, done: Done, *, validate_only: bool) -> None:
        if _number(name, "Node id must be an integer, but it is: ") != server.node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {server.node_id}, but received {name}"
            )
        changes = plan({})
        for logger, level in changes.items():
            _check_level(logger, level)
        if not validate_only:
            for logger, level in changes.items():
                _logger(logger).setLevel(logging.NOTSET if level is None else _LEVELS[level])
        done(None)


class _Groups:
    lists: Mapping[str, str] = {}
    legacy = True

    def names(self, server: Server) -> list[str]:
        return [name for kind, name in server.topics.registry.other_configs if kind == ConfigResourceType.GROUP]

    def describe(self, server: Server, name: str) -> list[ConfigValue]:
        _check_group_id(name)
        own = server.topics.registry.configs_of(ConfigResourceType.GROUP, name)
        return [
            _group_setting(row, own.get(row.name), server.config.groups)
            for row in GROUP_CONFIGS.values()
            if row.name in own or not row.is_internal
        ]

    def alter(self, server: Server, name: str, plan: Plan, done: Done, *, validate_only: bool) -> None:
        def check(after: Mapping[str, str]) -> None:
            _check_group_id(name)
            group_configs.check(server.config.groups, after)

        alter(server.topics, ConfigResourceType.GROUP, name, plan, check, done, validate_only=validate_only)


RESOURCES: dict[int, ConfigResource] = {
    ConfigResourceType.TOPIC: _Topics(),
    ConfigResourceType.BROKER: _Brokers(),
    ConfigResourceType.BROKER_LOGGER: _Loggers(),
    ConfigResourceType.GROUP: _Groups(),
}


def config_resource(resource_type: int) -> ConfigResource:
    """Finds a type of resource. Raises INVALID_REQUEST for one that this server lacks."""
    found = RESOURCES.get(resource_type)
    if found is None:
        known = resource_type in set(ConfigResourceType)
        name = ConfigResourceType(resource_type).name if known else str(resource_type)
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {name}")
    return found


def _number(name: str, complaint: str) -> int:
    """The number that Java's `Integer.parseInt` reads."""
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", name, re.ASCII) or not -INT_MAX - 1 <= int(name) <= INT_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, complaint + name)
    return int(name)


def _check_group_id(name: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")


def _group_setting(row: GroupConfig, own: str | None, config: GroupsConfig) -> ConfigValue:
    inherited = row.server_value(config)
    original = row.server_value(GroupsConfig())
    synonyms = [Synonym(row.name, own, _SOURCE_GROUP)] if own is not None else []
    if inherited != original:
        synonyms.append(Synonym(row.server_name, inherited, SOURCE_STATIC_BROKER))
    synonyms.append(Synonym(row.server_name, original, SOURCE_DEFAULT))
    value = inherited if own is None else own
    return ConfigValue(row.name, value, synonyms[0].source, Kind(row.kind), row.about, tuple(synonyms))


def _loggers() -> list[str]:
    """The root logger, and every logger of this server that has been used, with that of the audit log."""
    ours = __name__.partition(".")[0]
    known = logging.root.manager.loggerDict
    return [_ROOT, *sorted(name for name in known if name in (ours, audit.LOGGER) or name.startswith(f"{ours}."))]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == _ROOT else name)


def _check_level(logger: str, level: str | None) -> None:
    if logger not in _loggers():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {logger} does not exist!")
    if level is None and logger == _ROOT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    if level is not None and level not in _LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {logger} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(_LEVELS))}",
        )
