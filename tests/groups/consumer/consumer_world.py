"""A minimal world of consumer groups: a shard (groups/harness.py), and clients that behave like Kafka's.

`Modern` uses the consumer protocol: it reads its assigned partitions, revokes partitions before it confirms the revocation,
sends all its fields again after a lost response, and joins again when it is fenced. `Classic` uses the classic protocol, eager
or cooperative. Both keep the partitions that they are reading in `owned`: no two clients that the coordinator counts as members
may read the same partition at the same time.
"""

from typing import Any

from coordinator.groups.consumer.group import find_consumer_group
from coordinator.groups.consumer.heartbeat import consumer_group_heartbeat
from coordinator.groups.consumer.member import MemberState
from coordinator.groups.kinds import Kind
from coordinator.groups.offsets.commit import commit
from coordinator.groups.settings import ClassicSettings, ConsumerSettings, StreamsSettings
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ConsumerGroupHeartbeatRequest, OffsetCommitRequest
from coordinator.protocol.subscription import Subscription, encode_assignment, encode_subscription, parse_assignment
from coordinator.requests import consumer_group_heartbeat as heartbeat_api
from coordinator.requests import offset_commit as commit_api
from coordinator.runtime.result import Result
from tests.groups.harness import GroupHarness, SentRequest

INTERVAL_MS = 1_000
SESSION_MS = 45_000
_Owned = ConsumerGroupHeartbeatRequest.TopicPartitions
_Topic = OffsetCommitRequest.OffsetCommitRequestTopic
_Partition = OffsetCommitRequest.OffsetCommitRequestPartition


class ChangeableSettings:
    """Group settings that a test may change at any time."""

    def __init__(self, config: Any) -> None:
        from coordinator.groups.group_configs import ConfiguredGroups

        self.own: dict[str, dict[str, str]] = {}
        self._groups = ConfiguredGroups(config, lambda group_id: self.own.get(group_id, {}))

    def set(self, group_id: str, **values: str) -> None:
        names = {name.replace("_", "."): value for name, value in values.items()}
        self.own[group_id] = {**self.own.get(group_id, {}), **names}

    def classic(self, group_id: str) -> ClassicSettings:
        return self._groups.classic(group_id)

    def consumer(self, group_id: str) -> ConsumerSettings:
        return self._groups.consumer(group_id)

    def streams(self, group_id: str) -> StreamsSettings:
        return self._groups.streams(group_id)

    def rebalance_interval_ms(self, group_id: str) -> int:
        return self._groups.rebalance_interval_ms(group_id)


