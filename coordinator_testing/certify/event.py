"""An event of the curriculum: what happens to a program, what a right client does, where Kafka says so, and what it may cost.

An event is data and one coroutine. The coroutine provokes the event on a stage where the program's instances already read and
commit; before it, the stage starts them, and after it, the stage waits until the group has caught up (`rehearsal.py`). So the
coroutine has only what is rare:

    @event(
        "heartbeat-illegal-generation",
        protocols=("classic",),
        happens="A heartbeat is answered with ILLEGAL_GENERATION.",
        right_client="gives its partitions up as lost and joins again",
        provoked="a rule: the next Heartbeat of one instance",
        sources=(Source("org.apache.kafka...AbstractCoordinator.HeartbeatResponseHandler", "rejoins"),),
        allows=Allows(rebalances=1),
    )
    async def heartbeat_illegal_generation(stage: Stage) -> None:
        fault = await stage.fault(stage.instances[0], api="Heartbeat", error="ILLEGAL_GENERATION")
        await stage.acted(fault)
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from coordinator_testing.certify.stage import Stage

Protocol = Literal["classic", "consumer", "streams", "share"]
PROTOCOLS: tuple[Protocol, ...] = ("classic", "consumer", "streams", "share")
"""The values of `--protocol` and of GROUP_PROTOCOL, which a program receives."""
STALL_S = 20.0
TIME_LIMIT_S = 90.0


class NotApplicable(Exception):
    """An event cannot happen to this program, such as one for static members to a program that has none. The text says why."""


class Source(NamedTuple):
    """Where Kafka says what a right client does."""

    where: str
    """A KIP, or a class and method of Kafka."""
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Allows:
    """What an event may cost a right client, beyond which the judge calls a promise broken."""

    rebalances: int | None = 0
    """Rebalances from the provocation on. A cooperative assignor may take twice as many. None: not judged."""
    rebalances_per_instance: int = 0
    """Rebalances beyond those, for each instance."""
    stall_s: float = STALL_S
    """Seconds in which a partition with unread records may make no progress."""
    may_end: bool = False
    """Whether instances may end by themselves, because the event is fatal to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of the curriculum. Everything but `run` is for people, the judge, and docs/certification-events.md."""

    name: str
    protocols: tuple[Protocol, ...]
    happens: str
    right_client: str
    """What a right client does, without the subject: "joins again"."""
    provoked: str
    sources: tuple[Source, ...]
    run: Callable[["Stage"], Awaitable[None]]
    """Provokes the event. Raises NotApplicable, and NotReached if what it waits for does not come."""
    allows: Allows
    is_static: bool = False
    """Whether each instance receives GROUP_INSTANCE_ID."""
    is_transactional: bool = False
    """Whether each instance receives TRANSACTIONAL_ID."""
    is_alone: bool = False
    """Whether no other event may run meanwhile, because this one touches the whole server: its process or its clock."""
    brokers: int = 1
    """The brokers of the server. Each has its own port of an instance's listener, and its own rack."""
    has_racks: bool = False
    """Whether each instance receives CLIENT_RACK, the rack of a broker."""
    has_sasl: bool = False
    """Whether each instance receives SASL_MECHANISM, a name and a password, without which the server refuses it."""
    since: str | None = None
    """The first release of Kafka in which it can happen; None: each that a server can be."""
    instances: int | None = None
    """The instances that it needs; None: as many as `--instances` says."""
    time_limit_s: float = TIME_LIMIT_S


def event(name: str, **declared: Any) -> Callable[[Callable[["Stage"], Awaitable[None]]], Event]:
    """Makes an Event of the coroutine that provokes it, with the fields that are `declared`."""
    return lambda run: Event(name=name, run=run, **declared)
