"""Random histories of consumer groups: clients of both protocols, lost answers, crashes, time and topics that change.

After every step, from inside: what memory holds is what the log says (I1, I3, I4: there is no other durable state here), also
when it was compacted, in whole or in part, before or during the load (I2); a partition is held once (I8); epochs only grow,
and RevocationEpoch < MemberEpoch <= target epoch <= group epoch (I7); a member's state is what its contract says (I11). From
outside: no two clients that are members read the same partition; an offset is the last one that was acknowledged (I5),
and goes only when nobody has needed it for the retention time (I6). Commits: none that was made before a partition was
lost is taken, under any policy, and requests with old epochs change nothing (I9); none is refused that a policy promises to
take. In the end the group comes to rest, with everything read once, evenly where all want the same (I12). What assignors
must do (I13) is in test_assignors.py.
"""

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coordinator.groups.classic.group import find_classic_group
from coordinator.groups.consumer.group import find_consumer_group
from coordinator.groups.fencing import stale_because
from coordinator.groups.force_rebalance import ForceRebalance, force_rebalance
from coordinator.groups.settings import ASSIGNMENT_EPOCH, REVOCATION_EPOCH, STRICT, ConsumerSettings
from coordinator.protocol.errors import KafkaError
from tests.groups.consumer.consumer_world import (
    Classic,
    ConsumerHarness,
    Modern,
    assert_one_owner,
    assert_sound,
    cleaned,
    compacted,
    settle,
)

pytestmark = pytest.mark.long

NAMES = ("t", "u", "v")
clients = st.integers(0, 7)


def policy(name, ownership=False):
    return ConsumerSettings(
        session_timeout_ms=1,
        heartbeat_interval_ms=1,
        assignment_interval_ms=1,
        fencing_policy=name,
        require_ownership=ownership,
        require_member=False,
    )


POLICIES = [policy(name, own) for name in (STRICT, REVOCATION_EPOCH, ASSIGNMENT_EPOCH) for own in (False, True)]


RETENTION_MS = 60_000


class Seen:
    """What the history has shown of one member id."""

    def __init__(self):
        self.epochs = set()
        self.lost = {}
        """Partition -> the last epoch in which the member had a partition that it then lost."""
        self.was_away = 0
        """The last epoch it had before it stopped being a member."""


