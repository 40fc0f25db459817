"""A generation that members know is durable before it is assigned, and a crash brings its round back."""

from dataclasses import dataclass
from typing import Any

import pytest

from coordinator.groups.classic.round import sync_key
from coordinator.groups.delete_groups import delete_groups
from coordinator.groups.offsets.commit import commit
from coordinator.groups.offsets.delete import delete
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    ClassicGroupGenerationKey,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitRequest,
    OffsetCommitValue,
    OffsetDeleteRequest,
)
from coordinator.runtime.result import Record
from tests.groups.harness import GroupHarness, subscription

TWO_PROTOCOLS = {"range": subscription(), "sticky": subscription()}


def completing(h: GroupHarness, **options: Any) -> tuple[str, str]:
    """Forms generation 2 of a group that was Stable in generation 1; returns its leader and its follower."""
    leader, follower = h.stable(**options)
    options.pop("static", None)
    for member_id in (leader, follower):
        h.join(member_id=member_id, instance=h.group().members[member_id].group_instance_id, **options)
    assert (h.group().state, h.group().generation) == ("CompletingRebalance", 2)
    return leader, follower


def commit_code(h: GroupHarness, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(0, 7, -1, "")
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic("t", bytes(16), [part])]
    try:
        h.call(commit, OffsetCommitRequest("g", generation, member_id, instance, topics=topics), 8)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def forming_records(h: GroupHarness) -> list[Record]:
    return [record for record in h.records if isinstance(record.key, ClassicGroupGenerationKey)]


# --- the record -------------------------------------------------------------------------------------------------------


def test_the_generation_is_written_with_the_responses_that_name_it():
    h = GroupHarness()
    leader = h.join_new_member(session_ms=12_000, rebalance_ms=34_000, protocols=TWO_PROTOCOLS)
    static = h.join_new_member(instance="i", client_id="c", protocols=TWO_PROTOCOLS)
    written = len(h.records)
    h.advance(0)
    (record,) = h.records[written:]
    value: Any = record.value
    assert record.key == ClassicGroupGenerationKey("g")
    assert (value.generation, value.protocol_type, value.protocol, value.leader) == (1, "consumer", "range", leader)
    first, second = value.members
    assert (first.member_id, first.group_instance_id, first.session_timeout, first.rebalance_timeout) == (
        leader, None, 12_000, 34_000,
    )  # fmt: skip
    assert (second.member_id, second.group_instance_id, second.client_id, second.client_host) == (
        static, "i", "c", "/127.0.0.1",
    )  # fmt: skip
    assert second.subscription == subscription()
    assert h.group().forming is value


def test_an_assignment_removes_the_record_in_the_same_batch():
    h = GroupHarness()
    leader, _ = completing(h)
    before = h.batch_ends[-1]
    h.sync("g", leader, 2, {})
    stable, tombstone = h.records[before:]
    assert stable.key == GroupMetadataKey("g")
    assert tombstone == Record(ClassicGroupGenerationKey("g"), None)
    assert h.group().forming is None


def test_a_group_that_becomes_empty_removes_the_record_in_the_same_batch():
    h = GroupHarness()
    leader, follower = completing(h)
    before = h.batch_ends[-1]
    h.leave("g", leader, follower)
    empty, tombstone = h.records[before:]
    assert (empty.key, empty.value.members) == (GroupMetadataKey("g"), [])
    assert tombstone == Record(ClassicGroupGenerationKey("g"), None)
    h.restart()
    assert (h.group().state, h.group().generation) == ("Empty", 3)


def test_a_static_member_that_returns_in_stable_writes_no_second_tombstone():
    h = GroupHarness()
    leader, _ = h.stable(static=True)
    before = len(h.records)
    assert h.join(instance="i0").ok
    (record,) = h.records[before:]
    assert (record.key, leader in str(record.value)) == (GroupMetadataKey("g"), False)


def test_a_simple_group_gets_the_record_that_a_generation_belongs_to():
    h = GroupHarness()
    h.records.append(
        Record(
            OffsetCommitKey("g", "t", 0),
            OffsetCommitValue(offset=1, metadata="", commit_timestamp=h.now_ms),
            4,
        )
    )
    h.restart()
    member_id = h.join_new_member()
    h.advance(0)
    assert [type(record.key).__name__ for record in h.records[1:]] == ["GroupMetadataKey", "ClassicGroupGenerationKey"]
    h.restart()
    assert (h.group().state, h.group().generation) == ("CompletingRebalance", 1)
    assert h.heartbeat("g", member_id, 1).ok


