"""What the judge judges by: requests and responses, events of the group, the processes, the records that went in and came out.

All of it is data. Times are milliseconds of the server's wall clock, which is that of this machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from coordinator.groups.group_history import GroupEvent
from coordinator.rules.model import Entry
from coordinator_testing.certify.event import Allows, Protocol

Phase = Literal["start", "event", "recovery"]
PHASES: Mapping[Phase, str] = {
    "start": "the group starts and reads until all partitions have commits",
    "event": "the event is provoked",
    "recovery": "all partitions are read and committed to their ends",
}
"""The phases of an event, with what each waits for."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True, kw_only=True)
class ProcessRun:
    """A process of an instance, from its start to its end."""

    pid: int
    started_ms: int
    ended_ms: int | None = None
    ended_by: Literal["stage", "itself"] | None = None
    """None while it runs."""
    exit_code: int | None = None


@dataclass(slots=True, kw_only=True)
class InstanceHistory:
    """What the stage did to one instance of the program."""

    index: int
    listener: str
    runs: list[ProcessRun] = field(default_factory=list)
    pauses: list[tuple[int, int]] = field(default_factory=list)
    """From SIGSTOP to SIGCONT."""


class InputRecord(NamedTuple):
    """A record of the topic. `number` is unique within the partition, also where the topic is deleted and made again."""

    offset: int
    number: int
    life: int
    """How often the topic was deleted before: offsets begin at 0 in each life."""
    since_ms: int = 0
    """Its offset may have been that of another record until then, whose partition lost its end; 0: it never was."""
    lost_ms: int | None = None
    """When its partition lost it, with the end of the log. None: it is there."""


class Truncation(NamedTuple):
    """A partition of the topic lost its end, and its offsets from there on are used again."""

    time_ms: int
    partition: int
    end_offset: int
    """Where the log ended then."""
    former_end: int


class OutputRecord(NamedTuple):
    """A copy in the output topic. `offset` and `output_partition` are its own place, `partition` and `number` those of the
    original. `producer_id` is that of the transaction that it is part of; None if it is part of none.
    """

    output_partition: int
    offset: int
    partition: int
    number: int
    producer_id: int | None = None


class Statement(NamedTuple):
    """A record that the program said it had processed, in a line of text (`testimony.py`)."""

    partition: int
    number: int
    time_ms: int | None
    """When it said so; None if nothing shows it."""
    instance: int | None
    """None: one of them, as a database does not say which."""
    place: str
    """How findings name it."""


class Note(NamedTuple):
    """What the stage did, for people."""

    time_ms: int
    text: str


@dataclass(slots=True, kw_only=True)
class Evidence:
    """Everything about one event that was run."""

    group: str
    topic: str
    output_topic: str | None
    allows: Allows
    is_transactional: bool
    protocol: Protocol = "classic"
    delivery_limit: int = 5
    """share.delivery.count.limit of a share group."""
    instances: Sequence[InstanceHistory]
    entries: Sequence[Entry] = ()
    """In the order of their arrival."""
    entries_dropped: int = 0
    """Entries that the server had to forget before they were read."""
    group_events: Sequence[GroupEvent] = ()
    inputs: Mapping[int, Sequence[InputRecord]] = field(default_factory=dict)
    """Partition -> records, in order."""
    testimony: str = "topic"
    """The source of what shows that a record was processed (`testimony.py`)."""
    outputs: Sequence[OutputRecord] | None = None
    """None: there is no output topic, or another source testifies."""
    statements: Sequence[Statement] | None = None
    """None: the source has no lines."""
    committed: Mapping[int, int] = field(default_factory=dict)
    """Partition -> offset that the group has committed in the end; of a share group, how many records are done with."""
    outages: Sequence[tuple[int, int]] = ()
    """While the server was down: entries from the end of an outage may be missing, and a produce may be repeated."""
    resets: Sequence[tuple[int, Mapping[int, int]]] = ()
    """When an administrator moved the committed offsets, and where to: partition -> offset."""
    recreated_ms: Sequence[int] = ()
    """When the topic was deleted and made again."""
    truncations: Sequence[Truncation] = ()
    began_ms: int
    provoked_ms: int | None = None
    """When the event's own part began: the group had joined, and all partitions had commits. None: it never did."""
    settled_ms: int | None = None
    """When all partitions were read and committed to their ends. None: they never were."""
    stopped_ms: int
    """When the stage began to stop the instances."""
    notes: Sequence[Note] = ()
    not_reached: str | None = None
    """What the event waited for in vain."""
    is_interrupted: bool = False
    """Whether the server refused or failed what the event asked of it, so that the program is not to blame for the end."""
    not_applicable: str | None = None
