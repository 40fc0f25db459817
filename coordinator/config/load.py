"""Reads the configuration of a server from a file, the environment and the command line.

    built-in defaults  <  the file (--config)  <  the environment  <  --set key=value  <  a flag (--listen, --data-dir ...)

The later source wins. Whatever is wrong is refused before the server creates anything: an unknown name, a wrong type, an
impossible value, values that contradict each other, and settings of Kafka features that are not supported yet. To accept
those without effect would mislead. The file is read strictly: `"4"` is not a number, and a key that occurs twice is an
error. settings.py has the table of all settings; show.py prints `config/default.yaml` from it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from coordinator.config.access_control import STANDARD_AUTHORIZER, AccessControlConfig
from coordinator.config.environment import FLAG_VARIABLES, read_flags, read_settings, without_effect
from coordinator.config.inter_broker import NoInterBrokerListener, inter_broker_listener, login_mechanism
from coordinator.config.kafka_settings import INSTEAD, NOT_YET, ONLY_VALUE, WITHOUT_EFFECT
from coordinator.config.loopback import is_loopback
from coordinator.config.overlay import why_impossible
from coordinator.config.parsers import POSITIVE, Secret
from coordinator.config.security import (
    LISTENER_PREFIX,
    PLAINTEXT,
    SECURITY_PROTOCOLS,
    listener_key,
    listener_security,
    read_protocol_map,
    why_insecure,
)
from coordinator.config.settings import (
    AREAS,
    SETTINGS,
    STRUCTURED,
    AdminConfig,
    DeclaredTopic,
    ListenerConfig,
    ServerConfig,
    value_of,
)
from coordinator.protocol.releases import NEWEST, releases
from coordinator.protocol.schema import dialects
from coordinator.topics.names import why_invalid


class ConfigError(ValueError):
    """A setting is refused. The text is one line: the key, the value, its source and what is allowed."""


class Loaded(NamedTuple):
    """A configuration, and for each setting that a source has set the last of them: a file, a variable, --set or a flag."""

    config: ServerConfig
    sources: Mapping[str, str]


def load(
    file: Path | None = None,
    assignments: Sequence[str] = (),
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> ServerConfig:
    """The configuration that results from all sources.

    `assignments` are the texts of `--set`; `flags` can have listen, advertise, admin, data_dir and journal. Raises ConfigError.
    """
    return load_with_sources(file, assignments, flags, environment).config


def load_with_sources(
    file: Path | None,
    assignments: Sequence[str],
    flags: Mapping[str, str] | None,
    environment: Mapping[str, str] | None,
) -> Loaded:
    """Like `load`, with the source of each setting. Raises ConfigError."""
    values = _read(file, assignments, flags or {}, environment or {})
    config = _build(values)
    _check_together(config)
    return Loaded(config, values.sources)


def load_admin(
    file: Path | None, assignments: Sequence[str], flags: Mapping[str, str], environment: Mapping[str, str]
) -> AdminConfig:
    """The configuration of the admin HTTP server by itself. Raises ConfigError.

    A health check has the environment of a container, which may not name the address for clients: Testcontainers' modules give
    it to the server alone, when they know it.
    """
    return _build(_read(file, assignments, flags, environment)).admin


def _read(
    file: Path | None, assignments: Sequence[str], flags: Mapping[str, str], environment: Mapping[str, str]
) -> "_Values":
    """The values of all sources, each checked by itself."""
    values = _Values()
    if file is not None:
        for key, value in read_file(file).items():
            values.set(key, _checked(key, value, is_text=False, source=str(file)), str(file))
    try:
        for variable, key, text in read_settings(environment, [*SETTINGS, *STRUCTURED, *ONLY_VALUE]):
            values.set(key, _checked(key, text, is_text=True, source=variable), variable)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from error
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set {shown(assignment)}: allowed: key=value")
        values.set(key.strip(), _checked(key.strip(), text, is_text=True, source="--set"), "--set")
    _apply_flags(values, read_flags(environment), {flag: name for name, flag in FLAG_VARIABLES.items()})
    _apply_flags(values, flags, {})
    return values


class _Values(dict[str, Any]):
    """Checked values by setting, with the source of each."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: dict[str, str] = {}

    def set(self, key: str, value: Any, source: str) -> None:
        self[key] = value
        self.sources[key] = source


def ineffective_variables(environment: Mapping[str, str]) -> list[str]:
    """The variables that look like settings of this server or of Kafka's images but have no effect, each with advice."""
    return without_effect(environment, [*SETTINGS, *STRUCTURED, *ONLY_VALUE], INSTEAD)