# --- after a crash ----------------------------------------------------------------------------------------------------


def test_the_round_is_still_there_after_a_crash():
    h = GroupHarness()
    completing(h, static=True)
    before = h.group()
    h.restart()
    after = h.group()
    for name in (
        "state",
        "generation",
        "protocol_type",
        "protocol_name",
        "leader_id",
        "static_members",
        "pending_syncs",
    ):
        assert getattr(after, name) == getattr(before, name), name
    assert list(after.members) == list(before.members)
    for member_id, was in before.members.items():
        now = after.members[member_id]
        for name in ("group_instance_id", "client_id", "client_host", "session_timeout_ms", "rebalance_timeout_ms"):
            assert getattr(now, name) == getattr(was, name), name
        assert now.assignment == was.assignment, "it holds what the last assigned generation gave it"
    assert after.subscribed_topics == {"t"}
    assert after.expiry_base() is None


def test_syncs_are_parked_for_the_leader_of_the_resumed_generation():
    h = GroupHarness()
    leader, follower = completing(h)
    h.restart()
    waiting = h.sync("g", follower, 2)
    assert waiting.is_parked
    assert h.heartbeat("g", leader, 2).ok
    assert commit_code(h, leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.sync("g", leader, 2, {leader: b"L", follower: b"F"}).reply.assignment == b"L"
    assert waiting.reply.assignment == b"F"
    assert (h.group().state, h.group().generation) == ("Stable", 2)


@pytest.mark.parametrize("generation", [0, 1, 3])
def test_other_generations_are_refused_after_a_crash(generation: int):
    h = GroupHarness()
    leader, _ = completing(h)
    h.restart()
    assert h.sync("g", leader, generation, {}).error is ErrorCode.ILLEGAL_GENERATION
    assert h.heartbeat("g", leader, generation).error is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(h, leader, generation) is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("by_leader", [True, False])
@pytest.mark.parametrize("protocols", [None, TWO_PROTOCOLS])
def test_any_join_ends_the_resumed_round_and_all_rejoin(by_leader: bool, protocols: Any):
    h = GroupHarness()
    leader, follower = completing(h, **({} if protocols is None else {"protocols": protocols}))
    h.restart()
    first, second = (leader, follower) if by_leader else (follower, leader)
    parked = h.sync("g", second, 2) if by_leader else None
    joining = h.join(member_id=first, protocols=protocols)
    assert joining.is_parked
    assert parked is None or parked.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.heartbeat("g", second, 2).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.join(member_id=second, protocols=protocols).ok
    assert joining.reply.generation_id == 3
    again = h.join(member_id=second, protocols=protocols)
    assert again.reply.generation_id == 3, "the new generation is not a resumed one: a repeated join receives it"


def test_a_new_member_ends_the_resumed_round_when_it_joins_with_its_id():
    h = GroupHarness()
    leader, _ = completing(h)
    h.restart()
    member_id = h.join().reply.member_id
    assert h.heartbeat("g", leader, 2).ok
    h.join(member_id=member_id)
    assert h.heartbeat("g", leader, 2).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_static_member_that_returns_ends_the_resumed_round():
    h = GroupHarness()
    leader, follower = completing(h, static=True)
    h.restart()
    assert h.join(instance="i1").is_parked
    assert h.heartbeat("g", leader, 2, instance="i0").error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.heartbeat("g", follower, 2, instance="i1").error is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("leaves", [0, 1])
def test_a_member_that_leaves_ends_the_resumed_round(leaves: int):
    h = GroupHarness()
    members = completing(h)
    h.restart()
    assert h.leave("g", members[leaves]).ok
    assert h.join(member_id=members[1 - leaves]).reply.generation_id == 3


def test_a_round_that_had_returned_to_preparing_resumes_in_its_last_generation():
    h = GroupHarness()
    leader, follower = completing(h)
    h.join_new_member()
    assert h.group().state == "PreparingRebalance"
    h.restart()
    assert (h.group().state, h.group().generation) == ("CompletingRebalance", 2)
    assert h.join(member_id=leader).is_parked
    assert h.join(member_id=follower).reply.generation_id == 3


def test_a_lost_generation_admits_no_commit_of_a_paused_static_member():
    """Its number would be given out again and its partition to another member."""
    h = GroupHarness()
    leader, paused = completing(h, static=True)
    h.restart()
    assert commit_code(h, paused, 2, "i1") is ErrorCode.REBALANCE_IN_PROGRESS
    h.join(member_id=leader, instance="i0")
    h.join(instance="i1")
    assert h.group().generation == 3
    h.sync("g", leader, 3, {leader: b"L"}, instance="i0")
    assert commit_code(h, paused, 2, "i1") is ErrorCode.FENCED_INSTANCE_ID
    assert commit_code(h, paused, 3, "i1") is ErrorCode.FENCED_INSTANCE_ID


def test_members_that_do_not_sync_after_a_crash_are_removed_in_time():
    h = GroupHarness()
    leader, follower = completing(h, session_ms=1_000_000, rebalance_ms=20_000)
    h.advance(19_999)
    h.restart()
    assert h.timers[sync_key(h.group())][0] == h.now_ms + 20_000
    h.sync("g", follower, 2)
    h.advance(20_000)
    assert (h.group().state, list(h.group().members)) == ("PreparingRebalance", [follower])
    assert h.join(member_id=follower).reply.generation_id == 3
    assert leader not in h.group().members


def test_sessions_start_again_in_a_resumed_round():
    h = GroupHarness()
    leader, follower = completing(h, session_ms=10_000)
    h.advance(9_999)
    h.restart()
    h.advance(9_999)
    assert h.heartbeat("g", leader, 2).ok
    h.advance(1)
    assert list(h.group().members) == [leader]
    assert follower not in h.group().members


def test_the_leader_gets_the_same_metadata_in_a_resumed_round_where_stale_claims_are_cleared():
    h = GroupHarness(group_classic_sanitize_owned_partitions=True)
    leader, follower = h.stable()
    stale = {"range": subscription(owned={"t": [0, 2]}, generation=0)}
    h.join(member_id=leader, protocols={"range": subscription(owned={"t": [1]}, generation=1)})
    h.join(member_id=follower, protocols=stale)
    before = h.group().claims
    assert before.cleared.keys() == {follower}
    h.restart()
    assert h.group().claims == before
    assert len(h.facts_named("owned_partitions_wrong")) == 1, "the claims were reported when they were made"


def test_a_loaded_round_with_too_many_members_starts_again():
    h = GroupHarness()
    leader, follower = completing(h)
    h.restart(group_max_size=1)
    assert h.group().state == "PreparingRebalance"
    assert sync_key(h.group()) not in h.timers
    h.join(member_id=follower)
    assert h.join(member_id=leader).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_resumed_group_is_not_empty():
    h = GroupHarness()
    completing(h)
    h.restart()
    assert h.call(delete_groups, ["g"]).reply.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    request = OffsetDeleteRequest("g", [])
    assert h.call(delete, request).reply.error_code == ErrorCode.NONE


def test_no_leader_in_the_record_means_the_first_member():
    h = GroupHarness()
    leader, _ = completing(h)
    h.records[-1].value.leader = "gone"
    h.restart()
    assert h.group().leader_id == leader


# --- other logs -------------------------------------------------------------------------------------------------------


def test_a_later_group_record_makes_the_forming_generation_obsolete():
    """A Kafka that took the log over has completed a rebalance: it skips the record and does not delete it."""
    h = GroupHarness()
    leader, _ = h.stable()
    assigned = h.records[-2]
    h.join(member_id=leader)
    h.join(member_id=list(h.group().members)[1])
    forming = h.records[-1]
    h.records += [assigned]
    h.restart()
    assert (h.group().state, h.group().generation, h.group().forming) == ("Stable", 1, None)
    h.records += [forming]
    h.restart()
    assert (h.group().state, h.group().generation) == ("CompletingRebalance", 2)


@pytest.mark.parametrize("tombstone_compacted", [True, False])
def test_the_forming_generation_of_a_deleted_group_is_a_leftover(tombstone_compacted: bool):
    """A Kafka that took the log over has deleted the group, and not this record, which it does not know."""
    h = GroupHarness()
    completing(h)
    forming = forming_records(h)[-1]
    h.records = [forming, *([] if tombstone_compacted else [Record(GroupMetadataKey("g"), None)])]
    h.restart()
    assert h.groups.by_id == {}


def test_a_log_without_the_record_loads_as_before():
    h = GroupHarness()
    leader, _ = completing(h)
    h.records = [record for record in h.records if not isinstance(record.key, ClassicGroupGenerationKey)]
    h.restart()
    assert (h.group().state, h.group().generation) == ("Stable", 1)
    assert h.heartbeat("g", leader, 1).ok


# --- a crash at every record boundary ---------------------------------------------------------------------------------


@dataclass
class Known:
    """The content of a generation as JoinGroup responses gave it to members."""

    generation: int
    from_record: int
    """The number of records that were written when the responses were sent."""
    to_record: int | None
    """The number of records when the group was deleted."""
    leader: str
    protocol: str
    members: list[str]


class Witness:
    """Notes every generation that a leader learned of, and when."""

    def __init__(self, h: GroupHarness) -> None:
        self.h = h
        self.known: list[Known] = []
        self._read: set[int] = set()

    def look(self) -> None:
        for index, sent in enumerate(self.h.sent):
            reply = sent.reply
            if reply is not None and index not in self._read:
                self._read.add(index)
                if reply.NAME == "JoinGroupResponse" and reply.members and not reply.error_code:
                    members = [each.member_id for each in reply.members]
                    at = len(self.h.records)
                    self.known.append(Known(reply.generation_id, at, None, reply.leader, reply.protocol_name, members))

    def deleted(self) -> None:
        for each in self.known:
            if each.to_record is None:
                each.to_record = len(self.h.records)


def a_long_history() -> tuple[GroupHarness, Witness]:
    """Every way in which a round begins, is interrupted and ends."""
    h = GroupHarness()
    witness = Witness(h)

    def everybody_joins() -> None:
        for member_id, member in list(h.group().members.items()):
            if member.awaiting_join is None and h.group().state == "PreparingRebalance":
                h.join(member_id=member_id, instance=member.group_instance_id, protocols=TWO_PROTOCOLS)
        h.advance(0)
        witness.look()

    def leader_syncs() -> None:
        group = h.group()
        assignments = {member_id: member_id.encode() for member_id in group.members}
        instance = group.members[group.leader_id].group_instance_id
        assert h.sync("g", group.leader_id, group.generation, assignments, instance=instance).ok
        witness.look()

    for _ in range(2):
        h.join_new_member(protocols=TWO_PROTOCOLS)
        h.join_new_member(instance="i", protocols=TWO_PROTOCOLS)
        everybody_joins()
        leader_syncs()
        h.join_new_member(protocols=TWO_PROTOCOLS)  # a generation that a newcomer interrupts
        everybody_joins()
        h.join_new_member(protocols=TWO_PROTOCOLS)
        everybody_joins()
        h.leave("g", h.group().leader_id)  # its leader leaves before it assigns
        everybody_joins()
        leader_syncs()
        h.join(instance="i", protocols=TWO_PROTOCOLS)  # the static member returns: in Stable, and while completing
        witness.look()
        h.join(member_id=h.group().leader_id, protocols=TWO_PROTOCOLS, instance=_instance(h, h.group().leader_id))
        everybody_joins()
        h.join(instance="i", protocols=TWO_PROTOCOLS)
        everybody_joins()
        assert h.group().state == "CompletingRebalance"
        h.advance(100_000)  # nobody syncs, nobody is alive
        assert h.group().state == "Empty"
        h.join_new_member(protocols=TWO_PROTOCOLS)
        everybody_joins()
        leader_syncs()
        h.leave("g", next(iter(h.group().members)))
        h.call(delete_groups, ["g"])
        witness.deleted()
    return h, witness


def _instance(h: GroupHarness, member_id: str) -> str | None:
    return h.group().members[member_id].group_instance_id


def _holder(member_id: str) -> str:
    """The static member is the same under each of its member ids."""
    return "i" if member_id.startswith("i-") else member_id


def test_a_crash_at_any_record_boundary_takes_no_known_generation_back():
    """Nor is its number given out again: the next generation that forms is a later one."""
    h, witness = a_long_history()
    assert len(witness.known) >= 12
    for cut in range(len(h.records) + 1):
        known = [
            each
            for each in witness.known
            if each.from_record <= cut and (each.to_record is None or cut < each.to_record)
        ]
        after = GroupHarness()
        after.records = h.records[:cut]
        after.restart()
        if not known:
            continue
        last, group = known[-1], after.group()
        assert group.generation >= max(each.generation for each in known), f"cut after {cut} records"
        if group.generation == last.generation and group.members:
            now = (_holder(group.leader_id), group.protocol_name, list(map(_holder, group.members)))
            known_as = (_holder(last.leader), last.protocol, list(map(_holder, last.members)))
            assert now == known_as, f"cut after {cut} records"
        newcomer = after.join(version=3, client_id="newcomer", protocols=TWO_PROTOCOLS)
        after.advance(400_000)
        assert newcomer.reply.generation_id > last.generation, f"cut after {cut} records"
