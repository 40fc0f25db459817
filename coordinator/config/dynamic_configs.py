"""Settings of the server that clients change while it runs (KIP-226; Kafka: `DynamicBrokerConfig`).

A value of the broker comes before one of the cluster (the resource BROKER without a name), and that before the configuration:

    DYNAMIC_BROKER_CONFIG  >  DYNAMIC_DEFAULT_BROKER_CONFIG  >  STATIC_BROKER_CONFIG  >  DEFAULT_CONFIG

Dynamic are the settings that are in Kafka. Those that this server has apply at once (`effective`); so do the defaults of topic
settings. Others are kept and shown, but have no effect here, as with topic settings. Names that nobody knows are kept as in
Kafka, where plugins may read them, and their values are not shown. What the server reads once stays as the configuration has
it, and so do its settings of TLS, SASL and listeners, which only Kafka can change: a change is refused in Kafka's words.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from coordinator.config.kafka_settings import INSTEAD, NOT_YET, ONLY_VALUE, WITHOUT_EFFECT
from coordinator.config.settings import AREAS, SETTINGS, STRUCTURED, ServerConfig, value_of
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.java import hash_map_order, parse_long
from coordinator.topics.config import Layers, TopicsConfig
from coordinator.topics.registry import Registry
from coordinator.topics.topic_settings import (
    MIN_INSYNC_REPLICAS,
    ROWS,
    SOURCE_BROKER,
    SOURCE_CLUSTER,
    Kind,
    boolean,
    number,
)
from coordinator.transactions.settings import TransactionsConfig

RESOURCE_TYPE = 4
"""Kafka's number for the resource type BROKER."""
CLUSTER = ""
"""The name of the resource whose settings are those of all brokers."""
_LISTENER_PREFIX = "listener.name."


class Dynamic(NamedTuple):
    """A setting that can change. `why_invalid(value)` returns the reason in Kafka's words, None for a valid value."""

    kind: Kind
    why_invalid: Callable[[str], str | None]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _numbers(kind: Kind, least: int | None, names: str) -> dict[str, Dynamic]:
    return dict.fromkeys(_names(names), Dynamic(kind, number(kind.name, least)))


def _of(kind: Kind, why_invalid: Callable[[str], str | None], names: str) -> dict[str, Dynamic]:
    return dict.fromkeys(_names(names), Dynamic(kind, why_invalid))


def _double(text: str) -> str | None:
    try:
        float(text)
    except ValueError:
        return "Not a number of type DOUBLE"
    return None


_OF_ONE_BROKER = {
    **_numbers(Kind.LONG, None, "sasl.kerberos.min.time.before.relogin"),
    **_numbers(Kind.SHORT, None, "sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds"),
    **_of(
        Kind.DOUBLE,
        _double,
        "sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.window.factor "
        "sasl.login.refresh.window.jitter",
    ),
    **_of(
        Kind.STRING,
        lambda _: None,
        "sasl.kerberos.kinit.cmd sasl.kerberos.service.name ssl.endpoint.identification.algorithm ssl.keymanager.algorithm "
        "ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm",
    ),
    **_of(Kind.LIST, lambda _: None, "sasl.kerberos.principal.to.local.rules"),
}
"""The settings that Kafka changes for a broker, not for the cluster, and that have no effect here: Kerberos, Java's TLS."""
DYNAMIC: Mapping[str, Dynamic] = {
    **{row.synonym: Dynamic(row.kind, row.why_invalid) for row in ROWS.values() if row.synonym},
    **_numbers(
        Kind.INT,
        0,
        "group.consumer.assignment.interval.ms group.share.assignment.interval.ms group.streams.assignment.interval.ms "
        "log.cleaner.io.buffer.size log.cleaner.threads max.connection.creation.rate max.connections max.connections.per.ip",
    ),
    **_numbers(
        Kind.INT,
        1,
        "background.threads num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers "
        "producer.id.expiration.ms remote.fetch.max.wait.ms remote.log.manager.copier.thread.pool.size "
        "remote.log.manager.expiration.thread.pool.size remote.log.manager.follower.thread.pool.size remote.log.reader.threads",
    ),
    **_numbers(
        Kind.INT, 524_288, "group.coordinator.cached.buffer.max.bytes share.coordinator.cached.buffer.max.bytes"
    ),
    **_numbers(
        Kind.LONG,
        None,
        "log.cleaner.dedupe.buffer.size log.flush.interval.ms log.retention.bytes log.retention.ms log.roll.jitter.ms "
        "log.roll.ms",
    ),
    **_numbers(
        Kind.LONG,
        0,
        "follower.replication.throttled.rate leader.replication.throttled.rate log.cleaner.backoff.ms "
        "replica.alter.log.dirs.io.max.bytes.per.second",
    ),
    **_numbers(
        Kind.LONG,
        1,
        "remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes "
        "remote.log.manager.copy.max.bytes.per.second remote.log.manager.fetch.max.bytes.per.second",
    ),
    "max.decompressed.message.bytes": Dynamic(Kind.INT, number("INT", 1, 2_147_483_639)),
    **_of(Kind.DOUBLE, _double, "log.cleaner.io.buffer.load.factor log.cleaner.io.max.bytes.per.second"),
    **_of(
        Kind.BOOLEAN,
        boolean,
        "errors.deadletterqueue.auto.create.topics.enable follower.fetch.last.tiered.offset.enable "
        "group.consumer.assignor.offload.enable group.share.assignor.offload.enable group.streams.assignor.offload.enable "
        "transaction.partition.verification.enable",
    ),
    **_of(Kind.STRING, lambda _: None, "errors.deadletterqueue.topic.name.prefix max.connections.per.ip.overrides"),
    **_of(Kind.LIST, lambda _: None, "config.providers metric.reporters"),
    **_OF_ONE_BROKER,
}
"""The settings that clients can change, with Kafka's types and ranges."""

