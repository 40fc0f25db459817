"""The workers that share the work of a server: which shards each has, draining one, moving a shard."""

from msgspec import Struct

from coordinator_testing.control import steps
from coordinator_testing.control.steps import Steps

PATH = "/v1/workers"


class Worker(Struct, frozen=True):
    """A worker. What is None is not known, because it does not answer."""

    number: int
    ready: bool
    """Whether it answers."""
    leaving: bool
    """Whether it gives its shards to the others."""
    shards: list[str]
    """The logs of its shards, such as `__consumer_offsets-3`."""
    pid: int | None = None
    take_overs: int | None = None
    """Shards that it has taken over since it started."""
    take_over_ms: int | None = None
    """How long they took on average."""
    records_replayed: int | None = None
    shards_replaying: int | None = None
    """Shards that it reads from the engine now."""
    pieces_to_replay: int | None = None
    """The tails of their logs."""
    admin: str | None = None
    """The URL of its admin HTTP, which drains it and moves shards to it. None: the one that was asked does."""


class _Workers(Struct):
    workers: list[Worker]


def listed() -> Steps[list[Worker]]:
    """All workers, by number; none if the server works alone."""
    return (yield from steps.ask(steps.get(PATH), _Workers)).workers


def act(number: int, name: str, **fields: str) -> Steps[Worker]:
    """The worker after `drain`, `resume` or `move`."""
    return steps.ask(steps.post(f"{PATH}/{number}/{name}", fields), Worker)
