"""The configs of the resource GROUP: a group's own, else the server's, which clients may have set, too (dynamic_configs.py)."""

from collections.abc import Mapping

from coordinator.groups.group_configs import GROUP_CONFIGS, GroupConfig
from coordinator.groups.settings import GroupsConfig
from coordinator.topics.config import Layers
from coordinator.topics.topic_settings import (
    SOURCE_DEFAULT,
    SOURCE_STATIC_BROKER,
    ConfigValue,
    Kind,
    Synonym,
    canonical,
)

SOURCE_GROUP = 8


def describe(own: Mapping[str, str], config: GroupsConfig, of: Layers) -> list[ConfigValue]:
    """All configs of a group. `own`: its own; `config`: the configuration; `of`: what clients have set for the server."""
    return [
        _describe(row, own.get(row.name), config, of)
        for row in GROUP_CONFIGS.values()
        if not row.is_internal or row.name in own or any(row.server_name in settings for _, settings in of)
    ]


def _describe(row: GroupConfig, own: str | None, config: GroupsConfig, of: Layers) -> ConfigValue:
    places = [Synonym(row.name, own, SOURCE_GROUP)] if own is not None else []
    name = row.server_name or row.name
    places += [Synonym(name, settings[name], source) for source, settings in of if name in settings]
    static, default = row.server_value(config), row.server_value(GroupsConfig())
    if static != default:
        places.append(Synonym(name, static, SOURCE_STATIC_BROKER))
    places.append(Synonym(name, default, SOURCE_DEFAULT))
    kind, (_, value, source) = Kind(row.kind), places[0]
    shown = value if value is None or source == SOURCE_GROUP else canonical(kind, value)
    return ConfigValue(row.name, shown, source, kind, row.about, tuple(places))
