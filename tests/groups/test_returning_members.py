"""Members that come back: RevocationEpoch and assignment epochs never go back as long as somebody is a member (KAFKA-19779).

Member a owns partitions 0-3, loses two of them and gets them again: it commits one of them with the epoch before the loss.
However it comes back, the commit is refused, in both kinds of groups, under both policies, in OffsetCommit and TxnOffsetCommit.
Every record of a member that has an epoch keeps RevocationEpoch < MemberEpoch.
"""

from itertools import product

import pytest

from coordinator.groups.settings import ASSIGNMENT_EPOCH, REVOCATION_EPOCH
from coordinator.protocol.errors import ErrorCode
from tests.groups.consumer.consumer_world import ChangeableSettings, Classic, ConsumerHarness, Modern
from tests.groups.consumer.consumer_world import assert_sound as consumers_are_sound
from tests.groups.consumer.consumer_world import settle as settle_consumers
from tests.groups.harness import subscription
from tests.groups.staged_commit import stage
from tests.groups.streams.streams_world import StreamsHarness, Thread
from tests.groups.streams.streams_world import assert_sound as streams_are_sound
from tests.groups.streams.streams_world import settle as settle_streams

NONE, STALE, UNKNOWN = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID
SESSION_MS = 45_000
BEFORE = 2
"""The epoch of the zombie's commit: the last one in which it had the partition before it lost it."""


class Consumers:
    """A consumer group."""

    harness, settle, is_sound, key = ConsumerHarness, settle_consumers, consumers_are_sound, "ConsumerGroup"

    @staticmethod
    def client(h, name, instance=None):
        return Modern(h, name, instance=instance)

    @staticmethod
    def away(h, client):
        h.beat("g", client.id, -2, instance=client.instance)
        client.forget()

    @staticmethod
    def owned(client):
        return {number for _, number in client.owned}

    @staticmethod
    def since(h, member_id):
        return h.member(member_id).assigned[h.catalog.topic_id("t")]


class Streams:
    """A streams group, whose task n reads partition n."""

    harness, settle, is_sound, key = StreamsHarness, settle_streams, streams_are_sound, "StreamsGroup"

    @staticmethod
    def client(h, name, instance=None):
        return Thread(h, name, process=instance, instance=instance)

    @staticmethod
    def away(h, client):
        client.leave(-2)

    @staticmethod
    def owned(client):
        return {number for _, number in client.active}

    @staticmethod
    def since(h, member_id):
        return h.member(member_id).assigned.active["0"]


@pytest.fixture(
    params=product((Consumers, Streams), (REVOCATION_EPOCH, ASSIGNMENT_EPOCH)), ids=lambda p: f"{p[0].__name__}-{p[1]}"
)
def story(request):
    return Story(*request.param)


class Story:
    """Member a has all partitions at epoch 4, and two of them only since then: it had lost them after epoch 2."""

    def __init__(self, kind, policy, instance="i"):
        self.kind = kind
        self.h = kind.harness({"t": 4})
        self.h.groups.settings = ChangeableSettings(self.h.config)
        self.settings = {"consumer_fencing_policy": policy, "streams_fencing_policy": policy}
        self.h.groups.settings.set("g", **self.settings)
        self.a, other = kind.client(self.h, "a", instance), kind.client(self.h, "other")
        self.settle(self.a)
        self.settle(self.a, other)
        other.leave()
        self.settle(self.a)
        assert kind.owned(self.a) == {0, 1, 2, 3}
        assert (self.a.epoch, self.member.revocation_epoch) == (4, 2)
        lost = [number for number, since in kind.since(self.h, "a").items() if since == 4]
        self.lost = ("t", lost[0])
        self.is_fenced("a")

    @property
    def member(self):
        return self.h.member(self.a.id)

    def settle(self, *clients):
        self.kind.settle(self.h, clients, 8)
        self.kind.is_sound(self.h)

    def away(self):
        self.kind.away(self.h, self.a)
        self.kind.is_sound(self.h)

    def back_as(self, member_id):
        self.a.id = member_id
        assert self.a.beat().ok
        self.kind.is_sound(self.h)

    def restart(self):
        self.h.restart()
        self.h.groups.settings = ChangeableSettings(self.h.config)
        self.h.groups.settings.set("g", **self.settings)

    def is_fenced(self, member_id, error=STALE):
        """The commits of this member with the epoch before the loss are refused."""
        for epoch in range(1, BEFORE + 1):
            assert self.commit(member_id, epoch) == [error]
            assert stage(self.h, member_id, epoch, self.lost) == error

    def commit(self, member_id, epoch):
        return ConsumerHarness.commit(self.h, "g", member_id, epoch, [self.lost])


def written(h, key):
    """The records of members' epochs: (member id, value)."""
    name = f"{key}CurrentMemberAssignmentKey"
    return [(each.key.member_id, each.value) for each in h.records if name == each.key.NAME and each.value is not None]


