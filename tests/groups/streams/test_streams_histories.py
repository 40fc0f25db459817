"""Random histories of streams groups: threads of several processes, lost answers, crashes, time and topics that change.

After every step, from inside: what memory holds is what the log says, also when it was compacted; an active task has one
owner and a process has a task once; epochs only grow, and member epoch <= target epoch <= group epoch. From outside: no two
threads that are members process the same task, or have it in one process. Commits: none with an epoch before the one in which
a task was lost is taken, but at the member's epoch, and none that has had its task since. In the end the group comes to rest,
with every task processed once and every copy that there can be.

Half of the histories have an assignor that throws dice: it moves tasks between threads, processes and roles as `sticky` never
would, but gives a process no task twice.
"""

from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coordinator.groups.fencing import stale_because
from coordinator.groups.force_rebalance import ForceRebalance, force_rebalance
from coordinator.groups.settings import ASSIGNMENT_EPOCH, FENCING_POLICIES
from coordinator.groups.streams import sticky, update
from coordinator.groups.streams.group import State, find_streams_group
from coordinator.groups.streams.member import TasksTuple
from coordinator.protocol.errors import KafkaError
from tests.groups.consumer.consumer_world import cleaned, compacted
from tests.groups.streams.streams_world import (
    STATEFUL,
    StreamsHarness,
    Thread,
    assert_one_owner,
    assert_sound,
    part,
    settle,
    topology,
)

pytestmark = pytest.mark.long

threads = st.integers(0, 7)
BOTH = topology(part("0", ("t",), changelogs=("t-log",)), part("1", ("u", "v")))
"""A part with state and one without."""


def thrown(random, spec):
    """A random target: every active task to some member, copies and warm-ups to some other processes."""
    given = {member_id: ({}, {}, {}) for member_id in sorted(spec.members)}
    processes = {}
    for member_id in given:
        processes.setdefault(spec.members[member_id].process_id, []).append(member_id)
    for subtopology_id, part_ in sorted(spec.subtopologies.items()):
        for number in range(part_.number_of_tasks):
            chosen = random.sample(sorted(processes), len(processes))
            for place, process in enumerate(chosen):
                kind = 0 if place == 0 else random.choice([1, 1, 2, None])
                if kind is not None:
                    tasks = given[random.choice(processes[process])][kind]
                    tasks.setdefault(subtopology_id, set()).add(number)
    return {
        member_id: TasksTuple(*({each: frozenset(numbers) for each, numbers in kind.items()} for kind in kinds))
        for member_id, kinds in given.items()
    }


