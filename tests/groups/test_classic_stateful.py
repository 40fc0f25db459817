"""Random histories of classic groups with virtual time. These invariants hold after every step:

    replaying the log gives the durable half of the state                             (I1)
    replaying any legal compaction of the log gives the same                          (I2)
    generations never decrease, and each has one list of members and one assignment   (I7, I8)
    each group's state agrees with its members, and its timers with both              (I11, I16)
    no request gets two responses, and in the end every request has one               (I14)

`ClassicGroup.enter` asserts itself that every transition is legal. The clients are realistic but slightly misbehaved: they
repeat requests, use outdated ids and generations, and notice a change only when they read a response.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.member import session_key
from coordinator.groups.classic.round import pending_key, sync_key
from coordinator.groups.classic.states import State
from coordinator.groups.delete_groups import delete_groups
from coordinator.groups.force_rebalance import ForceRebalance, force_rebalance
from coordinator.groups.offsets.commit import commit
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import GroupMetadataKey, OffsetCommitRequest
from tests.groups.harness import GroupHarness, SentRequest, subscription

pytestmark = pytest.mark.long

GROUPS = ("g", "h")
SESSION_MS = 10_000
REBALANCE_MS = 15_000
PROTOCOLS = [
    {"range": subscription(["t"])},
    {"range": subscription(["t"], {"t": [0, 1]}, 1)},
    {"range": subscription(["t"]), "sticky": subscription(["u"])},
    {"sticky": b"no subscription", "range": b"\x00"},
]

clients = st.integers(0, 4)


@dataclass
class Client:
    """The view that one client has of its membership."""

    group_id: str
    instance: str | None
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    seen: list[str] = field(default_factory=list)
    request: SentRequest | None = None
    """The last request; None once its response has been read."""

    def read(self) -> None:
        """Reads the response to the last request, if there is one."""
        if self.request is None or self.request.reply is None:
            return
        reply, self.request = self.request.reply, None
        if reply.NAME == "JoinGroupResponse":
            if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = reply.member_id
            elif reply.error_code == ErrorCode.NONE:
                self.member_id, self.generation = reply.member_id, reply.generation_id
                self.leads, self.seen = reply.leader == reply.member_id, [each.member_id for each in reply.members]
        if reply.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id, self.generation, self.leads = "", -1, False
        elif reply.error_code == ErrorCode.ILLEGAL_GENERATION:
            self.generation = -1


class ClassicHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.h = GroupHarness(
            group_initial_rebalance_delay_ms=3_000, group_new_member_join_timeout_ms=60_000, group_max_size=4
        )
        self.clients = [
            Client("g", None), Client("g", None), Client("g", "one"), Client("g", "one"), Client("h", None),
        ]  # fmt: skip
        self.highest: dict[str, tuple[ClassicGroup, int]] = {}
        self.highest_stored: dict[str, int] = {}
        self.assigned: dict[tuple[str, int, int, str], bytes] = {}
        """(group, number of its deletions, generation, member) -> the assignment that SyncGroup returned."""
        self.known: dict[tuple[str, int, int], tuple[str, set[str]]] = {}
        """(group, number of its deletions, generation) -> the protocol and the members that its leader received."""
        self.deletions = dict.fromkeys(GROUPS, 0)
        self.read_to = 0
        self.lost: set[int] = set()
        """Indexes of the requests that were parked in a crash."""
        self.offset = 0

    # --- requests of the clients --------------------------------------------------------------------------------------

    @rule(
        index=clients,
        protocols=st.sampled_from(PROTOCOLS),
        version=st.sampled_from([3, 8, 9, 9]),
        sends_generation=st.sampled_from([False, False, True]),
    )
    def join(self, index: int, protocols: dict[str, bytes], version: int, sends_generation: bool) -> None:
        client = self.clients[index]
        instance = client.instance if version >= 5 else None
        client.request = self.h.join(
            client.group_id,
            client.member_id,
            instance=instance,
            protocols=protocols,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            generation=client.generation if sends_generation and version >= 8 else -1,
            version=version,
        )

    @rule(index=clients, left_out=st.booleans())
    def sync(self, index: int, left_out: bool) -> None:
        client = self.clients[index]
        seen = client.seen[1:] if left_out else client.seen
        assignments = {each: f"{each}@{client.generation}".encode() for each in seen} if client.leads else {}
        client.request = self.h.sync(
            client.group_id, client.member_id, client.generation, assignments, instance=client.instance, version=4
        )

    @rule(index=clients, off_by=st.sampled_from([0, 0, 0, -1, 1]))
    def heartbeat(self, index: int, off_by: int) -> None:
        client = self.clients[index]
        response = self.h.heartbeat(
            client.group_id, client.member_id, client.generation + off_by, instance=client.instance
        )
        if response.ok:
            group = self.h.group(client.group_id)
            assert (group.generation, client.member_id in group.members) == (client.generation + off_by, True)

    @rule(index=clients, by_instance=st.booleans())
    def leave(self, index: int, by_instance: bool) -> None:
        client = self.clients[index]
        self.h.leave(client.group_id, ("" if by_instance else client.member_id, client.instance))

    @rule(index=clients, partition=st.integers(0, 1))
    def commit(self, index: int, partition: int) -> None:
        client = self.clients[index]
        self.offset += 1
        part = OffsetCommitRequest.OffsetCommitRequestPartition(partition, self.offset, -1, "")
        request = OffsetCommitRequest(
            client.group_id, client.generation, client.member_id, client.instance,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic("t", bytes(16), [part])],
        )  # fmt: skip
        try:
            self.h.call(commit, request, 8)
        except KafkaError:
            return
        assert self.h.groups.offsets.get(client.group_id, "t", partition).offset == self.offset

    # --- other events -------------------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([0, 1_000, 3_000, 9_999, 15_000, 61_000]))
    def advance(self, ms: int) -> None:
        self.h.advance(ms)

    @rule(count=st.integers(1, 4))
    def settle_down(self, count: int) -> None:
        """Some clients follow the protocol until their groups are Stable."""
        obedient = self.clients[4 - count :]
        for _ in range(8):
            for client in obedient:
                if client.request is None:
                    self._send_next_request(client)
            self.h.advance(1_000)
            self._read_all()

    def _send_next_request(self, client: Client) -> None:
        identity = {"instance": client.instance}
        heartbeat = None
        if client.generation >= 0:
            heartbeat = self.h.heartbeat(client.group_id, client.member_id, client.generation, **identity)
        if heartbeat is None or not heartbeat.ok:
            timeouts = {"session_ms": SESSION_MS, "rebalance_ms": REBALANCE_MS}
            client.request = self.h.join(client.group_id, client.member_id, **identity, **timeouts)
        elif client.member_id in self.h.group(client.group_id).pending_syncs:
            assignments = {each: f"{each}@{client.generation}".encode() for each in client.seen if client.leads}
            client.request = self.h.sync(
                client.group_id, client.member_id, client.generation, assignments, version=4, **identity
            )
        self._read_all()

    @rule(group_id=st.sampled_from(GROUPS))
    def force(self, group_id: str) -> None:
        """An administrator rebalances the group."""
        with suppress(KafkaError):
            self.h.call(force_rebalance, ForceRebalance(group_id, "a test"))

    @rule(group_id=st.sampled_from(GROUPS))
    def delete(self, group_id: str) -> None:
        self.h.call(delete_groups, [group_id])

    @rule()
    def crash(self) -> None:
        self._read_all()
        self.lost |= {index for index, request in enumerate(self.h.sent) if request.is_parked}
        before = self.h.durable()
        self.h.restart()
        assert self.h.durable() == before
        for client in self.clients:
            client.request = None

    @rule(data=st.data())
    def compact(self, data: Any) -> None:
        """I2: the log compacted up to any position gives the same state, and replaces the log from here on."""
        records = self.h.records
        compacted = data.draw(st.integers(0, len(records)), label="compacted up to")
        drops_tombstones = data.draw(st.booleans(), label="tombstones are old enough")
        last = {repr(record.key): i for i, record in enumerate(records[:compacted])}
        kept = [
            record
            for i, record in enumerate(records)
            if i >= compacted or (last[repr(record.key)] == i and not (drops_tombstones and record.value is None))
        ]
        assert self.h.durable(kept) == self.h.durable()
        self._note_deletions()
        self.h.records = kept
        self.read_to = len(kept)

    # --- invariants ---------------------------------------------------------------------------------------------------

    def _note_deletions(self) -> None:
        """Counts deletions, by request or by expiration: a later group of the same name is a different one."""
        for record in self.h.records[self.read_to :]:
            if isinstance(record.key, GroupMetadataKey) and record.value is None:
                self.deletions[record.key.group] += 1
                self.highest.pop(record.key.group, None)
                self.highest_stored.pop(record.key.group, None)
        self.read_to = len(self.h.records)

    def _read_all(self) -> None:
        self._note_deletions()
        for client in self.clients:
            if client.request is not None and client.request.reply is not None:
                self._note_generation(client, client.request.reply)
                self._note_assignment(client, client.request.reply)
            client.read()

    def _note_generation(self, client: Client, reply: Any) -> None:
        if reply.NAME == "JoinGroupResponse" and reply.members:
            key = (client.group_id, self.deletions[client.group_id], reply.generation_id)
            content = reply.protocol_name, {_identity(each.member_id) for each in reply.members}
            assert self.known.setdefault(key, content) == content, "a number belongs to one generation"

    def _note_assignment(self, client: Client, reply: Any) -> None:
        if reply.NAME == "SyncGroupResponse" and reply.error_code == ErrorCode.NONE:
            key = (client.group_id, self.deletions[client.group_id], client.generation, client.member_id)
            assert self.assigned.setdefault(key, reply.assignment) == reply.assignment, (
                "a generation has one assignment"
            )

    @invariant()
    def replay_equals_live(self) -> None:
        assert self.h.durable(self.h.records) == self.h.durable()

    @invariant()
    def generations_grow(self) -> None:
        self._read_all()
        for group_id, group in self.h.groups.by_id.items():
            known, generation = self.highest.get(group_id, (group, 0))
            if known is group:
                assert group.generation >= generation
            self.highest[group_id] = (group, group.generation)
            if group.stored is not None:
                assert group.generation >= group.stored.generation >= self.highest_stored.get(group_id, 0)
                self.highest_stored[group_id] = group.stored.generation

    @invariant()
    def every_group_is_consistent(self) -> None:
        for group in self.h.groups.by_id.values():
            members = group.members
            parked_joins = {each for each, member in members.items() if member.awaiting_join is not None}
            parked_syncs = {each for each, member in members.items() if member.awaiting_sync is not None}
            assert group.awaiting_joins == len(parked_joins)
            assert not parked_joins or group.state is State.PREPARING_REBALANCE
            assert not parked_syncs or group.state is State.COMPLETING_REBALANCE
            assert group.pending_syncs.keys() <= members.keys() - parked_syncs
            assert not group.pending_joins.keys() & members.keys()
            assert (group.leader_id in members) if members else (group.leader_id is None)
            assert group.static_members == {
                member.group_instance_id: each for each, member in members.items() if member.is_static
            }
            counts: dict[str, int] = {}
            for member in members.values():
                for name, _ in member.protocols:
                    counts[name] = counts.get(name, 0) + 1
            assert group.support == counts
            assert not members or len(members) in counts.values(), "the members have a common protocol"
            match group.state:
                case State.EMPTY:
                    assert not members
                case State.STABLE:
                    assert members
                    assert group.stored is not None
                    assert group.stored.generation == group.generation
                    assert [each.member_id for each in group.stored.members] == list(members)
                case State.COMPLETING_REBALANCE:
                    assert group.leader_id in group.pending_syncs
            if group.state is not State.PREPARING_REBALANCE:
                assert group.initial_delay is None
                assert len(members) <= 4

    @invariant()
    def timers_agree_with_the_members(self) -> None:
        timers = self.h.timers
        for group in self.h.groups.by_id.values():
            group_id = group.group_id
            for member_id, member in group.members.items():
                is_parked = member.awaiting_join is not None or member.awaiting_sync is not None
                assert is_parked or session_key(group_id, member_id) in timers
                assert not member.is_new or session_key(group_id, member_id) in timers
            assert all(pending_key(group_id, member_id) in timers for member_id in group.pending_joins)
            assert (group.join_timer_key in timers) == (group.state is State.PREPARING_REBALANCE)
            assert (sync_key(group) in timers) == bool(group.pending_syncs)
        for key in timers:
            if key[0] == "classic-session":
                assert key[2] in self.h.group(key[1]).members

    def teardown(self) -> None:
        """Without further requests, every parked request gets a response and every group becomes Empty."""
        self.h.advance(500_000)
        unanswered = {index for index, request in enumerate(self.h.sent) if request.is_parked}
        assert unanswered <= self.lost
        assert all(group.state is State.EMPTY for group in self.h.groups.by_id.values())
        assert all(key[0] == "offsets-expire" for key in self.h.timers)
        self.replay_equals_live()


def _identity(member_id: str) -> str:
    """The instance id of a static member, which stays when its member id changes; of another member, the member id."""
    name, _, _ = member_id.rpartition("-")
    return name if name == "one" else member_id


TestClassicHistory = ClassicHistory.TestCase
TestClassicHistory.settings = settings(max_examples=60, stateful_step_count=40, suppress_health_check=list(HealthCheck))