_KEYSTORES = _names(
    "ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password "
    "ssl.keystore.type ssl.truststore.certificates ssl.truststore.location ssl.truststore.password "
    "ssl.truststore.type"
)
"""Kafka changes them for a listener only."""
_FIXED_OF_ONE_BROKER = _names(
    "cordoned.log.dirs listener.security.protocol.map listeners principal.builder.class sasl.enabled.mechanisms "
    "sasl.jaas.config sasl.mechanism.inter.broker.protocol ssl.cipher.suites ssl.client.auth ssl.enabled.protocols ssl.protocol"
)
"""Kafka changes these, too, for a broker, not for the cluster. Here they stay as the configuration has them."""
_POSITIVE = ("max.connections", "max.connection.creation.rate")
_BOUNDED = ("group.consumer", "group.share", "group.streams")
"""Prefixes of settings whose value must be within bounds that the configuration has."""


def layers(registry: Registry, node_id: int) -> Layers:
    """The settings that clients have set for this broker, and those for the cluster; the first have precedence."""
    return (
        (SOURCE_BROKER, registry.configs_of(RESOURCE_TYPE, str(node_id))),
        (SOURCE_CLUSTER, registry.configs_of(RESOURCE_TYPE, CLUSTER)),
    )


def check(config: ServerConfig, name: str, after: Mapping[str, str], changes: Mapping[str, str | None]) -> None:
    """Raises KafkaError unless a broker, or the cluster (no name), may have these settings.

    `changes`: what a request changes; None removes. The codes are Kafka's: INVALID_REQUEST, or INVALID_CONFIG.
    """
    fixed = [setting for setting in after if _is_fixed(setting, of_cluster=not name)]
    if fixed:
        raise _invalid(f"Cannot update these configs dynamically: [{', '.join(hash_map_order(fixed))}]")
    keystores = [setting for setting in after if setting in _KEYSTORES]
    if keystores:
        raise _invalid(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(hash_map_order(keystores))}]"
        )
    per_broker = [setting for setting in after if _is_of_one_broker(setting)]
    if per_broker and not name:
        raise _invalid(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(hash_map_order(per_broker))}]"
        )
    for setting, value in after.items():
        if setting in DYNAMIC:
            _check_value(config, setting, value)
    _check_replicas(name, changes)


def not_a_list(operation: str, name: str) -> str:
    """Why APPEND or SUBTRACT to a config of a broker is refused, as Kafka's broker says it."""
    if name not in DYNAMIC and not _is_fixed(name, of_cluster=False):
        return f"Unknown config name: {name}"
    return f"Config value {operation.lower()} is not allowed for config key: {name}"


