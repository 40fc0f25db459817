"""What workers wrote to their logs: when they noticed a fault, and when they took shards."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from tests.support.server_process import ServerProcess

EVENT = re.compile(r"time=(\S+)Z .*?event=(\w+) ?(.*)")


class WorkerEvent(NamedTuple):
    at: float
    """As `time.time`."""
    name: str
    fields: str


def worker_events(workers: Iterable[ServerProcess], since: float) -> Iterator[WorkerEvent]:
    """The events that several workers have logged since a time."""
    for worker in workers:
        for line in worker.log.splitlines():
            found = EVENT.match(line)
            if found is not None:
                at = datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp()
                if at >= since:
                    yield WorkerEvent(at, found[2], found[3])