def read_file(path: Path) -> dict[str, Any]:
    """The settings in the file, not checked yet. Raises ConfigError if the file is not a mapping of names to values."""
    import yaml  # noqa: PLC0415 - slow to import, and a start without a file does not need it

    # YAML's safe subset, with the parser in C if it is there. Unlike in plain YAML, a key that occurs twice is an error.
    loader_class: Any = type("UniqueKeys", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise ConfigError(f"{path}: key {shown(key)}: allowed: a setting's name")
            if key in found:
                raise ConfigError(f"{path}: {key} occurs twice (line {key_node.start_mark.line + 1})")
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    loader_class.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), loader_class)  # noqa: S506 - it is a SafeLoader
    except OSError as error:
        raise ConfigError(f"--config {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: allowed: `key: value` lines")
    return content


def shown(value: Any) -> str:
    """A value for an error message: one line of at most 80 characters."""
    text = value if isinstance(value, str) and value and value.isprintable() and " " not in value else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _refuse(key: str, value: Any, source: str, allowed: str) -> NoReturn:
    if _is_secret(key):
        raise ConfigError(f"{key} ({source}): allowed: {allowed}")
    raise ConfigError(f"{key} = {shown(value)} ({source}): allowed: {allowed}")


def _is_secret(key: str) -> bool:
    """Whether the value of a setting must not be shown, not even in an error."""
    parts = listener_key(key)
    setting = SETTINGS.get(key if parts is None else parts.setting)
    return setting is not None and isinstance(setting.parse.read("", True), Secret)


def _checked(key: str, value: Any, *, is_text: bool, source: str) -> Any:
    prefixed = listener_key(key) if key.startswith(LISTENER_PREFIX) else None
    setting = SETTINGS.get(key if prefixed is None else prefixed.setting)
    if setting is not None:
        parsed = setting.parse.read(value, is_text)
        if parsed is None:
            _refuse(key, value, source, setting.allowed)
        return parsed
    if key in STRUCTURED:
        if key in {"listeners", "topics"} and is_text and value.lstrip()[:1] in {"[", "{"}:
            value = _flow(key, value, source)
        return _STRUCTURED_READERS[key](value, source)
    _refuse_unknown(key, value, is_text, source)
    return None


def _refuse_unknown(key: str, value: Any, is_text: bool, source: str) -> None:
    """Raises ConfigError, unless this is the only value that the setting can have here."""
    if key in ONLY_VALUE:
        only, why = ONLY_VALUE[key]
        if type(value) in {int, str} and value == (str(only) if is_text else only):
            return
        _refuse(key, value, source, f"{only}, because {why}")
    if key in INSTEAD:
        raise ConfigError(f"{key} = {shown(value)} ({source}): not a setting of this server; use {INSTEAD[key]}")
    for prefix, feature in NOT_YET.items():
        if key.startswith(prefix):
            raise ConfigError(f"{key} = {shown(value)} ({source}): {feature}: not supported yet; remove the setting")
    for prefix, why in WITHOUT_EFFECT.items():
        if key.startswith(prefix):
            raise ConfigError(f"{key} = {shown(value)} ({source}): no effect here, because {why}; remove the setting")
    import difflib  # noqa: PLC0415 - needed for the error only

    known = [*SETTINGS, *STRUCTURED]
    close = difflib.get_close_matches(key.replace("_", ".").lower(), known, n=1, cutoff=0.75)
    hint = f"; did you mean {close[0]}?" if close else "; `coordinator config list` lists all settings"
    raise ConfigError(f"{shown(key)} = {shown(value)} ({source}): no such setting{hint}")


def _flow(key: str, text: str, source: str) -> Any:
    import yaml  # noqa: PLC0415 - needed for such values only

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        _refuse(key, text, source, STRUCTURED[key].allowed)


def address(key: str, value: Any, source: str, *, lowest_port: int = 0) -> tuple[str, int]:
    """The host and port of "host:port", with IPv6 in brackets. Raises ConfigError."""
    text = value.removeprefix("PLAINTEXT://") if isinstance(value, str) else ""
    match = re.fullmatch(r"(\[[0-9a-fA-F:.%a-z]+\]|[^\s:/\[\]]+):([0-9]{1,5})", text)
    if match is None or not lowest_port <= int(match[2]) <= 65535:
        _refuse(key, value, source, f"HOST:PORT with a port from {lowest_port} to 65535")
    return match[1].strip("[]"), int(match[2])


def _read_listeners(value: Any, source: str) -> tuple[ListenerConfig, ...]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if not isinstance(value, list) or not value:
        _refuse("listeners", value, source, STRUCTURED["listeners"].allowed)
    return tuple(_read_listener(entry, source) for entry in value)


