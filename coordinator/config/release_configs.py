"""The configs of a resource as an earlier release of Kafka shows them: its names, and its defaults with their types.

What differs is in the table of the releases (protocol/releases.py). Values that clients or the configuration have set are
shown as they are.
"""

from collections.abc import Iterable, Mapping

from coordinator.protocol.releases import ConfigRow
from coordinator.topics.topic_settings import SOURCE_DEFAULT, SOURCE_STATIC_BROKER, ConfigValue, Kind, Synonym

_OF_THE_SERVER = (SOURCE_STATIC_BROKER, SOURCE_DEFAULT)
_ABOUT = "A setting of earlier releases. It has no effect here."


def as_in_release(
    values: Iterable[ConfigValue], rows: Mapping[str, ConfigRow | None], of_server: str
) -> list[ConfigValue]:
    """`values` as a release shows them. `of_server`: what a name of `rows` alone begins with where it is the server's.

    A config that the release does not have is shown only if a client has set it.
    """
    missing = dict(rows)
    shown = []
    for value in values:
        row = missing.pop(value.name, None)
        if row is not None:
            shown.append(_as_in_release(value, row))
        elif value.name not in rows or value.source not in _OF_THE_SERVER:
            shown.append(value)
    for name, row in missing.items():
        if row is not None:
            synonyms = (Synonym(of_server + name, None, SOURCE_DEFAULT),)
            shown.append(_as_in_release(ConfigValue(name, None, SOURCE_DEFAULT, about=_ABOUT, synonyms=synonyms), row))
    return shown


def _as_in_release(value: ConfigValue, row: ConfigRow) -> ConfigValue:
    default, kind, read_only = row
    places = [each._replace(value=default) if each.source == SOURCE_DEFAULT else each for each in value.synonyms]
    if len(places) > 1 and places[0].source == SOURCE_STATIC_BROKER and places[0].value == default:
        # The server has started as the release, with its default.
        del places[0]
    shown, source = value.value, value.source
    if source in _OF_THE_SERVER:
        _, shown, source = places[0] if places else Synonym("", default, SOURCE_DEFAULT)
    is_secret = kind == Kind.PASSWORD.name
    return ConfigValue(value.name, shown, source, Kind[kind], value.about, tuple(places), read_only, is_secret)
