"""Cases for the judge, written by hand: entries in the order of their times, in seconds since the start."""

from typing import Any

from coordinator.groups.group_history import GroupEvent
from coordinator.rules.model import Entry
from coordinator_testing.certify.case import (
    Evidence,
    InputRecord,
    InstanceHistory,
    OutputRecord,
    ProcessRun,
    Truncation,
)
from coordinator_testing.certify.event import Allows
from coordinator_testing.certify.judge import Finding, judge
from coordinator_testing.certify.judge.share import ACCEPT, RELEASE

START_MS = 1_700_000_000_000
A, B = "127.0.0.1:4000", "127.0.0.1:4001"
GROUP, TOPIC, OUTPUT = "g", "in", "out"


def ms(seconds: float) -> int:
    return START_MS + round(seconds * 1000)


class Case:
    """Two instances and what they did."""

    def __init__(self, records: int = 10, *, partitions: int = 1, copies: bool = True, **evidence: Any):
        self.entries: list[Entry] = []
        self.outputs: list[OutputRecord] | None = [] if copies else None
        self.events: list[GroupEvent] = []
        self.instances = [
            InstanceHistory(index=index, listener=listener, runs=[ProcessRun(pid=100 + index, started_ms=ms(0))])
            for index, listener in enumerate((A, B))
        ]
        self.inputs = {
            partition: [InputRecord(offset, offset + 1, 0) for offset in range(records)]
            for partition in range(partitions)
        }
        self.fields = {
            "allows": Allows(rebalances=1),
            "is_transactional": False,
            "committed": dict.fromkeys(range(partitions), records),
            "began_ms": ms(0),
            "provoked_ms": ms(10),
            "settled_ms": ms(30),
            "stopped_ms": ms(31),
            **evidence,
        }

    def entry(
        self, at_s: float, listener: str, api: str, request: dict[str, Any], response: dict[str, Any] | None = None,
        *, outcome: str = "answered", connection: int = 0,
    ) -> "Case":  # fmt: skip
        number = 1 + sum(each.listener == listener for each in self.entries)
        self.entries.append(
            Entry(
                number=number,
                time_ms=ms(at_s),
                answered_ms=None if outcome == "pending" else ms(at_s) + 1,
                api=api,
                version=5,
                correlation_id=number,
                client_id="c",
                client_host="127.0.0.1",
                connection=connection or len(self.entries) + 1,
                listener=listener,
                request=request,
                response=response or {},
                outcome=outcome,
                fault=None,
            )
        )
        return self

    def fetch(self, at_s: float, who: str, first: int, last: int, partition: int = 0, **how: Any) -> "Case":
        row = {"topic": TOPIC, "partition": partition}
        found = {"first_offset": first, "last_offset": last, "count": last - first + 1, "error": None}
        return self.entry(at_s, who, "Fetch", {"partitions": [row]}, {"partitions": [row | found]}, **how)

    def commit(
        self, at_s: float, who: str, offset: int, partition: int = 0, *, error: str | None = None,
        member: str = "", epoch: int = 1, producer_id: int | None = None, producer_epoch: int = 0, **how: Any,
    ) -> "Case":  # fmt: skip
        row = {"topic": TOPIC, "partition": partition}
        request = {
            "group_id": GROUP,
            "member_id": member or who,
            "epoch": epoch,
            "partitions": [row | {"offset": offset}],
        }
        api = "OffsetCommit"
        if producer_id is not None:
            api = "TxnOffsetCommit"
            request |= {"producer_id": producer_id, "producer_epoch": producer_epoch}
        return self.entry(at_s, who, api, request, {"partitions": [row | {"error": error}]}, **how)

    def end_transaction(
        self, at_s: float, who: str, producer_id: int, *, commits: bool = True, producer_epoch: int = 0
    ) -> "Case":
        request = {"producer_id": producer_id, "producer_epoch": producer_epoch, "committed": commits}
        return self.entry(at_s, who, "EndTxn", request, {"error": None})

    def position(self, at_s: float, who: str, offset: int, partition: int = 0) -> "Case":
        row = {"topic": TOPIC, "partition": partition, "offset": offset, "error": None}
        return self.entry(at_s, who, "OffsetFetch", {}, {"groups": [{"group_id": GROUP, "partitions": [row]}]})

    def copy(self, at_s: float, who: str, *offsets: int, partition: int = 0, producer_id: int | None = None) -> "Case":
        assert self.outputs is not None
        for offset in offsets:
            place = len(self.outputs)
            row = {"topic": OUTPUT, "partition": 0, "base_offset": place, "count": 1, "error": None}
            self.entry(at_s, who, "Produce", {}, {"partitions": [row]})
            self.outputs.append(OutputRecord(0, place, partition, offset + 1, producer_id))
        return self

    def acquire(
        self, at_s: float, who: str, first: int, last: int, *, delivery: int = 1, partition: int = 0, **how: Any
    ) -> "Case":
        """A share consumer is sent records."""
        found = {"first_offset": first, "last_offset": last, "delivery_count": delivery}
        return self._share(
            at_s, who, "ShareFetch", {"acknowledgement_batches": []}, {"acquired_records": [found]}, partition, **how
        )

    def acknowledge(
        self, at_s: float, who: str, first: int, last: int, kind: int = ACCEPT, *, error: str | None = None,
        partition: int = 0, **how: Any,
    ) -> "Case":  # fmt: skip
        """A share consumer says what became of records."""
        batch = {"first_offset": first, "last_offset": last, "acknowledge_types": [kind]}
        asked = {"acknowledgement_batches": [batch]}
        return self._share(at_s, who, "ShareAcknowledge", asked, {"error": error}, partition, **how)

    def _share(
        self, at_s: float, who: str, api: str, asked: dict[str, Any], found: dict[str, Any], partition: int, **how: Any
    ) -> "Case":
        place = {"partition_index": partition}
        request = {"member_id": who, "topics": [{"topic": TOPIC, "partitions": [place | asked]}]}
        response = {"error": None, "responses": [{"topic": TOPIC, "partitions": [place | found]}]}
        return self.entry(at_s, who, api, request, response, **how)

    def join(
        self,
        at_s: float,
        who: str,
        *owned: int,
        member: str = "",
        error: str | None = None,
        instance: str | None = None,
    ) -> "Case":
        rows = [{"topic": TOPIC, "partition": partition} for partition in owned]
        protocols = [{"name": "range", "topics": [TOPIC], "owned": rows}]
        request = {"member_id": member or who, "group_instance_id": instance, "protocols": protocols}
        return self.entry(at_s, who, "JoinGroup", request, {"member_id": member or who, "error": error})

    def sync(self, at_s: float, who: str, *assigned: int) -> "Case":
        rows = [{"topic": TOPIC, "partition": partition} for partition in assigned]
        return self.entry(at_s, who, "SyncGroup", {"member_id": who}, {"error": None, "assignment": rows})

    def heartbeat(
        self, at_s: float, who: str, error: str | None = None, *, generation: int = 1, member: str = ""
    ) -> "Case":
        request = {"member_id": member or who, "generation_id": generation}
        return self.entry(at_s, who, "Heartbeat", request, {"error": error})

    def rebalance(self, at_s: float, epoch: int = 2, cause: str = "a member joins") -> "Case":
        """A rebalance that takes a second."""
        for event, time_s in (("RebalanceStarted", at_s), ("RebalanceCompleted", at_s + 1)):
            self.events.append(GroupEvent(type=event, offset=epoch, time_ms=ms(time_s), epoch=epoch, cause=cause))
        return self

    def evidence(self) -> Evidence:
        return Evidence(
            group=GROUP,
            topic=TOPIC,
            output_topic=None if self.outputs is None else OUTPUT,
            instances=self.instances,
            entries=sorted(self.entries, key=lambda entry: entry.time_ms),
            group_events=self.events,
            inputs=self.inputs,
            outputs=self.outputs,
            **self.fields,
        )

    def finding(self, promise: str) -> Finding:
        return next(each for each in judge(self.evidence()) if each.promise == promise)


