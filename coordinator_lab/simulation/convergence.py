"""Liveness: once failures have ended, everything must converge within a bound (I12).

In every group the members agree with each other and with the server on the membership, and each partition that they
subscribe to has exactly one owner. Every shard is active, no request waits for a response that will not come, and every
producer makes progress. This state must then last for longer than any session timeout.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator.cluster.workers.ownership import UNFIT_MS
from coordinator.runtime.shard import Shard, Status
from coordinator.server.composition import Server
from coordinator_lab.simulation import transaction_clients
from coordinator_lab.simulation.classic_clients import ClassicMember
from coordinator_lab.simulation.clients import Auditor, World
from coordinator_lab.simulation.consumer_clients import ConsumerMember, Partition
from coordinator_lab.simulation.counters import CounterWorker
from coordinator_lab.simulation.data_clients import Producer
from coordinator_lab.simulation.meddler import Meddler
from coordinator_lab.simulation.operator import Operator
from coordinator_lab.simulation.share_clients import ShareMember
from coordinator_lab.simulation.transaction_clients import Accountant, CommittedReader, Ledger
from coordinator_lab.simulation.wire import NoResponse

INVARIANT = "I12 converges"
CONVERGENCE_BOUND_S = 90.0
"""Bound for convergence after healing. Sessions, rebalances and client timeouts are all far shorter."""
STABLE_FOR_S = 15.0
"""How long the converged state must last: longer than any session timeout."""
NOTICED_S = 6.0
"""In this time every member has asked its coordinator, and has learned that its shard is at another worker now."""


@dataclass(slots=True)
class Workload:
    """The clients that must make progress in the end."""

    classic: list[ClassicMember] = field(default_factory=list)
    modern: list[ConsumerMember] = field(default_factory=list)
    """Members of the consumer protocol and of the streams protocol."""
    shares: list[ShareMember] = field(default_factory=list)
    """Members of share groups. A partition may belong to several of them."""
    producers: list[Producer | Accountant | CounterWorker] = field(default_factory=list)

    operators: list[Operator] = field(default_factory=list)
    meddlers: list[Meddler] = field(default_factory=list)

    def groups(self) -> dict[str, tuple[list[ClassicMember], list[ConsumerMember]]]:
        """Group id -> its classic members and its other members."""
        groups: dict[str, tuple[list[ClassicMember], list[ConsumerMember]]] = {}
        for member in self.classic:
            groups.setdefault(member.group_id, ([], []))[0].append(member)
        for consumer in self.modern:
            groups.setdefault(consumer.group_id, ([], []))[1].append(consumer)
        return groups

    def share_groups(self) -> dict[str, list[ShareMember]]:
        """Group id -> members of the share group."""
        groups: dict[str, list[ShareMember]] = {}
        for member in self.shares:
            groups.setdefault(member.group_id, []).append(member)
        return groups


class ConvergenceCheck:
    """Waits for convergence, counted from its creation."""

    def __init__(
        self,
        world: World,
        workload: Workload,
        auditor: Auditor,
        ledger: Ledger,
        servers: Callable[[], list[Server]],
        sleep: Callable[[float], Awaitable[None]],
        unfinished: Callable[[], list[str]],
    ) -> None:
        """`unfinished()`: what share groups still have to do with the records that were there at its first call."""
        self.world = world
        self.workload = workload
        self.auditor = auditor
        self.ledger = ledger
        self._servers = servers
        self._sleep = sleep
        self._unfinished = unfinished
        self._since_s = world.loop.time()
        self._served: list[list[bool]] = []
        self._served_since_s = self._since_s

    async def wait(self) -> None:
        """Reports a broken invariant unless everything converges within the bound and then stays stable."""
        generations: dict[str, int] = {}
        while not generations:
            unconverged = self._unconverged() or await self._disagreements()
            if not unconverged:
                generations = self._generations()
            elif self.world.loop.time() > self._since_s + CONVERGENCE_BOUND_S:
                self.world.broken(INVARIANT, f"{CONVERGENCE_BOUND_S} s after healing: {unconverged}")
            await self._sleep(0.5)
        await self._sleep(STABLE_FOR_S)
        if self._generations() != generations or self._unconverged():
            self.world.broken(INVARIANT, f"{generations}, then {self._generations()}: {self._unconverged()}")

    def _generations(self) -> dict[str, int]:
        generations = {member.name: member.generation for member in self.workload.classic}
        members: list[ConsumerMember | ShareMember] = [*self.workload.modern, *self.workload.shares]
        return generations | {member.name: member.epoch for member in members}

    def _unconverged(self) -> list[str]:
        """What has not converged yet, as far as clients and shards show."""
        servers, workload = self._servers(), self.workload
        if len(servers) < max(self.world.plan.workers, 1):
            return [f"{len(servers)} servers are running"]
        shards = [shard for server in servers for shard in server.shards]
        if self.world.plan.workers:
            found = _not_spread([server.groups.shards for server in servers])
            found += _not_spread([server.transactions.shards for server in servers])
            found += self._moved_just_now(servers)
        else:
            found = [f"shard {each.index} is {each.status}" for each in shards if each.status is not Status.ACTIVE]
        waiting = [(shard.index, len(shard._waiting)) for shard in shards if shard._waiting]  # noqa: SLF001 - I16
        found += [f"shard {index} has {count} requests that wait for a response" for index, count in waiting]
        found += [f"{each.name} makes no progress" for each in workload.producers if each.answered_s <= self._since_s]
        found += [f"{each.name} has not turned off {each.intervals}" for each in workload.operators if not each.is_done]
        members: list[ClassicMember | ConsumerMember | ShareMember] = [
            *workload.classic, *workload.modern, *workload.shares
        ]  # fmt: skip
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
            forced = self.world.history.forced_epoch(group_id)
            reached = min([*(each.generation for each in classic), *(each.epoch for each in modern)])
            if reached < forced:
                found.append(f"{group_id} is in {reached}, although a rebalance to {forced} was acknowledged")
        for share_group_id, sharing in workload.share_groups().items():
            assigned = set[Partition]().union(*(member.assigned for member in sharing))
            if assigned != set[Partition]().union(*(member.wanted for member in sharing)):
                found.append(f"{share_group_id} has {sorted(assigned)}")
        return [*found, *self._unfinished()]

    def _moved_just_now(self, servers: Sequence[Server]) -> list[str]:
        """Whether members may not have noticed yet that their shard has moved, so that they join again later."""
        now_s = self.world.loop.time()
        served = [_served(server.groups.shards) for server in servers]
        if served != self._served:
            self._served, self._served_since_s = served, now_s
        since_s = self._served_since_s
        if self.world.plan.full_s:
            # A worker whose disk was full stays away for a while, and gets shards back.
            since_s = max(since_s, self._since_s + UNFIT_MS / 1000)
        return ["shards have moved"] if now_s < since_s + NOTICED_S else []

    async def _disagreements(self) -> list[str]:
        """Groups that the server describes differently from their members. Also reads every offset and record."""
        try:
            await self.auditor.audit()
            if self.world.plan.accountants and not self.world.plan.workers:
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
            for group_id, sharing in self.workload.share_groups().items():
                group = await sharing[0].describe()
                reported = {(each.member_id, each.member_epoch) for each in group.members}
                known = {(each.member_id, group.group_epoch) for each in sharing}
                known |= {(each.member_id, each.epoch) for each in sharing}
                if reported != known:
                    found.append(f"{group_id} has {sorted(reported)}, not {sorted(known)}")
        except NoResponse:
            return ["the server does not respond"]
        return found


def _served(shards: Sequence[Shard[Any]]) -> list[bool]:
    return [shard.status is Status.ACTIVE for shard in shards]


def _not_spread(workers: Sequence[Sequence[Shard[Any]]]) -> list[str]:
    """Whether each shard has one worker, and no worker two more than another. `workers`: the shards of each."""
    served = [_served(shards) for shards in workers]
    owners = [sum(of_shard) for of_shard in zip(*served, strict=True)]
    found = [f"shard {index} is served by {count} workers" for index, count in enumerate(owners) if count != 1]
    counts = [sum(of_worker) for of_worker in served]
    return [*found, f"the workers serve {counts} shards"] if max(counts) - min(counts) > 1 else found