def lost_in(value):
    return value.revocation_epoch if hasattr(value, "revocation_epoch") else value.active_task_revocation_epoch


def test_under_its_own_id_it_goes_on_where_it_left(story):
    since = story.kind.since(story.h, "a")
    story.away()
    assert story.member.revocation_epoch == 2
    story.back_as("a")
    assert (story.a.epoch, story.member.revocation_epoch) == (4, 2)
    assert story.kind.since(story.h, "a") == since
    story.is_fenced("a")
    assert story.commit("a", 4) == [NONE]


def test_under_its_own_id_nothing_is_removed_from_the_log(story):
    """Kafka removes the member by tombstones and writes it again with member epoch 0."""
    at = len(story.h.records)
    story.away()
    story.back_as("a")
    assert not [each for each in story.h.records[at:] if each.value is None]


def test_a_successor_begins_with_the_epoch_at_which_it_joins(story):
    """The holdings of the member that it replaces are its own from this epoch on; Kafka writes assignment epoch 0."""
    story.away()
    story.back_as("b")
    assert (story.a.epoch, story.member.revocation_epoch) == (4, 3)
    assert set(story.kind.since(story.h, "b").values()) == {4}
    story.is_fenced("b")
    story.is_fenced("a", UNKNOWN)
    assert story.commit("b", 4) == [NONE]


def test_after_a_successor_the_first_id_comes_back_in_a_later_epoch(story):
    """Its former epoch would accept commits from before the successor owned the partition; Kafka gives it that epoch."""
    for member_id, epoch in (("b", 4), ("a", 5), ("b", 5), ("a", 6), ("a", 6)):
        story.away()
        story.back_as(member_id)
        assert story.a.epoch == epoch
        story.is_fenced(member_id)
    story.settle(story.a)
    assert story.kind.owned(story.a) == {0, 1, 2, 3}
    for epoch in (4, 5):
        assert story.commit("a", epoch) == [STALE]


def test_a_restart_of_the_server_in_between_changes_nothing(story):
    story.away()
    story.restart()
    story.back_as("a")
    story.restart()
    story.is_fenced("a")
    story.away()
    story.back_as("b")
    story.away()
    story.restart()
    story.back_as("a")
    story.is_fenced("a")


def test_the_end_of_its_session_ends_its_membership(story):
    """It is a new member then, which owns everything since a later epoch."""
    story.away()
    story.h.advance(SESSION_MS)
    assert story.h.groups.by_id["g"].members == {}
    story.kind.is_sound(story.h)
    story.back_as("a")
    story.settle(story.a)
    assert story.a.epoch > 4
    assert min(story.kind.since(story.h, "a").values()) > 4
    story.is_fenced("a")
    assert story.commit("a", 4) == [STALE]


@pytest.mark.parametrize("kind", [Consumers, Streams])
@pytest.mark.parametrize("policy", [REVOCATION_EPOCH, ASSIGNMENT_EPOCH])
def test_a_fenced_member_that_joins_under_its_own_id_keeps_its_epochs(kind, policy):
    story = Story(kind, policy, instance=None)
    story.a.forget()
    story.back_as("a")
    assert (story.a.epoch, story.member.revocation_epoch) == (4, 2)
    story.is_fenced("a")


def test_what_it_lost_while_it_was_away_no_earlier_epoch_commits(story):
    story.away()
    other = story.kind.client(story.h, "other")
    story.settle(other)
    story.back_as("a")
    assert story.a.epoch == 5
    assert story.member.revocation_epoch == 4
    assert story.commit("a", 4) == [STALE]
    other.leave()
    story.settle(story.a)
    for epoch in range(1, 5):
        assert story.commit("a", epoch) == [STALE]


