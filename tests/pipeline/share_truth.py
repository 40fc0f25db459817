"""Writes the logs of a share group whose truth it writes down: every delivery of every record, and the mistakes that it plants.

It keeps a list of what happened to each single record, and knows neither the server nor the audit: members take available
records, acknowledge them, let locks end, close sessions; leaders change and forget the locks. What is durable goes to
`__share_group_state`, what happened to `__coordinator_events`, as a server would write them.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinator.protocol import messages as m
from tests.pipeline import foreign_logs as made

GROUP, TOPIC, TOPIC_ID, PARTITION = "queue", "jobs", bytes(range(16, 32)), 0
LIMIT = 5
GAP, ACCEPT, RELEASE, REJECT = range(4)
OUTCOMES = {GAP: "gap", ACCEPT: "accepted", RELEASE: "released", REJECT: "rejected"}
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
MISTAKES = (
    "acknowledged twice",
    "delivered again",
    "two holders",
    "delivery count fell",
    "record lost",
    "told otherwise",
)


@dataclass
class Record:
    """One record. `deliveries`: member, delivery count, outcome (None: held), whether it was the last one."""

    deliveries: list[tuple[str, int, str | None, bool]] = field(default_factory=list)
    durable_count: int = 0
    holder: str | None = None
    is_done: bool = False
    has_mistake: bool = False

    @property
    def count(self) -> int:
        return self.deliveries[-1][1]

    def end(self, outcome: str | None, *, archived: bool = False) -> None:
        member, count, _, _ = self.deliveries[-1]
        self.deliveries[-1] = member, count, outcome, archived
        self.holder = None


class Story:
    """A share partition of some records, and what happened to them."""

    def __init__(self, seed: int, records: int = 60, steps: int = 250, mistakes: Sequence[str] = ()) -> None:
        self.chance = random.Random(seed)
        self.records = [Record() for _ in range(records)]
        self.planted: list[tuple[str, int]] = []
        """Mistakes: the rule and the offset."""
        self._forgotten: set[int] = set()
        """Offsets whose acknowledgement is not in the state."""
        self._passed: set[int] = set()
        """Offsets that are lost when the start moves over them."""
        self.events: list[tuple[bytes, bytes]] = []
        self.states: list[tuple[bytes, bytes]] = []
        self.time_ms = 1_760_000_000_000
        self.loaded_ms = self.time_ms
        self.number = 0
        self.start = 0
        self._state(m.ShareSnapshotValue, state_epoch=1, create_timestamp=self.time_ms, write_timestamp=self.time_ms)
        for _ in range(steps):
            self.time_ms += self.chance.randint(1, 50)
            self._step()
            if mistakes and self.chance.random() < 0.2:
                self._mistake(self.chance.choice(mistakes))
        self._finish()

    # --- what members do ----------------------------------------------------------------------------------------------

    def _step(self) -> None:
        chance, member = self.chance.random(), self.chance.choice("abc")
        held = [offset for offset, record in enumerate(self.records) if record.holder == member]
        if chance < 0.45 or not held:
            free = [offset for offset, record in enumerate(self.records) if self._is_available(record)]
            self._deliver(member, free[: self.chance.randint(1, 6)])
        elif chance < 0.85:
            some = held[: self.chance.randint(1, len(held))]
            self._acknowledge(
                member, {each: self.chance.choice((GAP, ACCEPT, ACCEPT, RELEASE, REJECT)) for each in some}
            )
        elif chance < 0.92:
            self._give_back(member, held, m.AcquisitionLockExpiredValue, "lock ended", cause="")
        elif chance < 0.97:
            self._give_back(
                member, held, m.RecordsReleasedValue, "session ended", cause="the member closed its session"
            )
        else:
            self.loaded_ms = self.time_ms
            for record in self.records:
                if record.holder is not None:
                    record.end("leader changed")

    @staticmethod
    def _is_available(record: Record) -> bool:
        return record.holder is None and not record.is_done

    def _deliver(self, member: str, offsets: Sequence[int], counts: dict[int, int] | None = None) -> None:
        ranges = {}
        for offset in offsets:
            record = self.records[offset]
            count = (counts or {}).get(offset, record.durable_count + 1)
            if record.deliveries and record.holder is not None:
                record.end("leader changed")
            record.deliveries.append((member, count, None, False))
            record.holder = member
            ranges[offset] = (count,)
        self._event(m.RecordsAcquiredValue, member, ranges)

    def _acknowledge(self, member: str, kinds: dict[int, int]) -> None:
        states, ranges, archived = {}, {}, {}
        for offset, kind in kinds.items():
            record = self.records[offset]
            is_last = kind == RELEASE and record.count >= LIMIT
            record.is_done = is_last or kind != RELEASE
            state = ACKNOWLEDGED if kind == ACCEPT else ARCHIVED if record.is_done else AVAILABLE
            states[offset], ranges[offset] = (state, record.count), (record.count, kind)
            if is_last:
                archived[offset] = (record.count,)
            record.durable_count = record.count
            record.end(OUTCOMES[kind], archived=is_last)
        self._write(states)
        self._event(m.RecordsAcknowledgedValue, member, ranges)
        self._event(m.RecordsArchivedValue, member, archived, cause="the member released the last delivery")

    def _give_back(self, member: str, offsets: Sequence[int], value: Any, outcome: str, cause: str) -> None:
        ranges = {offset: (self.records[offset].count,) for offset in offsets}
        last = {offset: each for offset, each in ranges.items() if each[0] >= LIMIT}
        for offset in offsets:
            record = self.records[offset]
            record.is_done = offset in last
            record.durable_count = record.count
            record.end(outcome, archived=offset in last)
        self._write({offset: (ARCHIVED if offset in last else AVAILABLE, *each) for offset, each in ranges.items()})
        self._event(value, member, ranges, cause=cause)
        self._event(m.RecordsArchivedValue, member, last, cause="so it was the last delivery")

    # --- mistakes -----------------------------------------------------------------------------------------------------

    def _mistake(self, rule: str) -> None:
        def those(wanted: Any) -> list[int]:
            return [each for each, record in enumerate(self.records) if not record.has_mistake and wanted(record)]

        settled = those(lambda record: record.is_done and record.deliveries[-1][2] == "accepted")
        held = those(lambda record: record.holder is not None)
        free = those(lambda record: self._is_available(record) and record.durable_count)
        found = {"acknowledged twice": settled, "delivered again": settled, "two holders": held, "told otherwise": held}
        offsets = found.get(rule, free)
        if not offsets:
            return
        offset = self.chance.choice(offsets)
        record = self.records[offset]
        match rule:
            case "acknowledged twice":
                self._event(m.RecordsAcknowledgedValue, "z", {offset: (record.count, ACCEPT)})
            case "delivered again":
                self._deliver("z", [offset], {offset: record.count + 1})
                self._acknowledge("z", {offset: ACCEPT})
            case "two holders":
                self._deliver("z", [offset], {offset: record.count + 1})
                self._acknowledge("z", {offset: ACCEPT})
            case "delivery count fell":
                if record.deliveries[-1][2] not in {"released", "session ended"}:
                    return
                self._deliver("z", [offset], {offset: record.count})
                self._acknowledge("z", {offset: ACCEPT})
            case "record lost":
                if record.deliveries[-1][2] == "leader changed":
                    return  # its member may have rejected it, and the event of that be missing
                record.is_done = True
                if self.chance.random() < 0.5:
                    self._write({offset: (ARCHIVED, record.count)})
                else:
                    self._passed.add(offset)
            case "told otherwise":
                self._event(m.RecordsAcknowledgedValue, str(record.holder), {offset: (record.count, ACCEPT)})
                record.end("accepted")
                record.is_done = True
                self._forgotten.add(offset)
        record.has_mistake = True
        self.planted.append((rule, offset))

    # --- the logs -----------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Settles all but the last records, so that the start moves."""
        keep = min([len(self.records) - 6, *self._forgotten])
        for member in "abcz":
            held = {each: ACCEPT for each, record in enumerate(self.records) if record.holder == member and each < keep}
            if held:
                self._acknowledge(member, held)
        free = [each for each, record in enumerate(self.records[:keep]) if not record.is_done]
        if free:
            self._deliver("a", free)
            self._acknowledge("a", dict.fromkeys(free, ACCEPT))
        self._write({})
        self.planted = [each for each in self.planted if each[1] not in self._passed or each[1] < self.start]

    def _write(self, states: dict[int, tuple[int, int]]) -> None:
        batches = [m.ShareUpdateValue.StateBatch(first, last, *each) for first, last, each in _ranges(states)]
        self._state(m.ShareUpdateValue, state_batches=batches, delivery_complete_count=-1, leader_epoch=-1)
        while self.start < len(self.records) and self.records[self.start].is_done and self.start not in self._forgotten:
            self.start += 1

    def _state(self, kind: Any, **fields: Any) -> None:
        number = {m.ShareSnapshotValue: m.ShareSnapshotKey, m.ShareUpdateValue: m.ShareUpdateKey}[kind]
        value = kind(snapshot_epoch=0, start_offset=self.start, **fields)
        self.states.append((made.encoded(number(GROUP, TOPIC_ID, PARTITION), 0), made.encoded(value, 0)))

    def _event(self, kind: Any, member: str, ranges: dict[int, tuple[int, ...]], **fields: Any) -> None:
        if not ranges:
            return
        self.number += 1
        value = kind(
            number=self.number, state_offset=0, time_ms=self.time_ms, group_kind=3, member_id=member,
            client_id=f"client {member}",
            topic_name=TOPIC, topic_id=TOPIC_ID, partition=PARTITION, records=len(ranges), loaded_ms=self.loaded_ms,
            ranges=[kind.OffsetRange(first, last, *each) for first, last, each in _ranges(ranges)], **fields,
        )  # fmt: skip
        key = getattr(m, kind.__name__.removesuffix("Value") + "Key")
        self.events.append((made.encoded(key(GROUP), 0), made.encoded(value, 0)))

    def write(self, data: Path) -> Path:
        """The logs as a data folder, with a topic whose log begins at 0."""
        made.write_log(data, [[made.batch(0, self.events)]], topic="__coordinator_events")
        made.write_log(data, [[made.batch(0, self.states)]], topic="__share_group_state")
        made.write_log(data, [])
        made.write_log(data, [[made.batch(0, [(None, b"job")] * len(self.records))]], topic=TOPIC)
        return data

    def deliveries(self) -> set[tuple[int, str, int, str | None, bool]]:
        """Offset, member, delivery count, outcome, and whether it was the last delivery by the limit."""
        return {(offset, *each) for offset, record in enumerate(self.records) for each in record.deliveries}


def _ranges(per_offset: dict[int, Any]) -> list[tuple[int, int, Any]]:
    found: list[tuple[int, int, Any]] = []
    for offset, each in sorted(per_offset.items()):
        if found and found[-1][1] == offset - 1 and found[-1][2] == each:
            found[-1] = found[-1][0], offset, each
        else:
            found.append((offset, offset, each))
    return found