def _read_listener(entry: Any, source: str) -> ListenerConfig:
    if isinstance(entry, str):
        entry = {"address": entry}
    if not isinstance(entry, dict) or "address" not in entry or entry.keys() - _LISTENER_FIELDS:
        _refuse("listeners", entry, source, STRUCTURED["listeners"].allowed)
    entry = {**entry}
    name, separator, rest = str(entry["address"]).partition("://")
    if separator:
        entry["address"] = rest
        entry.setdefault("name", name)
    name = entry.get("name", PLAINTEXT)
    if not isinstance(name, str) or re.fullmatch(r"[A-Za-z0-9_.-]+", name) is None:
        _refuse("listeners: name", name, source, "letters, digits and . _ -")
    dialect = entry.get("dialect")
    if dialect is not None and dialect not in (known := dialects()):
        _refuse("listeners: dialect", dialect, source, " or ".join(known))
    emulate = None if entry.get("emulate") is None else str(entry["emulate"])
    if emulate is not None and emulate not in (offered := (NEWEST, *releases())):
        _refuse("listeners: emulate", emulate, source, " or ".join(offered))
    host, port = address("listeners: address", entry["address"], source)
    advertised: tuple[str | None, int | None] = (None, None)
    if entry.get("advertise") is not None:
        advertised = address("listeners: advertise", entry["advertise"], source)
    return ListenerConfig(
        host=host,
        port=port,
        advertised_host=advertised[0],
        advertised_port=advertised[1],
        dialect=dialect,
        emulate=emulate,
        name=name.upper(),
    )


_LISTENER_FIELDS = {"address", "advertise", "dialect", "emulate", "name"}


def _read_protocol_map(value: Any, source: str) -> Mapping[str, str]:
    protocols = read_protocol_map(value)
    if protocols is None:
        key = "listener.security.protocol.map"
        _refuse(key, value, source, STRUCTURED[key].allowed)
    return protocols


def _read_topics(value: Any, source: str) -> tuple[DeclaredTopic, ...]:
    if not isinstance(value, list):
        _refuse("topics", value, source, STRUCTURED["topics"].allowed)
    topics = tuple(_read_topic(entry, source) for entry in value)
    for name in (names := [topic.name for topic in topics]):
        if names.count(name) > 1:
            raise ConfigError(f"topics ({source}): {name} occurs twice")
    return topics


def _read_topic(entry: Any, source: str) -> DeclaredTopic:
    if not isinstance(entry, dict) or "name" not in entry or entry.keys() - {"name", "partitions", "configs"}:
        _refuse("topics", entry, source, STRUCTURED["topics"].allowed)
    name, partitions, configs = entry["name"], entry.get("partitions", 1), entry.get("configs") or {}
    if not isinstance(name, str) or why_invalid(name) is not None or name.startswith("__"):
        _refuse(
            "topics: name",
            name,
            source,
            "1 to 249 of the characters a-z A-Z 0-9 . _ -, except . and .. and names with __ in front",
        )
    if POSITIVE.read(partitions, False) is None:
        _refuse(f"topics: partitions of {name}", partitions, source, POSITIVE.allowed)
    if not isinstance(configs, dict) or not all(isinstance(key, str) for key in configs):
        _refuse(f"topics: configs of {name}", configs, source, "{key: value}")
    return DeclaredTopic(name=name, partitions=partitions, configs={key: _as_kafka(configs[key]) for key in configs})