class ConsumerHistories(RuleBasedStateMachine):
    @initialize(interval=st.sampled_from([0, 1_000]))
    def start(self, interval):
        self.h = ConsumerHarness(
            group_consumer_assignment_interval_ms=interval,
            offsets_retention_minutes=RETENTION_MS // 60_000,
            offsets_retention_check_interval_ms=10_000,
        )
        self.clients = []
        self.names = 0
        self.former = {}
        """Instance id -> the member id that its client had before."""
        self.seen = {}
        self.before = {}
        self.epoch = 0
        self.is_empty_classic = False
        self.committed = {}
        """Partition -> offset, and when it was acknowledged."""
        for _ in range(3):
            self.come_modern(("t",), None)

    # --- clients come and go ----------------------------------------------------------------------------------------

    @rule(
        topics=st.sampled_from([("t",), ("t", "u"), ("u",), ("v", "t")]),
        regex=st.sampled_from([None, None, None, "[tv].*"]),
        instance=st.sampled_from([None, None, "i"]),
        assignor=st.sampled_from([None, None, "range"]),
    )
    def modern_comes(self, topics, regex, instance, assignor):
        if len(self.clients) < 8 and not any(client.instance == instance for client in self.clients if instance):
            self.come_modern(topics, instance, regex, assignor)

    def come_modern(self, topics, instance, regex=None, assignor=None):
        self.names += 1
        self.clients.append(
            Modern(self.h, f"m{self.names}", topics=topics, instance=instance, regex=regex, assignor=assignor)
        )

    @rule(cooperative=st.booleans(), topics=st.sampled_from([("t",), ("t", "u")]))
    def classic_comes(self, cooperative, topics):
        classics = [client for client in self.clients if isinstance(client, Classic)]
        if len(self.clients) < 8 and all(client.cooperative == cooperative for client in classics):
            self.clients.append(Classic(self.h, topics=topics, cooperative=cooperative))

    @rule()
    def an_administrator_forces_a_rebalance(self):
        with suppress(KafkaError):
            self.h.call(force_rebalance, ForceRebalance("g", "a test"))

    @rule(i=clients)
    def leaves(self, i):
        client = self.pick(i)
        if client is not None and client.is_in:
            client.leave()

    @rule(i=clients)
    def dies(self, i):
        """The process is gone; its member is still in the group."""
        client = self.pick(i)
        if client is not None and len(self.clients) > 3:
            self.clients.remove(client)

    @rule(i=clients, back=st.sampled_from(["new", "same", "former"]))
    def static_steps_aside(self, i, back):
        """It comes back under a new member id, the one it had, or the one before that."""
        client = self.pick(i)
        if isinstance(client, Modern) and client.instance and client.is_in:
            self.h.beat(client.group, client.id, -2, instance=client.instance)
            client.forget()
            if back != "same":
                self.names += 1
                former, self.former[client.instance] = self.former.get(client.instance), client.id
                client.id = former if back == "former" and former is not None else f"m{self.names}"

    def pick(self, i):
        return self.clients[i % len(self.clients)] if self.clients else None

    # --- and are heard of -------------------------------------------------------------------------------------------

    @rule(i=clients)
    def beats(self, i):
        client = self.pick(i)
        if client is not None:
            client.beat()

    @rule(i=clients)
    def all_beat(self, i):
        for client in self.clients[i % 8 :] + self.clients[: i % 8]:
            client.beat()
            self.watch()

    @rule(i=clients)
    def the_answer_gets_lost(self, i):
        client = self.pick(i)
        if isinstance(client, Modern):
            client.beat(lose_answer=True)

    @rule(i=clients, topics=st.sampled_from([("t",), ("t", "u"), ("v",), ()]))
    def changes_its_subscription(self, i, topics):
        client = self.pick(i)
        if client is not None:
            client.topics = topics or ("t",)
            if isinstance(client, Modern):
                client.says_all = True
            elif client.what == "heartbeat":
                client.what = "join"

    @rule(i=clients, data=st.data())
    def commits(self, i, data):
        """Commits with the epoch it has, or an earlier one of its own."""
        client = self.pick(i)
        if not isinstance(client, Modern) or not client.owned:
            return
        epochs = sorted(self.seen[client.id].epochs) if client.id in self.seen else []
        epoch = data.draw(st.sampled_from([client.epoch, *epochs]))
        self.offset += 1
        partitions = sorted(client.owned)
        errors = self.h.commit(client.group, client.id, epoch, partitions, offset=self.offset)
        for partition, error in zip(partitions, errors, strict=True):
            if not error:
                self.committed[partition] = (self.offset, self.h.now_ms)

    offset = 0

    @rule(i=clients, back=st.integers(1, 4), owned=st.booleans())
    def a_ghost_knocks(self, i, back, owned):
        """A delayed heartbeat: of a former member, or with an old epoch."""
        if not self.seen:
            return
        member_id = sorted(self.seen)[i % len(self.seen)]
        member = self.before.get(member_id)
        epochs = self.seen[member_id].epochs | {1}
        if member is not None:
            now = {member.member_epoch, member.previous_member_epoch}
            epochs = {epoch for epoch in epochs if epoch < member.member_epoch and epoch not in now}
        if not epochs or find_classic_group(self.h.groups, "g") is not None:
            return
        epoch = sorted(epochs)[-back % len(epochs)]
        state, written = self.h.durable(), len(self.h.records)
        request = self.h.beat("g", member_id, epoch, owned={"t": [0]} if owned else None)
        assert not request.ok
        assert (self.h.durable(), len(self.h.records)) == (state, written)

    # --- the world --------------------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([10, 500, 1_100, 30_000, 46_000]))
    def time_passes(self, ms):
        self.h.advance(ms)

    @rule(name=st.sampled_from(NAMES), count=st.integers(0, 5))
    def a_topic_changes(self, name, count):
        topics = self.h.catalog.topics
        if count == 0:
            topics.pop(name, None)
        else:
            topics[name] = max(count, topics.get(name, 0))

    @rule()
    def the_server_crashes(self):
        self.h.restart()
        for client in self.clients:
            if isinstance(client, Classic) and client.waiting is not None:
                client.waiting = None

    # --- what must be true ------------------------------------------------------------------------------------------

    @invariant()
    def all_is_sound(self):
        if not hasattr(self, "h"):
            return
        self.watch()
        assert_sound(self.h)
        assert self.h.durable(compacted(self.h.records)) == self.h.durable()
        assert_one_owner(self.clients)
        self.offsets_are_what_was_acknowledged()

    @rule(random=st.randoms(use_true_random=False))
    def a_log_that_is_being_cleaned_is_read(self, random):
        assert self.h.durable(cleaned(self.h, random)) == self.h.durable()

    def offsets_are_what_was_acknowledged(self):
        stored = {key: each.offset for key, each in self.h.groups.offsets.of("g")}
        subscribed = {name for client in self.clients if client.is_in for name in client.topics}
        for partition, (_, at_ms) in list(self.committed.items()):
            if partition not in stored:
                assert partition[0] not in subscribed
                assert self.h.now_ms >= at_ms + RETENTION_MS
                del self.committed[partition]
        assert stored == {partition: offset for partition, (offset, _) in self.committed.items()}

    def watch(self):
        group = find_consumer_group(self.h.groups, "g")
        members = {} if group is None else dict(group.members)
        classic = find_classic_group(self.h.groups, "g")
        for member_id, before in self.before.items():
            now = members.get(member_id)
            if classic is not None and member_id in classic.members:
                continue  # It holds what it held, in a group of the other kind.
            seen = self.seen[member_id]
            for partition in held(before):
                since = None if now is None else now.assignment_epoch(*partition)
                if since is None or since > before.assignment_epoch(*partition):
                    seen.lost[partition] = max(seen.epochs)
            if now is None:
                seen.was_away = max(seen.epochs, default=0)
        for member_id, now in members.items():
            seen = self.seen.setdefault(member_id, Seen())
            if now.member_epoch > 0 and member_id not in self.before:
                assert now.member_epoch > seen.was_away, "it is back in an epoch of its former life"
            if now.member_epoch > 0:
                assert now.member_epoch >= max(seen.epochs, default=0)
                seen.epochs.add(now.member_epoch)
        self.before = members
        epoch = classic.generation if group is None and classic is not None else getattr(group, "group_epoch", 0)
        if group is not None and self.is_empty_classic:
            self.epoch = 0  # As in Kafka: who joins by the consumer protocol makes a group of its own of an empty one.
        if group is not None or (classic is not None and classic.generation > 1):
            assert epoch >= self.epoch
        self.epoch = epoch
        self.is_empty_classic = classic is not None and classic.state.value == "Empty"
        if group is None and (classic is None or classic.generation <= 1 or self.is_empty_classic):
            self.seen = {}  # Another group of the same name: its epochs start again.

    @rule()
    def commits_are_fenced(self):
        for member_id, member in self.before.items():
            seen = self.seen[member_id]
            if member.member_epoch <= 0:
                continue
            has = held(member)
            for epoch in seen.epochs:
                for partition in has | seen.lost.keys():
                    self.judge(member, seen, epoch, partition, partition in has)

    def judge(self, member, seen, epoch, partition, has_it):
        taken = {
            (each.fencing_policy, each.require_ownership): stale_because(member, epoch, [partition], each) is None
            for each in POLICIES
        }
        explanation = (
            f"{member.member_id} {member.state.name} at {member.member_epoch} (before {member.previous_member_epoch}, "
            f"revocation {member.revocation_epoch}) commits {partition[0][:1]}{partition[1]} with {epoch}; "
            f"lost {[(t[:1], p, e) for (t, p), e in seen.lost.items()]}, away {seen.was_away}, taken {taken}"
        )
        if epoch <= seen.lost.get(partition, -1):
            assert not any(taken.values()), explanation
        if not has_it:
            assert not any(is_taken for (_, ownership), is_taken in taken.items() if ownership), explanation
        since = member.assignment_epoch(*partition)
        if has_it and since <= epoch <= member.member_epoch and epoch > seen.was_away:
            assert taken[ASSIGNMENT_EPOCH, False], explanation
            if epoch == member.member_epoch or epoch > max(seen.lost.values(), default=0):
                assert taken[REVOCATION_EPOCH, False], explanation
        if epoch == member.member_epoch:
            assert taken[STRICT, False]

    def teardown(self):
        if not hasattr(self, "h"):
            return
        h = self.h
        h.advance(120_000)
        assert_sound(h)
        for round_ in range(60):
            settle(h, self.clients, 1)
            assert_one_owner(self.clients)
            if round_ > 8 and self.is_at_rest():
                break
        assert_sound(h)
        wanted = {
            (name, p)
            for client in self.clients
            for name in self.topics_of(client)
            for p in range(h.catalog.topics[name])
        }
        read = {pair for client in self.clients for pair in client.owned}
        assert read == wanted, (read, wanted, [(c.id, c.owned, c.topics) for c in self.clients])
        group = h.groups.by_id.get("g")
        if self.clients:
            assert group.state.value == "Stable"
            wants = {(client.topics, getattr(client, "regex", None)) for client in self.clients}
            names = {getattr(client, "assignor", None) for client in self.clients}
            if len(wants) == 1 and names == {None} and find_consumer_group(h.groups, "g") is not None:
                sizes = [len(client.owned) for client in self.clients]
                assert max(sizes) - min(sizes) <= 1, sizes

    def is_at_rest(self):
        group = self.h.groups.by_id.get("g")
        return group is not None and group.state.value == "Stable" and all(client.is_in for client in self.clients)

    def topics_of(self, client):
        names = set(client.topics)
        if getattr(client, "regex", None):
            names |= {name for name in self.h.catalog.topics if name[0] in "tv"}
        return names & self.h.catalog.topics.keys()


def held(member):
    return {
        (topic_id, partition)
        for each in (member.assigned, member.pending_revocation)
        for topic_id, partitions in each.items()
        for partition in partitions
    }


ConsumerHistories.TestCase.settings = settings(
    max_examples=25, stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
TestConsumerHistories = ConsumerHistories.TestCase