def _is_of_one_broker(name: str) -> bool:
    return name in _OF_ONE_BROKER or name in _FIXED_OF_ONE_BROKER or name.startswith(_LISTENER_PREFIX)


def _is_fixed(name: str, *, of_cluster: bool) -> bool:
    if name in DYNAMIC or name in _KEYSTORES:
        return False
    if _is_of_one_broker(name):
        return not of_cluster
    known = (*INSTEAD, *NOT_YET, *WITHOUT_EFFECT)
    return name in SETTINGS or name in STRUCTURED or name in ONLY_VALUE or name.startswith(known)


def _check_value(config: ServerConfig, name: str, value: str) -> None:
    kind, why_invalid = DYNAMIC[name]
    for each in value.split(",") if kind is Kind.LIST else (value,):
        why = why_invalid(each)
        if why is not None:
            shown = str(float(each)) if kind is Kind.DOUBLE and not why.startswith("Not") else each
            raise _invalid(f"Invalid value {shown} for configuration {name}: {why}")
    if kind not in (Kind.INT, Kind.LONG):
        return
    given = parse_long(value)
    if name == "log.retention.ms" and given == 0:
        raise _invalid("requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    if name == "log.roll.ms" and given is not None and given < 1:
        raise _invalid("requirement failed: log.roll.ms must be greater than or equal to 1")
    if name in _POSITIVE and given == 0:
        raise _invalid(
            f"Invalid value org.apache.kafka.common.config.ConfigException: Invalid {name} 0 for configuration "
            "Invalid dynamic configuration"
        )
    for prefix in _BOUNDED:
        if given is not None and name == f"{prefix}.assignment.interval.ms":
            _check_bounds(config, prefix, name, given)


def _check_bounds(config: ServerConfig, prefix: str, name: str, value: int) -> None:
    low, high = (f"{prefix}.{bound}.assignment.interval.ms" for bound in ("min", "max"))
    if value < value_of(config, low):
        raise _invalid(f"{name} must be greater than or equal to {low}")
    if value > value_of(config, high):
        raise _invalid(f"{name} must be less than or equal to {high}")


def _check_replicas(name: str, changes: Mapping[str, str | None]) -> None:
    """Kafka's rules where eligible leader replicas are enabled, as they are in a new cluster (KIP-966)."""
    if MIN_INSYNC_REPLICAS not in changes:
        return
    if name:
        why = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
    elif changes[MIN_INSYNC_REPLICAS] is None:
        why = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
    else:
        return
    raise KafkaError(ErrorCode.INVALID_CONFIG, why)


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)


_LEAST = {
    "max.connections": 0,
    "max.connections.per.ip": 0,
    "max.connection.creation.rate": 1,
    "log.cleaner.backoff.ms": 1,
    "log.cleaner.delete.retention.ms": 0,
    "errors.deadletterqueue.auto.create.topics.enable": 0,
    "errors.deadletterqueue.topic.name.prefix": 0,
    "group.consumer.assignment.interval.ms": 0,
    "group.share.assignment.interval.ms": 0,
    "group.streams.assignment.interval.ms": 0,
    "producer.id.expiration.ms": 1,
    "transaction.partition.verification.enable": 0,
}
"""The settings that apply at once, with the lower bounds of this server for numbers."""


def effective(config: ServerConfig, of: Layers, transaction_version: int) -> ServerConfig:
    """The configuration with what clients have set. A value outside the range of this server moves to its bound."""
    values = {name: value for _, settings in reversed(of) for name, value in settings.items()}
    changed: dict[type, dict[str, Any]] = {
        TopicsConfig: {"dynamic": of},
        TransactionsConfig: {"transaction_version": transaction_version},
    }
    for name, least in _LEAST.items():
        if name in values:
            setting = SETTINGS[name]
            own = _own_value(setting.default, values[name].strip(), least)
            if own is not None:
                changed.setdefault(setting.area, {})[setting.field_name] = own
    areas = {AREAS[kind]: replace(getattr(config, AREAS[kind]), **fields) for kind, fields in changed.items()}
    return replace(config, **areas)


def _own_value(default: Any, text: str, least: int) -> Any:
    """The value in the type of the default; None if it has none."""
    if isinstance(default, str):
        return text
    if isinstance(default, bool):
        return text.lower() == "true" if text else None
    number = parse_long(text)
    return None if number is None else max(least, number)
