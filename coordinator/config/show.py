"""Configurations and settings as text for people: the file that `load` reads back, and the page of `config list`."""

import re
from collections.abc import Iterator, Mapping
from textwrap import wrap

from coordinator.config.parsers import INT_MAX, LONG_MAX, Secret
from coordinator.config.security import HIDDEN, PLAINTEXT
from coordinator.config.settings import SETTINGS, STRUCTURED, ServerConfig, Setting, StructuredSetting, joined, value_of

WIDTH = 110
CHANGED = "# Changed by"
"""The beginning of a line about a value that is not the default."""
_LARGER_UNITS = {
    "milliseconds": (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000)),
    "minutes": (("day", 1_440), ("hour", 60)),
    "bytes": (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)),
}

Value = bool | int | str | tuple[str, ...]


def as_yaml(config: ServerConfig, sources: Mapping[str, str] | None = None) -> str:
    """The configuration as a file that `load` reads back, with the documentation of each setting and what is allowed.

    With `sources`, by setting, it says which values are not the default, and where they come from.
    """
    original = ServerConfig()
    changed = {
        "listeners": config.listeners != original.listeners,
        "listener.security.protocol.map": _protocol_map(config) != _protocol_map(original),
        "admin.listener": (config.admin.host, config.admin.port) != (original.admin.host, original.admin.port),
        "topics": config.declared_topics != original.declared_topics,
    }

    def mark(name: str) -> list[str]:
        if sources is None or name not in sources:
            return []
        if name in changed:
            return [f"{CHANGED} {sources[name]}."] if changed[name] else []
        default = SETTINGS[name].default
        return [] if value_of(config, name) == default else [f"{CHANGED} {sources[name]}; default: {_scalar(default)}."]

    lines = [
        "# Every setting with its value. Settings that Kafka has keep Kafka's names and defaults.",
        "# `coordinator config defaults` prints this file with the defaults.",
        *_heading("Addresses and topics"),
        *_comment(STRUCTURED["listeners"]),
        *mark("listeners"),
        "listeners:",
    ]
    for listener in config.listeners:
        lines.append(f"  - address: {_scalar(joined(listener.host, listener.port))}")
        if listener.name != PLAINTEXT:
            lines.append(f"    name: {_scalar(listener.name)}")
        if listener.advertised_host is not None and listener.advertised_port is not None:
            lines.append(f"    advertise: {_scalar(joined(listener.advertised_host, listener.advertised_port))}")
        if listener.dialect is not None:
            lines.append(f"    dialect: {listener.dialect}")
        if listener.emulate is not None:
            lines.append(f'    emulate: "{listener.emulate}"')
    lines += [
        *_comment(STRUCTURED["listener.security.protocol.map"]),
        *mark("listener.security.protocol.map"),
        f"listener.security.protocol.map: {_scalar(_protocol_map(config))}",
        *_comment(STRUCTURED["admin.listener"]),
        *mark("admin.listener"),
        f"admin.listener: {_scalar(joined(config.admin.host, config.admin.port))}",
        *_comment(STRUCTURED["topics"]),
        *mark("topics"),
        "topics:" if config.declared_topics else "topics: []",
    ]
    for topic in config.declared_topics:
        lines += [f"  - name: {topic.name}", f"    partitions: {topic.partitions}"]
        if topic.configs:
            lines.append("    configs:")
            lines += [f"      {key}: {_scalar(value)}" for key, value in topic.configs.items()]
    section = ""
    for name, setting in SETTINGS.items():
        if setting.section != section:
            section = setting.section
            lines += _heading(section)
        lines += [*_comment(setting), *mark(name), f"{name}: {_scalar(value_of(config, name))}"]
    return "\n".join(lines) + "\n"


def _protocol_map(config: ServerConfig) -> str:
    return ",".join(dict.fromkeys(f"{listener.name}:{listener.security.protocol}" for listener in config.listeners))


def _comment(setting: Setting | StructuredSetting) -> list[str]:
    return ["", *(f"# {line}" for line in _described(setting, WIDTH - 2))]


def _described(setting: Setting | StructuredSetting, width: int) -> list[str]:
    lines = [setting.documentation, f"Allowed: {setting.allowed}."]
    return [part for line in lines for part in wrap(line, width, break_on_hyphens=False)]


def _heading(section: str) -> list[str]:
    return ["", "", f"# --- {section} {'-' * (WIDTH - 5 - len(section))}"]


def list_settings() -> Iterator[str]:
    """The lines of `config list`: by section, each setting with its default, documentation and what is allowed."""
    yield "Addresses and topics"
    for structured_name, structured in STRUCTURED.items():
        yield f"\n  {structured_name}"
        yield from (f"      {line}" for line in _described(structured, WIDTH - 6))
    section = ""
    for name, setting in SETTINGS.items():
        if setting.section != section:
            section = setting.section
            yield f"\n\n{section}"
        default = setting.default
        yield f"\n  {name} = {_scalar(default)}{_in_larger_units(default, setting.unit)}"
        yield from (f"      {line}" for line in _described(setting, WIDTH - 6))


def _in_larger_units(value: Value, unit: str) -> str:
    """A number in the largest unit in which it is whole: 604800000 milliseconds are 7 days."""
    if value in (INT_MAX, LONG_MAX):
        return "  (no limit)"
    if isinstance(value, int):
        for larger, size in _LARGER_UNITS.get(unit, ()):
            count, rest = divmod(value, size)
            if count > 0 and not rest:
                return f"  ({count} {larger}{'s' if count > 1 and not larger.endswith('B') else ''})"
    return ""


def _scalar(value: Value) -> str:
    """A value as YAML, in quotes where YAML would read something else."""
    if isinstance(value, Secret) and value:
        return _scalar(HIDDEN)
    if isinstance(value, tuple):
        names = [_scalar(each) for each in value]
        in_quotes = any(name.startswith("'") for name in names)
        return f"[{', '.join(names)}]" if in_quotes else ",".join(names) or "''"
    if not isinstance(value, str):
        return str(value).lower()
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_./-]*|[A-Za-z0-9.-]+\.[A-Za-z0-9.-]+:[0-9]+", value)
    ambiguous = value.lower() in {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
    return value if plain and not ambiguous else "'" + value.replace("'", "''") + "'"
