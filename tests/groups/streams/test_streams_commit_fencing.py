"""Which commits and reads of offsets a streams group accepts: a member owns the partitions that its active tasks read."""

import pytest

from coordinator.groups.commit_events import Verdict
from coordinator.groups.fencing import BEHIND, LOST_SINCE, NAMES_NO_MEMBER, NOT_OWNED
from coordinator.groups.offsets.fetch import fetch_group
from coordinator.groups.settings import ASSIGNMENT_EPOCH, FENCING_POLICIES, REVOCATION_EPOCH, STRICT
from coordinator.groups.streams import records
from coordinator.groups.streams.member import TasksTuple
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import OffsetFetchRequest
from coordinator.runtime.result import Result
from tests.groups.consumer.consumer_world import ChangeableSettings, ConsumerHarness
from tests.groups.staged_commit import stage
from tests.groups.streams.streams_world import PLAIN, STATEFUL, StreamsHarness, Thread, part, settle, topology

NONE, STALE = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


class Harness(StreamsHarness):
    commit = ConsumerHarness.commit
    stage = stage

    def fetch(self, member_id, epoch):
        request = OffsetFetchRequest.OffsetFetchRequestGroup("g", member_id, epoch, None)
        return fetch_group(self.groups, request, by_id=False, require_stable=False).error_code


def halved(sent=PLAIN, **settings):
    """Member a had all tasks at epoch 2 and has two at epoch 3; b has the others. Returns (harness, kept, lost)."""
    h = Harness()
    h.groups.settings = ChangeableSettings(h.config)
    h.groups.settings.set("g", **settings)
    a, b = Thread(h, "a", sent=sent), Thread(h, "b", sent=sent)
    settle(h, [a], 3)
    had = set(a.active)
    settle(h, [a, b], 8)
    assert (a.epoch, b.epoch) == (3, 3)
    kept, lost = ([("t", number) for _, number in sorted(tasks)] for tasks in (a.active, had - a.active))
    return h, kept, lost


def moved_on(policy):
    """Member m has had all tasks since epoch 2 and is at epoch 3; it has lost nothing."""
    h = Harness(group_streams_assignment_interval_ms=0)
    h.groups.settings = ChangeableSettings(h.config)
    h.groups.settings.set("g", streams_fencing_policy=policy)
    h.arrive("m")
    assert h.beat("m", 2, tags={"zone": "z"}).reply.member_epoch == 3
    return h


def update_target(h, tasks):
    """Another target, as an assignor might compute it. `tasks`: member id -> active tasks, standby tasks."""
    group = h.streams()
    epoch = group.group_epoch + 1
    written = [
        records.group_epoch(
            group,
            epoch,
            metadata_hash=group.metadata_hash,
            validated_topology_epoch=group.validated_topology_epoch,
            assignment_configs=group.assignment_configs,
        )
    ]
    for member_id, parts in tasks.items():
        by_id = [{sub: frozenset(n for s, n in each if s == sub) for sub, _ in each} for each in parts]
        written.append(records.target_of_member("g", member_id, TasksTuple(*by_id)))
    h._apply(Result(records=[*written, records.target_epoch("g", epoch, h.now_ms)]))


def test_at_its_epoch_a_member_may_commit_anything():
    h, kept, lost = halved()
    assert h.commit("g", "a", 3, [*kept, *lost]) == [NONE] * 4


@pytest.mark.parametrize(
    ("policy", "refused"), [(STRICT, BEHIND), (REVOCATION_EPOCH, LOST_SINCE), (ASSIGNMENT_EPOCH, None)]
)
def test_after_the_loss_of_a_task_the_policy_decides_about_the_kept_ones(policy, refused):
    h, kept, _ = halved(streams_fencing_policy=policy)
    assert h.member("a").revocation_epoch == 2
    assert h.commit("g", "a", 2, kept) == ([STALE, STALE] if refused else [NONE, NONE])
    assert h.groups.counters.fenced == ({refused: 1} if refused else {})


