"""The configs of the resource BROKER: what DescribeConfigs answers for this server.

    the server's settings                     value, default and documentation as `config list` shows them
    settings that can have only one value     such as replication factors
    defaults of topic settings                those that only a topic can change; a topic names them as synonyms
    facts under Kafka's names                 node.id, listeners, advertised.listeners ...: clients and tools look for them
    what is always so here                    one thread for groups, no tiered storage ...
    times in Kafka's larger units             log.retention.hours ...: whole hours of log.retention.ms
    what clients have set                     before the values of the configuration (dynamic_configs.py)

Kafka lists its own settings of TLS, SASL, share groups, tiered storage, replication and the quorum too. They have no
meaning here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from coordinator.config.dynamic_configs import DYNAMIC
from coordinator.config.kafka_settings import ONLY_VALUE, WITHOUT_EFFECT
from coordinator.config.parsers import INT_MAX, Secret
from coordinator.config.security import PLAINTEXT
from coordinator.config.settings import SETTINGS, ServerConfig, Setting, absolute_log_dir, joined, value_of
from coordinator.topics import topic_settings
from coordinator.topics.config import Layers
from coordinator.topics.topic_settings import (
    LARGER_UNITS,
    SOURCE_CLUSTER,
    SOURCE_DEFAULT,
    SOURCE_STATIC_BROKER,
    ConfigValue,
    Kind,
    Row,
    Synonym,
    canonical,
)

_KINDS = {
    "group.share.assignors": Kind.LIST,
    "log.cleanup.policy": Kind.LIST,
    "log.dir": Kind.LIST,
    "offsets.topic.replication.factor": Kind.SHORT,
    "share.coordinator.state.topic.min.isr": Kind.SHORT,
    "share.coordinator.state.topic.replication.factor": Kind.SHORT,
    "ssl.keystore.type": Kind.STRING,
    "ssl.truststore.type": Kind.STRING,
    "transaction.state.log.replication.factor": Kind.SHORT,
}
"""Kafka's types, where they do not follow from the default."""
_OF_AUTHORIZER = ("super.users", "allow.everyone.if.no.acl.found")
"""Settings of Kafka's authorizer, whose types its broker does not know: it shows those that are set, without their values."""


class Endpoint(NamedTuple):
    """A listener as configs name it."""

    name: str
    """That of the configuration; of a listener that speaks a dialect, the dialect's name in capitals."""
    bound: tuple[str, int]
    advertised: tuple[str, int]
    """The host and port that clients get."""
    protocol: str = PLAINTEXT
    """The security protocol."""


class Broker(Protocol):
    """The server, as far as its configs show it."""

    @property
    def config(self) -> ServerConfig: ...
    @property
    def node_id(self) -> int: ...
    @property
    def endpoints(self) -> Sequence[Endpoint]: ...


class _Fact(NamedTuple):
    """A config that Kafka reports as set, because it has no default or follows from others here."""

    name: str
    kind: Kind
    value: Callable[[Broker], str]
    about: str


def _protocols(server: Broker) -> str:
    return ",".join(dict.fromkeys(f"{endpoint.name}:{endpoint.protocol}" for endpoint in server.endpoints))


def _bound(server: Broker) -> str:
    return ",".join(f"{endpoint.name}://{joined(*endpoint.bound)}" for endpoint in server.endpoints)


def _advertised(server: Broker) -> str:
    return ",".join(f"{endpoint.name}://{joined(*endpoint.advertised)}" for endpoint in server.endpoints)


def _rack(server: Broker) -> str:
    racks = server.config.nodes_racks
    return racks[(server.node_id - server.config.node_id) % len(racks)]


_FACTS = (
    _Fact("advertised.listeners", Kind.LIST, _advertised, "The addresses that clients get, by listener."),
    _Fact("broker.id", Kind.INT, lambda server: str(server.node_id), "The same as node.id."),
    _Fact("listener.security.protocol.map", Kind.STRING, _protocols, "The security protocol of each listener."),
    _Fact("listeners", Kind.LIST, _bound, "The addresses that the server listens on."),
    _Fact("log.dirs", Kind.LIST, lambda server: absolute_log_dir(server.config), "log.dir as an absolute path."),
    _Fact("node.id", Kind.INT, lambda server: str(server.node_id), SETTINGS["node.id"].documentation),
    _Fact("process.roles", Kind.LIST, lambda _: "broker,controller", "The one node has both roles."),
)
_RACK = _Fact("broker.rack", Kind.STRING, _rack, "Of nodes.racks.")
"""Of a broker that has a rack."""