def right(*, copies: bool = True, **evidence: Any) -> Case:
    """One partition of ten records: A reads and commits the first four, then B takes it over and does the rest."""
    case = Case(copies=copies, **evidence)
    case.join(1, A).sync(2, A, 0).position(3, A, -1).fetch(4, A, 0, 3)
    if copies:
        case.copy(5, A, 0, 1, 2, 3)
    case.commit(9, A, 4).join(11, A).rebalance(11).join(11.1, B).sync(12, A).sync(12.1, B, 0)
    case.position(13, B, 4).fetch(14, B, 4, 9)
    if copies:
        case.copy(15, B, 4, 5, 6, 7, 8, 9)
    return case.commit(16, B, 10)


def shared(*, copies: bool = True, **evidence: Any) -> Case:
    """Share consumers process and accept ten records; A had four of them before B, and gave them back."""
    case = Case(copies=copies, protocol="share", **evidence).acquire(4, A, 0, 3)
    if copies:
        case.copy(5, A, 0, 1, 2, 3)
    case.acknowledge(6, A, 0, 3).acquire(11, A, 4, 7).acknowledge(12, A, 4, 7, RELEASE)
    case.acquire(13, B, 4, 7, delivery=2).acquire(13.1, B, 8, 9)
    if copies:
        case.copy(14, B, 4, 5, 6, 7, 8, 9)
    return case.acknowledge(15, B, 4, 9)


def truncated(*, copies: bool = True, **evidence: Any) -> Case:
    """A reads and commits the ten records of a partition, which loses the last four at 15 s and gets six others there."""
    evidence = {"truncations": [Truncation(ms(15), 0, 6, 10)], "committed": {0: 12}} | evidence
    case = Case(copies=copies, **evidence)
    old = [each._replace(lost_ms=ms(15)) if each.offset >= 6 else each for each in case.inputs[0]]
    case.inputs[0] = [*old, *(InputRecord(offset, offset + 15, 0, ms(15)) for offset in range(6, 12))]
    case.join(1, A).sync(2, A, 0).position(3, A, -1).fetch(4, A, 0, 9)
    if copies:
        case.copy(5, A, *range(10))
    return case.commit(9, A, 10)
