"""The events of all workers, from the logs that the supervisor keeps for them.

So positions are those of a server without workers, a take-over does not disturb a stream, and nothing is read twice. Faults
that acted are in no log: workers report them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import convert

from coordinator.admin.event_stream import no_events
from coordinator.admin.fault_events import FaultEvents
from coordinator.front.site import Site
from coordinator.log.journaled_log import JournaledLog
from coordinator.protocol.java import positive_hash
from coordinator.rules.model import FaultActed
from coordinator.topics.partition import Reader
from coordinator.world.worker import Done


class EventsOfAll:
    """The event logs of the machine."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.faults = FaultEvents()
        site.on_fault_acted = lambda acted: self.faults.add(convert(acted, FaultActed))

    def logs(self, group: str | None) -> Sequence[tuple[int, JournaledLog]]:
        found = list(enumerate(self._site.event_logs))
        if not found:
            raise no_events()
        return found if group is None else [found[positive_hash(group) % len(found)]]

    def readers(self, shard: int) -> dict[Reader, None]:
        return self._site.event_readers(shard)

    def wall_ms(self) -> int:
        return self._site.wall_ms()

    def run_in_worker(self, function: Callable[[], Any], done: Done) -> None:
        self._site.run_in_worker(function, done)