_CONSTANTS = (
    ("alter.config.policy.class.name", Kind.CLASS, None, WITHOUT_EFFECT["alter.config.policy."]),
    ("broker.rack", Kind.STRING, None, WITHOUT_EFFECT["broker.rack"]),
    ("create.topic.policy.class.name", Kind.CLASS, None, WITHOUT_EFFECT["create.topic.policy."]),
    ("group.coordinator.threads", Kind.INT, "1", WITHOUT_EFFECT["group.coordinator.threads"]),
    ("log.cleaner.enable", Kind.BOOLEAN, "true", "compacted topics are always compacted"),
    ("log.cleaner.threads", Kind.INT, "1", WITHOUT_EFFECT["log.cleaner."]),
    ("log.retention.minutes", Kind.INT, None, "log.retention.ms decides"),
    ("max.connections.per.ip.overrides", Kind.STRING, "", "max.connections.per.ip holds for all addresses"),
    ("metadata.log.dir", Kind.STRING, None, "the metadata is in log.dir"),
    ("num.network.threads", Kind.INT, "1", WITHOUT_EFFECT["num.network.threads"]),
    ("remote.log.storage.system.enable", Kind.BOOLEAN, "false", "there is no tiered storage"),
    ("replica.selector.class", Kind.STRING, None, WITHOUT_EFFECT["replica.selector."]),
    ("transaction.two.phase.commit.enable", Kind.BOOLEAN, "false", "KIP-939 is not supported"),
)
"""Kafka's settings that say something true about this server, though it has no such setting; each with the reason."""

_HOUR_MS = 3_600_000
_LARGER_UNITS = (("log.retention.hours", "log.retention.ms", _HOUR_MS), ("log.roll.hours", "log.roll.ms", _HOUR_MS))
"""Kafka's settings that have another unit, the setting of this server, and its milliseconds per unit."""


def describe(server: Broker, of: Layers) -> list[ConfigValue]:
    """All configs of this broker, sorted by name. `of`: what clients have set."""
    values = {name: _setting(setting, value_of(server.config, name)) for name, setting in SETTINGS.items()}
    values = {name: value for name, value in values.items() if name not in _OF_AUTHORIZER}
    values |= {name: _of_authorizer(name) for name in _OF_AUTHORIZER if _is_set(server, name)}
    fixed = [(name, _KINDS.get(name, Kind.INT), _text(value), why) for name, (value, why) in ONLY_VALUE.items()]
    for name, kind, text, why in (*fixed, *_CONSTANTS):
        values[name] = _default(name, text, kind, f"It can have no other value here, because {why}.")
    values |= {name: _in_larger_unit(server, name, of, unit_ms) for name, of, unit_ms in _LARGER_UNITS}
    for row in _TOPIC_DEFAULTS:
        values[row.synonym] = _default(row.synonym, row.default, row.kind, _about_default(row))
    values |= {fact.name: _fact(server, fact) for fact in (*_FACTS, *([_RACK] if server.config.nodes_racks else ()))}
    for name in {name for _, settings in of for name in settings} - {topic_settings.MIN_INSYNC_REPLICAS}:
        values[name] = _overridden(name, of, values.get(name))
    values[topic_settings.MIN_INSYNC_REPLICAS] = _min_insync_replicas(of, with_default=True)
    return [values[name] for name in sorted(values)]


def describe_cluster(settings: Mapping[str, str]) -> list[ConfigValue]:
    """The configs that hold for all brokers: what clients have set, and one that Kafka sets itself when a cluster is new."""
    of: Layers = ((SOURCE_CLUSTER, settings),)
    values = {name: _overridden(name, of, None, is_shown_as_set=True) for name in settings}
    values[topic_settings.MIN_INSYNC_REPLICAS] = _min_insync_replicas(of, with_default=False)
    return [values[name] for name in sorted(values)]


def _overridden(name: str, of: Layers, below: ConfigValue | None, *, is_shown_as_set: bool = False) -> ConfigValue:
    """A config that clients have set. `below`: what it would be otherwise. The value of an unknown one may be a secret."""
    dynamic = DYNAMIC.get(name)
    places = [Synonym(name, settings[name] if dynamic else None, source) for source, settings in of if name in settings]
    value = places[0].value
    if value is not None and dynamic is not None and not is_shown_as_set:
        value = canonical(dynamic.kind, value)
    if name in LARGER_UNITS and below is not None:
        places.append(Synonym(*LARGER_UNITS[name], SOURCE_DEFAULT))
    if below is not None:
        places += [each for each in below.synonyms if name not in LARGER_UNITS or each.source != SOURCE_DEFAULT]
    return ConfigValue(
        name,
        value,
        places[0].source,
        dynamic.kind if dynamic else 0,
        below.about if below else _about(name),
        tuple(places),
        read_only=dynamic is None,
        is_sensitive=dynamic is None,
    )


