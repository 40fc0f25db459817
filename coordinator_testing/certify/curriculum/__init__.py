"""The curriculum: all events, by theme. A module declares the events of one theme; the order here is that of every list."""

from collections.abc import Iterable
from pathlib import Path

from coordinator_testing.certify.curriculum import (
    brokers,
    classic_errors,
    classic_failures,
    classic_joins,
    classic_static,
    commits,
    consumer,
    coordinators,
    migration,
    output,
    partitions,
    reading,
    share,
    streams,
    transactions,
    upgrades,
)
from coordinator_testing.certify.event import Event, Protocol
from coordinator_testing.certify.own_events import read_event

THEMES: dict[str, tuple[Event, ...]] = {
    "Members that stop, die and fall silent": classic_failures.EVENTS,
    "Rebalances of classic groups": classic_joins.EVENTS,
    "Errors of classic groups": classic_errors.EVENTS,
    "Static members of classic groups": classic_static.EVENTS,
    "Coordinators that move, load and die": coordinators.EVENTS,
    "Several brokers": brokers.EVENTS,
    "Topics that change": partitions.EVENTS,
    "Reading": reading.EVENTS,
    "Output": output.EVENTS,
    "Consumer groups": consumer.EVENTS,
    "Streams groups": streams.EVENTS,
    "Share groups": share.EVENTS,
    "Commits and offsets": commits.EVENTS,
    "Transactions": transactions.EVENTS,
    "Online migration": migration.EVENTS,
    "Releases of Kafka": upgrades.EVENTS,
}
"""Title of a theme -> its events."""


class NoSuchEvent(Exception):
    """The curriculum has no event of this name for the protocol. The text lists those that it has."""


def events_of(protocol: Protocol, names: Iterable[str] = ()) -> list[Event]:
    """The events of a protocol, or those of these names and files. Raises NoSuchEvent and WrongEvent."""
    found = {event.name: event for events in THEMES.values() for event in events if protocol in event.protocols}
    chosen = list(names)
    for name in (each for each in chosen if each.endswith((".yaml", ".yml"))):
        own = read_event(Path(name))
        if protocol in own.protocols:
            found[name] = own
    unknown = [name for name in chosen if name not in found]
    if unknown:
        raise NoSuchEvent(
            f"there is no event {', '.join(unknown)} for {protocol} groups; allowed: {', '.join(found) or 'none yet'}"
        )
    return [found[name] for name in chosen] if chosen else list(found.values())