def test_what_it_had_to_give_up_when_it_left_counts_as_lost(story):
    """It leaves for a while before it has confirmed the revocation: others get the partitions at once."""
    other = story.kind.client(story.h, "other")
    story.h.advance(SESSION_MS // 4)
    other.beat()
    story.a.beat()
    assert story.member.pending_revocation
    story.away()
    assert story.member.revocation_epoch == 4
    other.beat()
    assert story.kind.owned(other) or other.beat()
    story.back_as("a")
    assert (story.a.epoch, story.member.revocation_epoch) == (5, 4)
    assert story.commit("a", 4) == [STALE]


def test_a_member_that_takes_an_instance_over_is_in_a_later_epoch(story):
    """It gives up its own partitions for those of the instance; in Kafka they belong to nobody until the next rebalance."""
    other = story.kind.client(story.h, "other")
    story.settle(story.a, other)
    epoch = other.epoch
    mine = story.kind.owned(other)
    story.away()
    other.forget()
    other.instance = "i"
    assert other.beat().ok
    story.kind.is_sound(story.h)
    assert (other.epoch, story.h.member("other").revocation_epoch) == (epoch + 1, epoch)
    story.settle(other)
    assert story.kind.owned(other) == {0, 1, 2, 3}
    for number in mine:
        assert ConsumerHarness.commit(story.h, "g", "other", epoch, [("t", number)]) == [STALE]


@pytest.mark.parametrize("member_id", ["a", "b"])
def test_every_record_has_its_epochs_in_order(story, member_id):
    story.away()
    story.back_as(member_id)
    records = written(story.h, story.kind.key)
    assert any(value.member_epoch == -2 for _, value in records)
    for _, value in records:
        assert value.member_epoch == -2 or 0 <= lost_in(value) < value.member_epoch


def test_from_a_crash_at_any_operation_of_the_story_the_member_comes_back(story):
    """The records of one operation are written together; after each of them the member can be loaded and come back."""
    begins = len(story.h.batch_ends)
    for member_id in ("a", "b", "a"):
        story.away()
        story.back_as(member_id)
    records, ends = list(story.h.records), story.h.batch_ends[begins:]
    for end in ends:
        again = story.kind.harness({"t": 4})
        again.records, again.now_ms = records[:end], story.h.now_ms
        again.restart()
        story.kind.is_sound(again)
        client = story.kind.client(again, "a", "i")
        (holder,) = again.groups.by_id["g"].members.values()
        if holder.member_epoch > 0:
            client.id, client.epoch = holder.member_id, holder.member_epoch
            story.kind.away(again, client)
        story.kind.settle(again, [client], 8)
        assert story.kind.owned(client) == {0, 1, 2, 3}


# --- logs of Kafka and of older versions ------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [-1, 0])
def test_a_member_that_another_server_wrote_comes_back_fenced(story, lost):
    """Kafka writes no RevocationEpoch and resets assignment epochs; older versions wrote 0 for both."""
    story.away()
    record = next(each for each in reversed(story.h.records) if each.key.NAME.startswith(story.kind.key + "Current"))
    name = "revocation_epoch" if story.kind is Consumers else "active_task_revocation_epoch"
    setattr(record.value, name, lost)
    for each in record.value.assigned_partitions if story.kind is Consumers else record.value.active_tasks:
        each.assignment_epochs = [0] * len(each.assignment_epochs)
    story.h.epochs_seen = type(story.h.epochs_seen)()
    story.restart()
    story.back_as("a")
    assert (story.a.epoch, story.member.revocation_epoch) == (4, 3)
    assert set(story.kind.since(story.h, "a").values()) == {4}
    story.is_fenced("a")


# --- the classic protocol ---------------------------------------------------------------------------------------------


def test_a_replacement_by_the_classic_protocol_and_back_never_lowers_the_epochs():
    story = Story(Consumers, REVOCATION_EPOCH)
    other = Modern(story.h, "other")
    story.settle(story.a, other)
    lost = story.member.revocation_epoch
    joined = story.h.join(instance="i", protocols={"a": subscription()}, version=9)
    assert joined.ok
    classic_id = joined.reply.member_id
    assert story.h.member(classic_id).revocation_epoch >= lost
    story.kind.is_sound(story.h)
    story.a.forget()
    story.back_as("a")
    assert story.member.revocation_epoch >= lost
    assert story.a.epoch > story.member.revocation_epoch
    story.settle(story.a, other)
    story.is_fenced("a")


def test_a_classic_successor_that_claims_what_it_should_not_have_joins_at_an_epoch():
    """Kafka writes it with member epoch 0, and answers generation 0."""
    story = Story(Consumers, REVOCATION_EPOCH)
    other = Modern(story.h, "other")
    story.away()
    story.settle(other)
    joined = story.h.join(
        instance="i", protocols={"a": subscription(owned={"t": [0, 1, 2, 3]}, generation=4)}, version=9
    )
    assert (joined.error, joined.reply.generation_id) == (NONE, other.epoch - 1)
    member = story.h.member(joined.reply.member_id)
    assert member.pending_revocation
    assert member.revocation_epoch < member.member_epoch == other.epoch - 1
    story.kind.is_sound(story.h)


def test_a_downgrade_and_an_upgrade_never_lower_the_epochs():
    """The classic generation is the group epoch, and what a member held before the upgrade no earlier epoch commits."""
    story = Story(Consumers, REVOCATION_EPOCH)
    classic = Classic(story.h)
    story.settle(story.a, classic)
    before = story.h.member(classic.id)
    story.a.leave()
    settle_consumers(story.h, [classic], 8)
    assert story.h.group().generation >= before.member_epoch
    story.a.id = "later"
    settle_consumers(story.h, [classic, story.a], 8)
    after = story.h.member(classic.id)
    assert after.revocation_epoch >= before.revocation_epoch
    assert after.member_epoch > before.member_epoch
    for number in range(4):
        for epoch in range(1, before.member_epoch + 1):
            (error,) = story.h.commit("g", classic.id, epoch, [("t", number)])
            assert error is ErrorCode.ILLEGAL_GENERATION