class ConsumerHarness(GroupHarness):
    """A shard with two topics: t (4 partitions) and u (2)."""

    def __init__(self, topics: Any = None, **config: Any) -> None:
        self.own_settings: ChangeableSettings | None = None
        super().__init__({"t": 4, "u": 2} if topics is None else topics, **config)

    def beat(
        self,
        group_id: str = "g",
        member_id: str = "m",
        epoch: int = 0,
        *,
        topics: Any = None,
        regex: str | None = None,
        owned: Any = None,
        instance: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = -1,
        version: int = 1,
        client_id: str | None = "client",
    ) -> SentRequest:
        """A heartbeat; `owned` is topic name -> partitions."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                _Owned(self.catalog.topic_id(name) or name.encode().ljust(16, b"\0"), sorted(parts))
                for name, parts in owned.items()
            ],
        )
        return self.call(consumer_group_heartbeat, request, version, heartbeat_api.API, client_id=client_id)

    def id_of(self, name: str) -> bytes:
        """Works for deleted topics, too."""
        return self.catalog.topic_id(name) or name.encode().ljust(16, b"\0")

    def join_modern(
        self, group_id: str = "g", member_id: str = "m", *, topics: Any = ("t",), **how: Any
    ) -> SentRequest:
        how = {"rebalance_ms": 60_000, "owned": {}} | how
        return self.beat(group_id, member_id, 0, topics=topics, **how)

    def commit(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        partitions: Any,
        version: int = 9,
        metadata: str = "",
        offset: int = 1,
        instance: str | None = None,
    ) -> list[ErrorCode]:
        """`partitions`: (topic, partition) pairs; returns their errors."""
        by_topic: dict[str, list[int]] = {}
        for name, partition in partitions:
            by_topic.setdefault(name, []).append(partition)
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=instance,
            topics=[
                _Topic(
                    name,
                    self.catalog.topic_id(name) or bytes(16),
                    [_Partition(each, offset, -1, metadata) for each in parts],
                )
                for name, parts in by_topic.items()
            ],
        )
        context = SentRequest(commit_api.API, version, "client", "/127.0.0.1", "")
        from coordinator.protocol.errors import KafkaError

        try:
            result = commit(self.groups, request, context, self.now_ms)
        except KafkaError as error:
            self._apply(Result(facts=error.facts))
            return [error.code for _ in partitions]
        self._apply(result)
        return [ErrorCode(each.error_code) for topic in result.reply.topics for each in topic.partitions]

    def consumer(self, group_id: str = "g") -> Any:
        return self.groups.by_id[group_id]

    def member(self, member_id: str = "m", group_id: str = "g") -> Any:
        return self.consumer(group_id).members[member_id]

    def assigned(self, request: SentRequest) -> dict[str, list[int]] | None:
        """The assignment in an answer, by topic name; None if it has none."""
        assignment = request.reply.assignment
        if assignment is None:
            return None
        return {self.catalog.topic_name(each.topic_id): each.partitions for each in assignment.topic_partitions}

    def kinds(self, since: int = 0) -> list[str]:
        """The types of the records written since then; tombstones have a minus."""
        return [("-" if record.value is None else "") + str(record.key.API_KEY) for record in self.records[since:]]


def pairs(assignment: Any) -> set[tuple[str, int]]:
    return {(name, partition) for name, parts in assignment.items() for partition in parts}


def by_topic(owned: set[tuple[str, int]]) -> dict[str, list[int]]:
    result: dict[str, list[int]] = {}
    for name, partition in sorted(owned):
        result.setdefault(name, []).append(partition)
    return result


class Modern:
    """A client of the consumer protocol."""

    def __init__(
        self,
        h: ConsumerHarness,
        name: str,
        *,
        group: str = "g",
        topics: Any = ("t",),
        instance: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
    ) -> None:
        self.h, self.group, self.id = h, group, name
        self.topics, self.regex, self.instance, self.assignor = tuple(topics), regex, instance, assignor
        self.epoch = 0
        self.owned: set[tuple[str, int]] = set()
        self.received: set[tuple[str, int]] | None = None
        """The last assignment it received, if it has not yet applied all of it."""
        self.says_all = True
        self.says_owned = True
        self.fenced = 0

    @property
    def is_in(self) -> bool:
        group = find_consumer_group(self.h.groups, self.group)
        return group is not None and self.id in group.members

    def beat(self, *, lose_answer: bool = False) -> SentRequest:
        self._revoke()
        full = self.says_all or self.epoch == 0
        request = self.h.beat(
            self.group,
            self.id,
            self.epoch,
            topics=self.topics if full else None,
            regex=self.regex if full else None,
            owned=by_topic(self.owned) if full or self.says_owned else None,
            instance=self.instance,
            assignor=self.assignor if full else None,
            rebalance_ms=60_000 if full else -1,
        )
        if lose_answer:
            self.says_all = True
            return request
        self._hear(request)
        return request

    def _revoke(self) -> None:
        """Revokes partitions before it confirms their revocation."""
        if self.received is not None:
            self.owned &= self.received

    def _hear(self, request: SentRequest) -> None:
        if not request.ok:
            if request.error in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
                return
            self.fenced += 1
            self.forget()
            return
        self.says_all = False
        self.says_owned = False
        self.epoch = request.reply.member_epoch
        answered = self.h.assigned(request)
        if answered is not None:
            self.received = {(name, partition) for name, partition in pairs(answered) if name is not None}
        if self.received is not None:
            lost = self.owned - self.received
            if lost:
                self.says_owned = True
            elif self.received != self.owned:
                self.owned = set(self.received)
                self.says_owned = True
                self.received = None

    def forget(self) -> None:
        """It was fenced or restarts: it owns nothing and knows nothing."""
        self.epoch, self.owned, self.received = 0, set(), None
        self.says_all = self.says_owned = True

    def leave(self) -> SentRequest:
        request = self.h.beat(self.group, self.id, -1, instance=self.instance)
        self.forget()
        return request

    def commit_all(self) -> list[ErrorCode]:
        return self.h.commit(self.group, self.id, self.epoch, sorted(self.owned))


class Classic:
    """A client of the classic protocol. It is driven by `beat`, which joins and syncs where necessary."""

    def __init__(
        self,
        h: ConsumerHarness,
        *,
        group: str = "g",
        topics: Any = ("t",),
        cooperative: bool = True,
        instance: str | None = None,
    ) -> None:
        self.h, self.group, self.topics, self.cooperative, self.instance = (
            h,
            group,
            tuple(topics),
            cooperative,
            instance,
        )
        self.id = ""
        self.generation = -1
        self.owned: set[tuple[str, int]] = set()
        self.waiting: SentRequest | None = None
        self.what = "join"
        self.leads = False

    @property
    def is_in(self) -> bool:
        group = find_consumer_group(self.h.groups, self.group)
        return group is not None and self.id in group.members

    def beat(self) -> None:
        if self.waiting is not None:
            if self.waiting.is_parked:
                return
            request, self.waiting = self.waiting, None
            self._hear(request)
        elif self.what == "join":
            self._join()
        elif self.what == "sync":
            self._sync()
        else:
            self._heard_heartbeat(self.h.heartbeat(self.group, self.id, self.generation, instance=self.instance))

    def _join(self) -> None:
        if not self.cooperative:
            self.owned = set()
        owned = {name: tuple(parts) for name, parts in by_topic(self.owned).items()}
        metadata = encode_subscription(
            Subscription(
                tuple(self.topics),
                None,
                owned if self.cooperative else {},
                self.generation,
                None,
                3 if self.cooperative else 1,
            )
        )
        request = self.h.join(self.group, self.id, instance=self.instance, protocols={"a": metadata})
        self._wait("join", request)

    def _sync(self) -> None:
        assignments = self._assign() if self.leads else None
        request = self.h.sync(
            self.group, self.id, self.generation, assignments, protocol_name="a", instance=self.instance
        )
        self._wait("sync", request)

    def _wait(self, what: str, request: SentRequest) -> None:
        self.what = what
        self.waiting = request
        if not request.is_parked:
            self.waiting = None
            self._hear(request)

    def _hear(self, request: SentRequest) -> None:
        if request.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.id = request.reply.member_id
        elif not request.ok:
            self._refused(request.error)
        elif self.what == "join":
            self.id, self.generation = request.reply.member_id, request.reply.generation_id
            self.leads = request.reply.leader == self.id
            self.members = request.reply.members
            self.what = "sync"
        else:
            answered = parse_assignment(request.reply.assignment).partitions if request.reply.assignment else {}
            assigned = pairs(answered)
            lost = self.owned - assigned
            self.owned = assigned
            # A cooperative client that gave something up joins again to say so.
            self.what = "join" if self.cooperative and lost else "heartbeat"

    def _heard_heartbeat(self, request: SentRequest) -> None:
        if not request.ok:
            self._refused(request.error)

    def _refused(self, error: ErrorCode) -> None:
        if error is not ErrorCode.REBALANCE_IN_PROGRESS:
            self.owned = set()
            self.generation = -1
            if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                self.id = ""
        self.what = "join"

    def _assign(self) -> dict[str, bytes]:
        """Assigns like a cooperative leader: no member gets a partition that another one still owns."""
        from coordinator.protocol.subscription import Assignment, parse_subscription

        claims = {member.member_id: parse_subscription(member.metadata) for member in self.members}
        held = {pair: member_id for member_id, each in claims.items() for pair in pairs(each.owned)}
        given: dict[str, set[tuple[str, int]]] = {member_id: set() for member_id in claims}
        for name, count in sorted(self.h.catalog.topics.items()):
            wanting = sorted(member_id for member_id, each in claims.items() if name in each.topics)
            for partition in range(count):
                if wanting:
                    member_id = wanting[partition % len(wanting)]
                    if held.get((name, partition), member_id) == member_id:
                        given[member_id].add((name, partition))
        return {
            member_id: encode_assignment(Assignment({n: tuple(p) for n, p in by_topic(got).items()}, None, 1))
            for member_id, got in given.items()
        }

    def leave(self) -> None:
        self.h.leave(self.group, (self.id, self.instance))
        self.id, self.generation, self.owned, self.what, self.waiting = "", -1, set(), "join", None


def settle(h: ConsumerHarness, clients: Any, rounds: int = 40, step_ms: int = 600) -> None:
    """All members send heartbeats again and again."""
    for _ in range(rounds):
        for client in clients:
            client.beat()
        h.advance(step_ms)


def assert_one_owner(clients: Any) -> None:
    """No two clients that are members read the same partition."""
    seen: dict[tuple[str, int], str] = {}
    for client in clients:
        if not client.is_in:
            continue
        for pair in client.owned:
            assert pair not in seen, f"{pair} is read by {seen[pair]} and {client.id}"
            seen[pair] = client.id


def assert_sound(h: ConsumerHarness) -> None:
    """Checks I1, I8 and the order of the epochs, from inside."""
    assert not h.groups.uncommitted_groups, "a group that was never created is kept"
    h.epochs_seen.forget(group.group_id for group in h.groups.of_kind(Kind.CONSUMER))
    for group in h.groups.of_kind(Kind.CONSUMER):
        owners: dict[bytes, dict[int, str]] = {}
        for member in group.members.values():
            if member.member_epoch >= 0:
                assert member.revocation_epoch < member.member_epoch <= group.target_epoch <= group.group_epoch, member
                if member.state is MemberState.STABLE:
                    assert not member.pending_revocation, member
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    assert member.pending_revocation, member
            for held in (member.assigned, member.pending_revocation):
                for topic_id, partitions in held.items():
                    assert partitions
                    for partition in partitions:
                        assert partition not in owners.get(topic_id, {}), (partition, member)
                        owners.setdefault(topic_id, {})[partition] = member.member_id
        h.epochs_seen.check(group, _held)
        assert owners == group.owners
        target = [(t, p, m) for m, parts in group.target.items() for t, some in parts.items() for p in some]
        inverted = [(t, p, m) for t, parts in group.inverted_target.items() for p, m in parts.items()]
        assert sorted(target) == sorted(inverted)
        assert group.target_partition_count == len(target)
        assert group.unreconciled == {
            m for m, each in group.members.items() if not each.is_reconciled_to(group.target_epoch)
        }
    assert h.durable() == h.durable(h.records)


def _held(member: Any) -> dict[Any, int]:
    return {
        (topic_id, partition): epoch
        for held in (member.assigned, member.pending_revocation)
        for topic_id, partitions in held.items()
        for partition, epoch in partitions.items()
    }


def cleaned(h: ConsumerHarness, random: Any) -> list[Any]:
    """What a reader may find in a log that was cleaned a few times and is being cleaned (see `coordinator.log.compaction`).

    A cleaning looks for what is newer from where the last one ended, up to some batch, and rewrites from the start of the
    log, up to that batch or to where it crashed. It drops a tombstone that an earlier one met long ago, if it kept no value
    before it. The reader may have read a part before the last cleaning; that takes less time than tombstones are kept.
    """

    def batch(first: int, last: int) -> int:
        """The end of some batch."""
        return random.choice([end for end in h.batch_ends if first <= end <= last])

    def clean(log: Any, dirty_from: int, met_to: int, expired_to: int) -> tuple[list[tuple[int, Any]], int, int]:
        """One cleaning: the log, where the next one starts, and how far tombstones have been seen so far."""
        clean_to = batch(dirty_from, h.batch_ends[-1])
        looked_to = random.choice([clean_to, batch(dirty_from, clean_to)])
        crashed_at = random.choice([clean_to, batch(0, clean_to)])
        last = {repr(record.key): index for index, record in log if dirty_from <= index < looked_to}
        kept, values = [], set()
        for index, record in log:
            key = repr(record.key)
            if index < crashed_at:
                if index < last.get(key, -1):
                    continue
                if record.value is None and index < min(expired_to, looked_to) and key not in values:
                    continue
                if record.value is not None:
                    values.add(key)
            kept.append((index, record))
        return kept, looked_to if crashed_at == clean_to else dirty_from, max(met_to, crashed_at)

    log = list(enumerate(h.records))
    dirty_from = met_to = 0
    for _ in range(random.randint(0, 3)):
        log, dirty_from, met_to = clean(log, dirty_from, met_to, batch(0, met_to))
    read_to = random.choice([0, batch(0, h.batch_ends[-1])])
    after, _, _ = clean(log, dirty_from, met_to, 0 if read_to else batch(0, met_to))
    return [record for index, record in log if index < read_to] + [
        record for index, record in after if index >= read_to
    ]


def compacted(records: Any) -> list[Any]:
    """The least that compaction leaves: the last record of each key, tombstones included."""
    last = {repr(record.key): index for index, record in enumerate(records)}
    return [record for index, record in enumerate(records) if last[repr(record.key)] == index]


def world(policy, **settings):
    h = ConsumerHarness()
    h.groups.settings = ChangeableSettings(h.config)
    h.groups.settings.set("g", consumer_fencing_policy=policy, **settings)
    return h


def halved(policy, **settings):
    """Member a had t0-3 at epoch 2 and has t0 and t1 at epoch 3."""
    h = world(policy, **settings)
    a, b = Modern(h, "a"), Modern(h, "b")
    settle(h, [a], 3)
    settle(h, [a, b], 10)
    assert (a.epoch, a.owned) == (3, {("t", 0), ("t", 1)})
    assert h.member("a").revocation_epoch == 2
    return h


def bumped(policy):
    """Member a has had t0-3 since epoch 2 and is at epoch 3; it has lost nothing."""
    h = world(policy)
    a, b = Modern(h, "a"), Modern(h, "b", topics=("u",))
    settle(h, [a], 3)
    settle(h, [a, b], 10)
    assert a.epoch == 3
    assert h.member("a").revocation_epoch == 0
    return h
