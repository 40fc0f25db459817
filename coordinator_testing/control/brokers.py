"""The brokers of a server that is several (`serve --nodes`): which are up, what they lead, and acts on them."""

from msgspec import Struct

from coordinator_testing.control import steps
from coordinator_testing.control.command import command
from coordinator_testing.control.steps import Steps

PATH = "/v1/brokers"


class Broker(Struct, frozen=True):
    """A broker."""

    id: int
    addresses: list[str]
    up: bool
    controller: bool
    leads: int
    """The partitions that it leads, with those of internal topics."""
    rack: str | None = None


class Led(Struct, frozen=True):
    """A partition that a broker leads now."""

    broker: int
    topic: str
    partition: int
    leader_epoch: int
    end_offset: int | None = None
    """Where the log ends after a loss."""


class BrokerCommands:
    """A broker."""

    id: str
    made_down: set[str]

    @command
    def down(self) -> Steps[Broker]:
        """Ends the broker as a crash does: its connections close, and the next replica in sync leads what it led."""
        self.made_down.add(self.id)  # also if the answer is lost
        return steps.ask(steps.post(f"{PATH}/{self.id}/down", {}), Broker)

    @command
    def up(self) -> Steps[Broker]:
        """Starts the broker again, at its addresses. Leaders stay until they are elected or moved."""
        self.made_down.discard(self.id)
        return steps.ask(steps.post(f"{PATH}/{self.id}/up", {}), Broker)

    @command
    def lead(
        self,
        *,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        controller: bool | None = None,
        lose: int | None = None,
    ) -> Steps[Led]:
        """Lets the broker lead a partition, coordinate a group or transactional id, or be the controller: one of these.

        `lose`: of a partition, so many of its last records are lost, and the others of their batch.
        """
        wanted = {"topic": topic, "partition": partition, "group": group, "transactional_id": transactional_id}
        wanted["lose"] = lose
        return steps.ask(steps.post(f"{PATH}/{self.id}/lead", {**wanted, "controller": controller}), Led)


class _Brokers(Struct):
    brokers: list[Broker]


def listed() -> Steps[list[Broker]]:
    """All brokers, by their ids."""
    return (yield from steps.ask(steps.get(PATH), _Brokers)).brokers


def bring_up(made_down: set[str]) -> Steps[None]:
    """Brings those of these brokers up that are still down."""
    if made_down:
        down = {str(each.id) for each in (yield from listed()) if not each.up}
        for broker_id in sorted(made_down & down):
            yield from steps.ask(steps.post(f"{PATH}/{broker_id}/up", {}), Broker)
        made_down.clear()