class StreamsHistories(RuleBasedStateMachine):
    @initialize(
        dice=st.none() | st.integers(0, 1_000_000),
        interval=st.sampled_from([0, 1_000]),
        delay=st.sampled_from([0, 3_000]),
        standbys=st.integers(0, 2),
        sent=st.sampled_from([STATEFUL, BOTH]),
    )
    def start(self, dice, interval, delay, standbys, sent):
        self.throws = dice is not None
        if self.throws:
            random = Random(dice)
            update.assign = lambda spec: thrown(random, spec)
        self.h = StreamsHarness(
            {"t": 4, "u": 2, "v": 3, "t-log": 4},
            group_streams_assignment_interval_ms=interval,
            group_streams_initial_rebalance_delay_ms=delay,
            group_streams_num_standby_replicas=standbys,
        )
        self.standbys = standbys
        self.sent = sent
        self.threads = []
        self.names = 0
        self.former = {}
        """Instance id -> the member id that its thread had before."""
        self.epochs = {}
        """Member id -> every epoch that it has had since it joined."""
        self.lost = {}
        """Member id -> task -> the last epoch in which it had a task that it then lost."""
        self.held = {}
        self.gone = set()
        """Ids of former members that had tasks."""
        self.group_epoch = 0
        for _ in range(2):
            self.come("p", None)

    # --- threads come and go --------------------------------------------------------------------------------------------

    @rule(process=st.sampled_from(["p", "q", "r"]), instance=st.sampled_from([None, None, "i", "j"]))
    def comes(self, process, instance):
        if len(self.threads) < 7 and not any(each.instance == instance for each in self.threads if instance):
            self.come(process, instance)

    def come(self, process, instance):
        self.names += 1
        process = process if instance is None else f"p-{instance}"
        self.threads.append(Thread(self.h, f"m{self.names}", process=process, sent=self.sent, instance=instance))

    @rule()
    def an_administrator_forces_a_rebalance(self):
        with suppress(KafkaError):
            self.h.call(force_rebalance, ForceRebalance("g", "a test"))

    @rule(i=threads)
    def leaves(self, i):
        thread = self.pick(i)
        if thread is not None and thread.is_in:
            thread.leave()

    @rule(i=threads)
    def dies(self, i):
        """The thread is gone; its member is still in the group."""
        thread = self.pick(i)
        if thread is not None and len(self.threads) > 2:
            self.threads.remove(thread)

    @rule(i=threads, back=st.sampled_from(["new", "same", "former"]))
    def static_steps_aside(self, i, back):
        """It comes back under a new member id, the one it had, or the one before that."""
        thread = self.pick(i)
        if thread is not None and thread.instance is not None and thread.is_in and thread.epoch > 0:
            thread.leave(-2)
            if back != "same":
                self.names += 1
                former, self.former[thread.instance] = self.former.get(thread.instance), thread.id
                thread.id = former if back == "former" and former is not None else f"m{self.names}"

    @rule(i=threads)
    def forgets(self, i):
        """It starts again under the same id."""
        thread = self.pick(i)
        if thread is not None and thread.instance is None:
            thread.forget()

    def pick(self, i):
        return self.threads[i % len(self.threads)] if self.threads else None

    # --- what happens -------------------------------------------------------------------------------------------------

    @rule(i=threads, lose=st.sampled_from([False, False, True]))
    def beats(self, i, lose):
        thread = self.pick(i)
        if thread is not None:
            thread.beat(lose_answer=lose)

    @rule()
    def all_beat(self):
        for thread in self.threads:
            thread.beat()

    @rule(ms=st.sampled_from([100, 500, 1_500, 20_000, 61_000]))
    def time_goes_by(self, ms):
        self.h.advance(ms)

    @rule()
    def crash(self):
        self.h.restart()

    @rule(random=st.randoms(use_true_random=False))
    def log_is_cleaned(self, random):
        """A partly cleaned log holds the same state."""
        assert self.h.durable(compacted(self.h.records)) == self.h.durable()
        assert self.h.durable(cleaned(self.h, random)) == self.h.durable()

    @rule(name=st.sampled_from(["u", "v"]), count=st.integers(0, 4))
    def topic_changes(self, name, count):
        """A topic grows, or is deleted and created again."""
        if count:
            self.h.catalog.topics[name] = max(count, self.h.catalog.topics.get(name, 0))
        else:
            self.h.catalog.topics.pop(name, None)

    # --- what holds ---------------------------------------------------------------------------------------------------

    @invariant()
    def sound(self):
        if hasattr(self, "h"):
            assert_sound(self.h)
            assert_one_owner(self.threads)
            self.follow()

    def follow(self):
        """Epochs only grow; a lost task is never committed with an epoch from before the loss."""
        group = find_streams_group(self.h.groups, "g")
        members = {} if group is None else group.members
        if group is not None:
            assert group.group_epoch >= self.group_epoch
            self.group_epoch = group.group_epoch
        for member_id in self.epochs.keys() - members.keys():
            held, _ = self.held[member_id]
            self.held[member_id] = (set(), 0)
            self.lost[member_id].update(dict.fromkeys(held, max(self.epochs[member_id], default=0)))
            if held:
                self.gone.add(member_id)
        for member_id, member in members.items():
            committer = group.find_committer(member_id, self.h.catalog)
            epochs = self.epochs.setdefault(member_id, [])
            if member_id in self.gone:
                assert member.member_epoch > max(epochs, default=0), "it is back in an epoch of its former life"
                self.gone.remove(member_id)
            if member.member_epoch > 0:
                assert not epochs or member.member_epoch >= epochs[-1]
                epochs.append(member.member_epoch)
            held = {
                (topic_id, partition)
                for tasks in (committer.assigned, committer.pending_revocation)
                for topic_id, partitions in tasks.items()
                for partition in partitions
            }
            before, epoch = self.held.get(member_id, (set(), 0))
            lost = self.lost.setdefault(member_id, {})
            gone = {each for each in before - held if not self.has_its_task(group, member, each)}
            lost.update(dict.fromkeys(gone, epoch))
            self.held[member_id] = (held, epochs[-1] if epochs else 0)
            self.check_policies(group, member, committer, lost)

    def has_its_task(self, group, member, partition):
        """Whether the member has the task that reads the partition; the topic may be deleted."""
        topic_id, number = partition
        name = topic_id.rstrip(bytes(1)).decode()
        return member.assignment_epoch(group.topology.readers[name], number) is not None

    def check_policies(self, group, member, committer, lost):
        by_policy = {
            name: replace(group.fencing_policies(self.h.groups.settings), fencing_policy=name)
            for name in FENCING_POLICIES
        }
        for epoch in range(1, member.member_epoch):
            for each, lost_in in lost.items():
                if epoch <= lost_in and epoch in self.epochs[member.member_id]:
                    for settings in by_policy.values():
                        assert stale_because(committer, epoch, [each], settings) is not None, (each, epoch, member)
            for topic_id, partitions in committer.assigned.items():
                for partition, since in partitions.items():
                    if since <= epoch:
                        reading = [(topic_id, partition)]
                        assert stale_because(committer, epoch, reading, by_policy[ASSIGNMENT_EPOCH]) is None

    def teardown(self):
        try:
            if hasattr(self, "h"):
                self.comes_to_rest()
        finally:
            update.assign = sticky.assign

    def comes_to_rest(self):
        self.h.catalog.topics.setdefault("u", 2)
        self.h.catalog.topics.setdefault("v", 3)
        self.h.advance(61_000)
        assert_sound(self.h)
        self.threads = [each for each in self.threads if each.instance is None or each.is_in]
        settle(self.h, self.threads, rounds=16)
        if not self.threads:
            return
        group = self.h.streams()
        assert group.state is State.STABLE, (group.members, group.target)
        parts = group.soft.configured.subtopologies
        wanted = {(part_id, number) for part_id in parts for number in range(parts[part_id].number_of_tasks)}
        assert sorted(task for thread in self.threads for task in thread.active) == sorted(wanted)
        if self.throws:
            return
        processes = {thread.process for thread in self.threads}
        copies = min(self.standbys, len(processes) - 1)
        for subtopology_id, number in wanted:
            holders = group.standby.get(subtopology_id, {}).get(number, set())
            assert len(holders) == (copies if subtopology_id == "0" else 0), (subtopology_id, number)


TestStreamsHistories = StreamsHistories.TestCase
TestStreamsHistories.settings = settings(
    max_examples=25,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