def _about(name: str) -> str:
    """The documentation of a dynamic config that is not described otherwise."""
    if name in SETTINGS:
        return SETTINGS[name].documentation
    for row in topic_settings.ROWS.values():
        if row.synonym == name:
            return _about_default(row)
    return "It is kept, and has no effect here." if name in DYNAMIC else ""


def _is_set(server: Broker, name: str) -> bool:
    return bool(value_of(server.config, name) != SETTINGS[name].default)


def _of_authorizer(name: str) -> ConfigValue:
    about, synonyms = SETTINGS[name].documentation, (Synonym(name, None, SOURCE_STATIC_BROKER),)
    return ConfigValue(name, None, SOURCE_STATIC_BROKER, 0, about, synonyms, read_only=True, is_sensitive=True)


def _setting(setting: Setting, value: Any) -> ConfigValue:
    kind = _kind(setting)
    default = Synonym(setting.name, _shown(kind, setting.default), SOURCE_DEFAULT)
    synonyms: tuple[Synonym, ...] = (default,)
    if value != setting.default:
        synonyms = (Synonym(setting.name, _shown(kind, value), SOURCE_STATIC_BROKER), default)
    return ConfigValue(
        setting.name,
        synonyms[0].value,
        synonyms[0].source,
        kind,
        setting.documentation,
        synonyms,
        read_only=setting.name not in DYNAMIC,
        is_sensitive=kind is Kind.PASSWORD,
    )


def _shown(kind: Kind, value: Any) -> str | None:
    """As text; no client gets the value of a secret."""
    return None if kind is Kind.PASSWORD else _text(value)


def _kind(setting: Setting) -> Kind:
    if setting.name in _KINDS:
        return _KINDS[setting.name]
    if isinstance(setting.parse.read("", True), Secret):
        return Kind.PASSWORD
    if isinstance(setting.default, bool):
        return Kind.BOOLEAN
    if isinstance(setting.default, int):
        return Kind.INT if setting.parse.read(INT_MAX + 1, False) is None else Kind.LONG
    return Kind.LIST if isinstance(setting.default, tuple) else Kind.STRING


def _in_larger_unit(server: Broker, name: str, setting: str, unit_ms: int) -> ConfigValue:
    """A time in hours, rounded down; -1, no limit, stays. Kafka reports its own default, whatever the milliseconds are."""
    value_ms: int = value_of(server.config, setting)
    text = str(value_ms if value_ms < 0 else value_ms // unit_ms)
    source = SOURCE_DEFAULT if value_ms == SETTINGS[setting].default else SOURCE_STATIC_BROKER
    synonyms = (Synonym(name, text, source),)
    return ConfigValue(name, text, source, Kind.INT, f"{setting} in another unit.", synonyms, read_only=True)


def _about_default(row: Row) -> str:
    return f"The default of the topic setting {row.name}. {row.about}"


def _default(name: str, value: str | None, kind: Kind, about: str) -> ConfigValue:
    places = (Synonym(name, value, SOURCE_DEFAULT),)
    return ConfigValue(name, value, SOURCE_DEFAULT, kind, about, places, read_only=name not in DYNAMIC)


def _fact(server: Broker, fact: _Fact) -> ConfigValue:
    value = fact.value(server)
    places = (Synonym(fact.name, value, SOURCE_STATIC_BROKER),)
    return ConfigValue(fact.name, value, SOURCE_STATIC_BROKER, fact.kind, fact.about, places, read_only=True)


def _min_insync_replicas(of: Layers, *, with_default: bool) -> ConfigValue:
    row = topic_settings.ROWS[topic_settings.MIN_INSYNC_REPLICAS]
    value = next((settings[row.name] for _, settings in of if row.name in settings), row.default)
    synonyms = [Synonym(row.name, value, SOURCE_CLUSTER), Synonym(row.name, row.default, SOURCE_DEFAULT)]
    return ConfigValue(row.name, value, SOURCE_CLUSTER, row.kind, row.about, tuple(synonyms[: 1 + with_default]))


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


_TOPIC_DEFAULTS = [row for row in topic_settings.ROWS.values() if row.synonym and row.synonym not in SETTINGS]
LISTS = dict.fromkeys(
    [name for name, setting in SETTINGS.items() if _kind(setting) is Kind.LIST]
    + [name for name, dynamic in DYNAMIC.items() if dynamic.kind is Kind.LIST]
    + [fact.name for fact in _FACTS if fact.kind is Kind.LIST]
    + [name for name, kind, _, _ in _CONSTANTS if kind is Kind.LIST],
    "",
) | {row.synonym: row.default for row in topic_settings.ROWS.values() if row.synonym and row.kind is Kind.LIST}
"""The settings of type LIST, with the defaults to which APPEND adds. APPEND and SUBTRACT to others are refused."""
