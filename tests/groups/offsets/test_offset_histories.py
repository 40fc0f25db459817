"""Random histories of a group and a simple one, beside a naive model.

what is committed is what is fetched, until it is deleted or expires lawfully      (I5, I6)
what may expire does, by the next check
a restart changes nothing, and neither does any compaction Kafka's cleaner could do before it   (I1, I2)
"""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from coordinator.groups.classic.states import State
from tests.groups.offsets.group_states import MEMBER, all_leave, live_group
from tests.groups.offsets.offset_coordinator import MINUTE_MS, OffsetCoordinator

pytestmark = pytest.mark.long

RETENTION_MS = 60 * MINUTE_MS
CHECK_MS = MINUTE_MS
GROUPS = ["", "a"]
PARTITIONS = [("topic", 0), ("other", 0)]

group_ids = st.sampled_from(GROUPS)
some_partitions = st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=2, unique=True)


class OffsetHistory(RuleBasedStateMachine):
    """The model: what each group committed last, whether it has members, and since when it has none."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = OffsetCoordinator(
            offsets_retention_minutes=RETENTION_MS // MINUTE_MS, offsets_retention_check_interval_ms=CHECK_MS
        )
        for topic in ("topic", "other"):
            self.coordinator.topics.add(topic, 2)
        self.committed: dict[str, dict[Any, tuple[int, int, int | None]]] = {group_id: {} for group_id in GROUPS}
        """group -> partition -> (offset, commit time, expiry of its own)"""
        self.subscribed: dict[str, frozenset[str]] = {}
        """Groups with members, and what these subscribe to."""
        self.empty_since: dict[str, int] = {}
        """Groups that have had members."""
        self.next_offset = 0

    # --- the world ----------------------------------------------------------------------------------------------------

    @rule(
        group_id=group_ids,
        partitions=some_partitions,
        retention_ms=st.sampled_from([*[None] * 6, 0, CHECK_MS, 2 * RETENTION_MS]),
    )
    def commit(self, group_id: str, partitions: list[Any], retention_ms: int | None) -> None:
        self.next_offset += 1
        who: dict[str, Any] = {}
        if group_id in self.subscribed:
            who = {"member_id": MEMBER, "generation": self.coordinator.state.by_id[group_id].generation}
        version, expiry_ms = 8, None
        if retention_ms is not None:
            version, expiry_ms = 2, self.coordinator.now_ms + retention_ms
            who["retention_time_ms"] = retention_ms
        codes = self.coordinator.commit(group_id, dict.fromkeys(partitions, self.next_offset), version, **who)
        assert set(codes.values()) == {0}
        for partition in partitions:
            self.committed[group_id][partition] = (self.next_offset, self.coordinator.now_ms, expiry_ms)

    @rule(group_id=group_ids, partitions=some_partitions)
    def commit_of_a_stranger(self, group_id: str, partitions: list[Any]) -> None:
        codes = self.coordinator.commit(group_id, dict.fromkeys(partitions, -99), member_id="stranger", generation=1)
        assert 0 not in codes.values()

    @precondition(lambda self: "a" not in self.subscribed)
    @rule(topics=st.sampled_from([("topic",), ("other",), (), ("topic", "other")]))
    def members_join(self, topics: tuple[str, ...]) -> None:
        live_group(self.coordinator, "a", topics=topics)
        self.subscribed["a"] = frozenset(topics)
        self.empty_since.pop("a", None)

    @precondition(lambda self: "a" in self.subscribed)
    @rule()
    def members_leave(self) -> None:
        del self.subscribed["a"]
        all_leave(self.coordinator, self.coordinator.state.by_id["a"])
        self.empty_since["a"] = self.coordinator.now_ms

    def delete_offsets(self, group_id: str, partitions: list[Any]) -> None:
        answer = self.coordinator.delete_offsets(group_id, partitions)
        if group_id and answer.error_code == 0:
            for partition in partitions:
                if partition[0] not in self.subscribed.get(group_id, ()):
                    self.committed[group_id].pop(partition, None)
        else:
            assert not group_id or not self.committed[group_id]

    @rule(group_id=group_ids, partitions=some_partitions, whole=st.booleans())
    def delete(self, group_id: str, partitions: list[Any], *, whole: bool) -> None:
        if whole:
            self.delete_group(group_id)
        else:
            self.delete_offsets(group_id, partitions)

    def delete_group(self, group_id: str) -> None:
        ((_, code),) = self.coordinator.delete_groups(group_id)
        assert not (code == 0 and group_id in self.subscribed)
        if code == 0:
            self.committed[group_id].clear()
            self.empty_since.pop(group_id, None)

    @rule(ms=st.sampled_from([CHECK_MS // 2, CHECK_MS, RETENTION_MS // 2, RETENTION_MS, RETENTION_MS + 2 * CHECK_MS]))
    def pass_time(self, ms: int) -> None:
        self.coordinator.pass_time(ms)
        for group_id, partitions in self.committed.items():
            left = self.coordinator.fetch(group_id)
            for partition in list(partitions):
                due_ms = self.due_ms(group_id, partition)
                if partition not in left:
                    assert due_ms is not None
                    assert due_ms <= self.coordinator.now_ms, f"{group_id} {partition} expired too early"
                    del partitions[partition]
                else:
                    may_go_ms = max(due_ms or 0, self.empty_since.get(group_id, 0))
                    late = due_ms is not None and may_go_ms + 2 * CHECK_MS < self.coordinator.now_ms
                    assert not late, f"{group_id} {partition} should be gone"
            if group_id not in self.coordinator.state.by_id:
                assert group_id not in self.subscribed
                assert not partitions
                self.empty_since.pop(group_id, None)

    def due_ms(self, group_id: str, partition: Any) -> int | None:
        """When an offset may go, or None while it may not."""
        _, commit_ms, expiry_ms = self.committed[group_id][partition]
        if partition[0] in self.subscribed.get(group_id, ()):
            return None
        if expiry_ms is not None:
            return expiry_ms
        return self.empty_since.get(group_id, commit_ms) + RETENTION_MS

    @rule(seed=st.one_of(st.none(), st.integers(0, 2**32)))
    def restart(self, seed: int | None) -> None:
        before = self.digest()
        self.coordinator.restart(None if seed is None else lambda log: compacted(log, random.Random(seed)))
        assert self.digest() == before

    # --- what holds always --------------------------------------------------------------------------------------------

    @invariant()
    def what_was_committed_is_what_is_fetched(self) -> None:
        for group_id, partitions in self.committed.items():
            assert self.coordinator.fetch(group_id) == {key: offset for key, (offset, _, _) in partitions.items()}

    @invariant()
    def offsets_are_counted(self) -> None:
        assert self.coordinator.state.offsets.count == sum(map(len, self.committed.values()))

    @invariant()
    def a_group_is_there_while_anything_is_known_of_it(self) -> None:
        groups = self.coordinator.state
        assert set(groups.offsets.by_group) <= set(groups.by_id)
        for group_id, group in groups.by_id.items():
            assert group.stored is not None or group_id in groups.offsets.by_group
            assert (group.state is State.STABLE) == (group_id in self.subscribed)

    def digest(self) -> Any:
        groups = self.coordinator.state
        rounds = {
            group_id: (group.stored, group.state, group.generation, group.protocol_type, set(group.members))
            for group_id, group in groups.by_id.items()
        }
        return dict(groups.offsets.by_group), groups.offsets.count, rounds


def compacted(log: list[Any], chance: random.Random) -> list[Any]:
    """What a cleaner may leave: the last record of each key always, a last tombstone as long as an older record is left."""
    last = {key: position for position, (key, _) in enumerate(log)}
    kept = [position == last[key] or chance.random() < 0.5 for position, (key, _) in enumerate(log)]
    older = {key for position, (key, _) in enumerate(log) if kept[position] and position != last[key]}
    return [
        entry
        for position, entry in enumerate(log)
        if kept[position] and not (entry[1] is None and entry[0] not in older and chance.random() < 0.5)
    ]


TestOffsetHistory = OffsetHistory.TestCase
TestOffsetHistory.settings = settings(max_examples=50, stateful_step_count=50, suppress_health_check=list(HealthCheck))