@pytest.mark.parametrize(("policy", "refused"), [(STRICT, True), (REVOCATION_EPOCH, False), (ASSIGNMENT_EPOCH, False)])
def test_at_an_earlier_epoch_without_a_loss_since_the_policy_decides(policy, refused):
    h = moved_on(policy)
    assert h.commit("g", "m", 2, [("t", 0)]) == [STALE if refused else NONE]


def test_the_loss_of_a_standby_task_is_no_revocation():
    h = Harness(group_streams_assignment_interval_ms=0, group_streams_num_standby_replicas=1)
    a, b = (Thread(h, each, process=each, sent=STATEFUL) for each in "ab")
    settle(h, [a, b], 8)
    before = {each.id: (set(each.active), set(each.standby)) for each in (a, b)}
    lost_in = {each.id: h.member(each.id).revocation_epoch for each in (a, b)}
    update_target(h, {each: (before[each][0], set()) for each in "ab"})
    settle(h, [a, b], 6)
    for each in (a, b):
        assert (each.active, each.standby) == (before[each.id][0], set()) != before[each.id]
        assert h.member(each.id).revocation_epoch == lost_in[each.id] < each.epoch - 1
        reads = [("t", number) for _, number in sorted(each.active)]
        assert h.commit("g", each.id, each.epoch - 1, reads) == [NONE] * len(reads)


def test_a_task_that_becomes_a_standby_is_lost():
    h = Harness(group_streams_assignment_interval_ms=0, group_streams_num_standby_replicas=1)
    a, b = (Thread(h, each, process=each, sent=STATEFUL) for each in "ab")
    settle(h, [a, b], 8)
    had = (set(a.active), set(b.active))
    lost_in = a.epoch
    update_target(h, {"a": (had[1], had[0]), "b": (had[0], had[1])})
    settle(h, [a, b], 8)
    assert a.standby == had[0]
    assert h.member("a").revocation_epoch == lost_in


@pytest.mark.parametrize("policy", FENCING_POLICIES)
def test_a_member_whose_record_says_nothing_of_a_loss_is_held_to_its_epoch(policy):
    """Older versions and Kafka write no ActiveTaskRevocationEpoch: the event says that this policy cannot be asked."""
    h = moved_on(policy)
    (record,) = [each for each in h.records if each.key.NAME == "StreamsGroupCurrentMemberAssignmentKey"][-1:]
    record.value.active_task_revocation_epoch = -1
    h.groups.replay(record)
    expected = NONE if policy == ASSIGNMENT_EPOCH else STALE
    assert h.commit("g", "m", 2, [("t", 0)]) == [expected]
    event = h.events_of("CommitDecided")[-1]
    assert (event.revocation_epoch, event.revocation_epoch_verdict) == (-1, Verdict.CANNOT_SAY)
    assert (event.strict_verdict, event.assignment_epoch_verdict) == (Verdict.REFUSES, Verdict.ACCEPTS)
    h.commit("g", "m", 1, [("t", 0)])
    assert h.events_of("CommitDecided")[-1].revocation_epoch_verdict == Verdict.REFUSES
    h.commit("g", "m", 3, [("t", 0)])
    assert h.events_of("CommitDecided")[-1].revocation_epoch_verdict == Verdict.ACCEPTS


@pytest.mark.parametrize("policy", FENCING_POLICIES)
def test_a_lost_partition_fails_the_whole_commit(policy):
    h, kept, lost = halved(streams_fencing_policy=policy)
    assert h.commit("g", "a", 2, [kept[0], lost[0]]) == [STALE, STALE]


@pytest.mark.parametrize("policy", FENCING_POLICIES)
def test_a_partition_assigned_later_is_refused_at_an_earlier_epoch(policy):
    h, _, lost = halved(streams_fencing_policy=policy)
    assert h.commit("g", "b", 2, lost[:1]) == [STALE]


