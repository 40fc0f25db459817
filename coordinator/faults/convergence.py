"""Liveness: what must come to be once nothing fails any more (I12).

Within a bound every group comes to rest: its members agree with the server and with each other on who is in it, and every
partition that they want has one of them as its owner; every shard answers, nobody waits for an answer that will not come, and
whoever writes is answered. Then nothing moves any more, for longer than any session lasts.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from coordinator.faults import transaction_clients
from coordinator.faults.classic_clients import ClassicMember
from coordinator.faults.clients import Auditor, World
from coordinator.faults.consumer_clients import ConsumerMember
from coordinator.faults.counters import CounterWorker
from coordinator.faults.data_clients import Producer
from coordinator.faults.transaction_clients import Accountant, CommittedReader, Ledger
from coordinator.faults.wire import NoResponse
from coordinator.runtime.shard import Status
from coordinator.server.composition import Server

INVARIANT = "I12 converges"
CONVERGENCE_BOUND_S = 90.0
"""By then a healed world has come to rest: sessions, rebalances and the patience of clients are all far shorter."""
STABLE_FOR_S = 15.0
"""Longer than any session."""


@dataclass(slots=True)
class Workload:
    """The clients that must get what they want in the end."""

    classic: list[ClassicMember] = field(default_factory=list)
    modern: list[ConsumerMember] = field(default_factory=list)
    """Members that speak the consumer protocol, or that of streams groups."""
    producers: list[Producer | Accountant | CounterWorker] = field(default_factory=list)

    def groups(self) -> dict[str, tuple[list[ClassicMember], list[ConsumerMember]]]:
        """Group id -> its members of either kind."""
        groups: dict[str, tuple[list[ClassicMember], list[ConsumerMember]]] = {}
        for member in self.classic:
            groups.setdefault(member.group_id, ([], []))[0].append(member)
        for consumer in self.modern:
            groups.setdefault(consumer.group_id, ([], []))[1].append(consumer)
        return groups


class ConvergenceCheck:
    """The world from the moment when it was healed."""

    def __init__(
        self,
        world: World,
        workload: Workload,
        auditor: Auditor,
        ledger: Ledger,
        server: Callable[[], Server | None],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.world = world
        self.workload = workload
        self.auditor = auditor
        self.ledger = ledger
        self._server = server
        self._sleep = sleep
        self._since_s = world.loop.time()

    async def wait(self) -> None:
        """Members, server and log agree within a bound, and then nothing moves any more."""
        generations: dict[str, int] = {}
        while not generations:
            unconverged = self._unconverged() or await self._disagreements()
            if not unconverged:
                generations = self._generations()
            elif self.world.loop.time() > self._since_s + CONVERGENCE_BOUND_S:
                self.world.broken(INVARIANT, f"{CONVERGENCE_BOUND_S} s after the healing: {unconverged}")
            await self._sleep(0.5)
        await self._sleep(STABLE_FOR_S)
        if self._generations() != generations or self._unconverged():
            self.world.broken(INVARIANT, f"{generations}, then {self._generations()}: {self._unconverged()}")

    def _generations(self) -> dict[str, int]:
        generations = {member.name: member.generation for member in self.workload.classic}
        return generations | {member.name: member.epoch for member in self.workload.modern}

    def _unconverged(self) -> list[str]:
        """What is not as it must become."""
        server, workload = self._server(), self.workload
        if server is None:
            return ["there is no server"]
        shards = server.shards
        found = [f"shard {each.index} is {each.status}" for each in shards if each.status is not Status.ACTIVE]
        waiting = [(shard.index, len(shard._waiting)) for shard in shards if shard._waiting]  # noqa: SLF001 - I16
        found += [f"shard {index} has {count} requests that nobody will answer" for index, count in waiting]
        found += [f"{each.name} gets no answer" for each in workload.producers if each.answered_s <= self._since_s]
        members: list[ClassicMember | ConsumerMember] = [*workload.classic, *workload.modern]
        found += [f"{each.name} ({each.member_id}) has no assignment" for each in members if not each.stable]
        for group_id, (classic, modern) in workload.groups().items():
            generations = {member.generation for member in classic}
            if len(generations) > 1 and not modern:
                found.append(f"{group_id} is in generations {sorted(generations)}")
            both: list[ClassicMember | ConsumerMember] = [*classic, *modern]
            owned = sorted(partition for member in both for partition in member.positions)
            wanted = sorted({partition for member in both for partition in member.wanted})
            if owned != wanted:
                found.append(f"{group_id} owns {owned}")
        return found

    async def _disagreements(self) -> list[str]:
        """What the server says differently from the members. Every offset is read on the way."""
        try:
            await self.auditor.audit()
            if self.world.plan.accountants:
                reader = CommittedReader(self.world, -1, self.ledger)
                for partition in range(transaction_clients.PARTITIONS):
                    await reader.read_all(partition)
            found = []
            for group_id, (classic, modern) in self.workload.groups().items():
                known = {(each.member_id, each.generation) for each in classic}
                if modern:
                    group = await modern[0].describe()
                    reported = {(each.member_id, each.member_epoch) for each in group.members}
                    known |= {(each.member_id, each.epoch) for each in modern}
                else:
                    (group,) = await self.auditor.describe([group_id])
                    generation = classic[0].generation
                    reported = {(each.member_id, generation) for each in group.members}
                if group.group_state != "Stable" or reported != known:
                    found.append(f"{group_id} is {group.group_state} with {sorted(reported)}, not {sorted(known)}")
        except NoResponse:
            return ["the server does not answer"]
        return found
