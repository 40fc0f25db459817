"""The clients of a run, as its plan says."""

from random import Random
from typing import Any

from coordinator_lab.simulation import clients, counters, data_clients, transaction_clients
from coordinator_lab.simulation.classic_clients import ClassicMember
from coordinator_lab.simulation.consumer_clients import ConsumerMember, Ownership
from coordinator_lab.simulation.convergence import Workload
from coordinator_lab.simulation.hunts import Hunter
from coordinator_lab.simulation.meddler import Meddler
from coordinator_lab.simulation.metadata_clients import MetadataChanger
from coordinator_lab.simulation.mixed_clients import mixed_members
from coordinator_lab.simulation.operator import Operator
from coordinator_lab.simulation.quota_clients import UNLIMITED, QuotaSetter, UnlimitedClient
from coordinator_lab.simulation.share_clients import RecordDeleter, ShareMember, StaleWriter
from coordinator_lab.simulation.share_invariants import PARCELS, ShareHistory
from coordinator_lab.simulation.streams_clients import StreamsMember


class Population:
    """All clients. `workload` has those that must make progress in the end, `others` the rest."""

    def __init__(
        self,
        world: clients.World,
        ownership: Ownership,
        records: data_clients.KnownRecords,
        ledger: transaction_clients.Ledger,
        counts: list[counters.CounterModel],
        shares: ShareHistory,
    ) -> None:
        self.workload = Workload()
        self.auditor = clients.Auditor(world, "auditor")
        self.others: list[Any] = [clients.SimpleConsumer(world, number) for number in range(3)]
        self.metadata: MetadataChanger | None = None
        self._world = world
        self._add_members(ownership)
        if not world.plan.workers:  # their partitions have no records
            self._add_data_clients(records, ledger)
            self._add_share_clients(shares, ownership)
        for count in counts:
            self.workload.producers.append(counters.CounterWorker(world, count, 0))
            self.others += [counters.CounterWorker(world, count, number) for number in range(1, counters.WORKERS)]
            self.others.append(counters.CounterReader(world, count, "onlooker"))
        self._add_operators(counts)
        self.others += [Hunter(world, f"hunter-{number}") for number in range(world.plan.hunts)]
        self.others += [
            self.auditor,
            *self.workload.operators,
            *self.workload.meddlers,
            clients.Administrator(world, "admin"),
            clients.HostileClient(world, "hostile"),
        ]

    def __iter__(self) -> Any:
        workload = self.workload
        return iter([*workload.classic, *workload.modern, *workload.shares, *workload.producers, *self.others])

    def _add_members(self, ownership: Ownership) -> None:
        world, plan, workload = self._world, self._world.plan, self.workload
        for group in range(plan.groups):
            workload.classic += [ClassicMember(world, f"group-{group}", number) for number in range(plan.members)]
        for group in range(plan.consumer_groups):
            workload.modern += [
                ConsumerMember(world, f"consumers-{group}", number, ownership) for number in range(plan.members)
            ]
        for group in range(plan.streams_groups):
            workload.modern += [
                StreamsMember(world, f"streams-{group}", number, ownership) for number in range(plan.members)
            ]
        for group in range(plan.mixed_groups):
            classic, modern = mixed_members(world, group, ownership)
            workload.classic += classic
            workload.modern += modern

    def _add_data_clients(self, records: data_clients.KnownRecords, ledger: transaction_clients.Ledger) -> None:
        world, workload = self._world, self.workload
        workload.producers += [data_clients.Producer(world, f"producer-{number}", records) for number in range(2)]
        self.others += [data_clients.Reader(world, number, records) for number in range(2)]
        count = world.plan.accountants
        workload.producers += [transaction_clients.Accountant(world, number, ledger) for number in range(count)]
        if count:
            self.others += [transaction_clients.CommittedReader(world, number, ledger) for number in range(2)]

    def _add_share_clients(self, shares: ShareHistory, ownership: Ownership) -> None:
        world, workload = self._world, self.workload
        for number in range(world.plan.share_groups):
            group = shares.group(f"share-{number}", Random(f"{world.plan.seed} share group {number}"))
            workload.shares += [ShareMember(world, group, each, ownership) for each in range(world.plan.members)]
        if workload.shares:
            workload.producers.append(data_clients.Producer(world, "sender", shares.parcels, PARCELS))
            self.others += [RecordDeleter(world, shares), StaleWriter(world, shares)]

    def _add_operators(self, counts: list[counters.CounterModel]) -> None:
        world, plan, workload = self._world, self._world.plan, self.workload
        groups = {group_id: not (classic and modern) for group_id, (classic, modern) in workload.groups().items()}
        if plan.forced_s or plan.rebalance_interval_ms:
            workload.operators = [Operator(world, "operator", groups)]
        if plan.acts_s:
            ids = [each.name for each in workload.producers if isinstance(each, transaction_clients.Accountant)]
            ids += [count.transactional_id for count in counts]
            workload.meddlers = [Meddler(world, "meddler", groups | dict.fromkeys(workload.share_groups(), True), ids)]
        if plan.metadata_s:
            self.metadata = MetadataChanger(world, "metadata")
            self.others.append(self.metadata)
        if plan.quotas_s:
            names = [each.name for each in (*workload.classic, *workload.modern, *workload.shares, *workload.producers)]
            self.others += [QuotaSetter(world, "quotas", names), UnlimitedClient(world, UNLIMITED)]