def test_ownership_can_be_required_at_the_members_epoch_too():
    h, kept, lost = halved(streams_fencing_require_ownership="true")
    assert h.commit("g", "a", 3, kept) == [NONE, NONE]
    assert h.commit("g", "a", 3, lost[:1]) == [STALE]
    assert h.groups.counters.fenced == {NOT_OWNED: 1}


def test_a_topic_outside_the_topology_has_no_owner():
    h, _, _ = halved()
    assert h.commit("g", "a", 2, [("u", 0)]) == [STALE]
    assert h.commit("g", "a", 3, [("u", 0)]) == [NONE]


def test_a_repartition_topic_is_read_by_the_tasks_of_its_part():
    h = Harness(group_streams_assignment_interval_ms=0)
    sent = topology(part("0", ("u",), repartition_sinks=("u-log",)), part("1", (), repartition_sources=("u-log",)))
    h.arrive(sent=sent)
    assert h.beat("m", 2, tags={"zone": "z"}).reply.member_epoch == 3
    assert h.commit("g", "m", 2, [("u-log", 0), ("u-log", 1), ("u", 0)]) == [NONE] * 3


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "error"),
    [
        ("a", 4, 9, STALE),
        ("nobody", 3, 9, UNKNOWN),
        ("", -1, 9, UNKNOWN),
        ("a", 3, 8, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_commit_with_a_wrong_member_or_epoch_is_refused(member_id, epoch, version, error):
    h, kept, _ = halved()
    assert h.commit("g", member_id, epoch, kept[:1], version=version) == [error]


def test_a_simple_consumer_may_commit_to_a_group_without_members():
    h, kept, _ = halved()
    h.beat("a", -1)
    h.beat("b", -1)
    assert h.commit("g", "", -1, kept[:1]) == [NONE]


@pytest.mark.parametrize(("version", "stale"), [(3, ErrorCode.ILLEGAL_GENERATION), (6, STALE)])
def test_commits_in_transactions_follow_the_same_rules_with_their_versions_errors(version, stale):
    h, kept, lost = halved(streams_fencing_policy=ASSIGNMENT_EPOCH)
    assert h.stage("a", 3, lost[0], version=version) == NONE
    assert h.stage("a", 2, kept[0], version=version) == NONE
    assert h.stage("a", 2, lost[0], version=version) == stale
    assert h.stage("a", 4, kept[0], version=version) == stale
    assert h.stage("nobody", 3, kept[0], version=version) == UNKNOWN
    h.groups.settings.set("g", streams_fencing_policy=REVOCATION_EPOCH)
    assert h.stage("a", 2, kept[0], version=version) == stale


def test_a_transaction_that_names_no_member_is_accepted_unless_one_is_required():
    h, kept, _ = halved()
    assert h.stage("", -1, kept[0]) == NONE
    h.groups.settings.set("g", fencing_require_member="true")
    assert h.stage("", -1, kept[0]) == UNKNOWN
    assert h.groups.counters.fenced == {NAMES_NO_MEMBER: 1}


def test_offsets_are_read_with_the_members_epoch_or_without_a_member():
    h, _, _ = halved()
    assert h.fetch("a", 3) == NONE
    assert h.fetch("a", 2) == STALE
    assert h.fetch("nobody", 3) == UNKNOWN
    assert h.fetch(None, -1) == NONE


def test_the_event_of_a_commit_has_the_epochs_that_decided_it():
    h, kept, lost = halved()
    h.commit("g", "a", 2, [kept[0], lost[0]])
    event = h.events_of("CommitDecided")[-1]
    assert (event.group_kind, event.error_code, event.policy) == (2, STALE, REVOCATION_EPOCH)
    assert (event.member_epoch, event.revocation_epoch) == (3, 2)
    verdicts = (event.strict_verdict, event.revocation_epoch_verdict, event.assignment_epoch_verdict)
    assert verdicts == (Verdict.REFUSES, Verdict.REFUSES, Verdict.REFUSES)
    assert [each.assignment_epoch for topic in event.topics for each in topic.partitions] == [2, -1]