def _as_kafka(value: Any) -> str:
    """The value of a topic config as Kafka's tools send it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_admin_listener(value: Any, source: str) -> tuple[str, int]:
    return address("admin.listener", value, source)


_STRUCTURED_READERS: dict[str, Callable[[Any, str], Any]] = {
    "listeners": _read_listeners,
    "admin.listener": _read_admin_listener,
    "topics": _read_topics,
    "listener.security.protocol.map": _read_protocol_map,
}


def _apply_flags(values: _Values, flags: Mapping[str, str], names: Mapping[str, str]) -> None:
    """Sets the values of flags; --listen and --advertise are for the first listener.

    `names` has the source of a flag, for error messages, if it did not come from the command line.
    """
    source = {flag: names.get(flag, f"--{flag.replace('_', '-')}") for flag in flags}
    for flag, key in (
        ("data_dir", "log.dir"), ("journal", "journal"), ("workers", "workers"), ("nodes", "nodes"),
        ("emulate", "emulate"),
        ("admin", "admin.listener"),
    ):  # fmt: skip
        if flag in flags:
            values.set(key, _checked(key, flags[flag], is_text=True, source=source[flag]), source[flag])
    if "listen" not in flags and "advertise" not in flags:
        return
    first, *others = values.get("listeners", (ListenerConfig(),))
    host, port, advertised = first.host, first.port, (first.advertised_host, first.advertised_port)
    if "listen" in flags:
        host, port = address("listeners", flags["listen"], source["listen"])
    if "advertise" in flags:
        advertised = address("listeners", flags["advertise"], source["advertise"])
    changed = replace(first, host=host, port=port, advertised_host=advertised[0], advertised_port=advertised[1])
    used = [source[flag] for flag in ("listen", "advertise") if flag in flags]
    values.set("listeners", (changed, *others), " and ".join([*_earlier(values), *used]))


def _earlier(values: _Values) -> list[str]:
    """The source of the listeners that flags change only in part."""
    return [values.sources["listeners"]] if "listeners" in values.sources else []


def _build(values: Mapping[str, Any]) -> ServerConfig:
    release = releases().get(values.get("emulate", NEWEST))
    if release is not None:
        protocols = values.get("group.coordinator.rebalance.protocols", ())
        values = {**release.configured(protocols).defaults, **values}

    def area(kind: type) -> dict[str, Any]:
        return {
            setting.field_name: values[name]
            for name, setting in SETTINGS.items()
            if setting.area is kind and name in values
        }

    areas = {
        AREAS[kind]: kind(**area(kind)) for kind in {setting.area for setting in SETTINGS.values()} - {ServerConfig}
    }
    if "admin.listener" in values:
        host, port = values["admin.listener"]
        areas["admin"] = replace(areas["admin"], host=host, port=port)
    return ServerConfig(
        **area(ServerConfig),
        **areas,
        listeners=tuple(_secured(listener, values) for listener in values.get("listeners", (ListenerConfig(),))),
        declared_topics=values.get("topics", ()),
    )


def _secured(listener: ListenerConfig, values: Mapping[str, Any]) -> ListenerConfig:
    """The listener with its security."""
    name = listener.name
    # A name that is no protocol and has none is PLAINTEXT; Kafka refuses it.
    own = name if name in SECURITY_PROTOCOLS else PLAINTEXT
    protocol = values.get("listener.security.protocol.map", {}).get(name, own)
    prefixed = {listener_key(key) or key: value for key, value in values.items()}
    return replace(listener, security=listener_security(name, protocol, prefixed))


def _check_security(config: ServerConfig) -> None:
    names = [listener.name for listener in config.listeners]
    for listener in config.listeners:
        why = why_insecure(listener.name, listener.security)
        if why is not None:
            raise ConfigError(f"listener {listener.name} ({listener.security.protocol}): {why}")
        if listener.security.protocol != PLAINTEXT and names.count(listener.name) > 1:
            raise ConfigError(f"listeners: {listener.name} occurs twice; give each listener a name of its own")


def _check_access_control(config: AccessControlConfig) -> None:
    if config.super_users and not config.authorizer_class_name:
        raise ConfigError(
            "super.users: without an authorizer everyone may do everything;"
            f" set authorizer.class.name = {STANDARD_AUTHORIZER} or remove super.users"
        )


def _check_shared(config: ServerConfig) -> None:
    shared, overlay = config.shared, config.overlay
    if config.nodes > 1 and (shared.workers or shared.journal or overlay.data_bootstrap_servers):
        raise ConfigError(
            "nodes: several brokers are in one process; remove workers, journal and data.bootstrap.servers"
        )
    if overlay.data_bootstrap_servers and (
        config.emulate != NEWEST or any(listener.emulate for listener in config.listeners)
    ):
        raise ConfigError("emulate: clients see the releases of the cluster; remove emulate or data.bootstrap.servers")
    if shared.workers:
        _check_workers(config)
    if shared.journal or shared.workers:
        try:
            login_mechanism(config, inter_broker_listener(config))
        except NoInterBrokerListener as error:
            raise ConfigError(str(error)) from error
    if overlay.data_bootstrap_servers:
        _check_overlay(config)
    elif shared.data_plane != "local" and not (shared.journal or shared.workers):
        raise ConfigError(
            f"data.plane = {shared.data_plane}: without an engine it must be local; set journal, or"
            " data.bootstrap.servers"
        )
    why = why_impossible(overlay)
    if why is not None:
        raise ConfigError(why)


def _check_workers(config: ServerConfig) -> None:
    workers, log = config.shared.workers, config.log
    if config.shared.journal:
        raise ConfigError(
            "workers and journal: workers of one machine have the journal in their data folder; set one of them"
        )
    if config.overlay.data_bootstrap_servers:
        raise ConfigError(
            "workers and data.bootstrap.servers: several workers in front of a cluster share a journal; remove workers, and"
            " give each the same journal, postgresql:// or kafka://"
        )
    shards = min(log.offsets_topic_num_partitions, log.transaction_state_log_num_partitions)
    if workers > shards:
        raise ConfigError(
            f"workers = {workers}: allowed: at most {shards}, the smaller one of offsets.topic.num.partitions and"
            " transaction.state.log.num.partitions"
        )


def _check_overlay(config: ServerConfig) -> None:
    if config.shared.data_plane != "none":
        raise ConfigError("data.bootstrap.servers: the topics are on that cluster; set data.plane = none")
    if len(config.listeners) > 1:
        raise ConfigError(
            "data.bootstrap.servers: clients find one address of each broker, so there must be one listener"
        )
    if config.declared_topics:
        raise ConfigError("topics: with data.bootstrap.servers the cluster has the topics; create them there")
    if config.access_control.authorizer_class_name:
        raise ConfigError(
            "authorizer.class.name: with data.bootstrap.servers the cluster's authorizer decides about topics and sees one"
            " account; remove the setting"
        )
    if config.shared.journal and not config.overlay.data_listener_port:
        raise ConfigError("data.listener.port: several workers must listen on the same ports for the cluster's brokers")


def _check_admin(admin: AdminConfig) -> None:
    credentials = admin.admin_token or admin.admin_token_file or admin.admin_ssl_truststore_location
    if not is_loopback(admin.host) and not credentials and admin.admin_anonymous == "none":
        raise ConfigError(
            f"admin.listener: {admin.host} is not loopback, so other machines can reach it: set admin.token,"
            " admin.token.file or admin.ssl.truststore.location, or say by admin.anonymous = read or all what strangers may do"
        )
    if admin.admin_token and admin.admin_token_file:
        raise ConfigError("set admin.token or admin.token.file, not both")
    if admin.admin_ssl_truststore_location and not admin.admin_ssl_keystore_location:
        raise ConfigError(
            "admin.ssl.truststore.location: client certificates need TLS; set admin.ssl.keystore.location"
        )


def _check_together(config: ServerConfig) -> None:
    """Refuses values that are possible alone but not together. Raises ConfigError."""
    _at_most(config, "group.min.session.timeout.ms", "group.max.session.timeout.ms")
    if config.groups.group_rebalance_interval_ms:
        _at_most(config, "group.min.rebalance.interval.ms", "group.rebalance.interval.ms")
    for kind in ("group.consumer", "group.streams", "group.share"):
        for what in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
            _at_most(config, f"{kind}.min.{what}", f"{kind}.{what}")
            _at_most(config, f"{kind}.{what}", f"{kind}.max.{what}")
        _at_most(config, f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms", or_equal=False)
    for what in ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"):
        _at_most(config, f"group.share.min.{what}", f"group.share.{what}")
        _at_most(config, f"group.share.{what}", f"group.share.max.{what}")
    _at_most(config, "group.streams.num.standby.replicas", "group.streams.max.standby.replicas")
    _at_most(config, "group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms")
    for listener in config.listeners:
        if listener.host in {"0.0.0.0", "::"} and listener.advertised_host is None:  # noqa: S104 - refused here
            raise ConfigError(
                f"listeners = {listener.host}:{listener.port}: clients cannot connect to that address; "
                "add `advertise: HOST:PORT` (or --advertise), the address for clients"
            )
        if listener.advertised_host in {"0.0.0.0", "::"}:  # noqa: S104 - refused here
            raise ConfigError(
                f"advertise = {listener.advertised_host}:{listener.advertised_port}: "
                "allowed: an address that clients can connect to"
            )
    _check_security(config)
    _check_access_control(config.access_control)
    _check_shared(config)
    _check_admin(config.admin)
    taken = [(listener.host, listener.port) for listener in config.listeners] + [(config.admin.host, config.admin.port)]
    for host, port in taken:
        if port and taken.count((host, port)) > 1:
            raise ConfigError(f"listeners and admin.listener: {host}:{port} is used twice; give each its own address")


def _at_most(config: ServerConfig, small: str, large: str, *, or_equal: bool = True) -> None:
    value, most = value_of(config, small), value_of(config, large)
    if value > most or (value == most and not or_equal):
        raise ConfigError(f"{small} = {value}: allowed: {'at most' if or_equal else 'less than'} {large} ({most})")
