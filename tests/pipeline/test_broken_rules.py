"""Small histories of members and commits, and the rules that the invariants find broken in each.

Each history is a shard of one log: Spark plans a judgement for seconds and runs it for moments, so it judges all at once.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.pipeline.pipeline_rows import History, complete_from, frame

pytest.importorskip("pyspark")

from pyspark_coordinator_log import columns
from pyspark_coordinator_log.jobs import intervals, invariants, sources, verdicts, vocabulary

pytestmark = pytest.mark.usefixtures("quick_plans")

Broken = set[tuple[str, int, str | None, int | None]]
"""(rule, offset, member id, partition) of each row."""


def every_violation(h: History) -> Broken:
    h.metadata("a")
    h.metadata("b")
    h.group_epoch(2)
    h.target_epoch(2)
    h.current("a", 2, {0: 2, 1: 1})
    h.current("b", 2, {0: 2})
    h.current("b", 3, {}, revocation_epoch=3)
    h.target_epoch(4)
    h.commit_decided("a", 2, {0: 2}, member_epoch=1)
    h.commit_decided("a", 2, {0: 2}, member_epoch=2, strict_accepts=False)
    for policy in ("report", "refuse"):
        h.event("AssignmentInvalid", group_kind="classic", member_id="c", epoch=4, policy=policy,
                partitions=[("t", None, 3, None, "two_members", None, None, None)])  # fmt: skip
    return {
        (vocabulary.SINCE_TOO_EARLY, 4, "a", 1),
        (vocabulary.TWO_OWNERS, 5, "b", 0),
        (vocabulary.EPOCH_ORDER, 6, "b", None),
        (vocabulary.EPOCH_ORDER, 7, None, None),
        (vocabulary.EVENT_DISAGREES, 0, "a", 0),
        (vocabulary.VERDICT, 1, "a", None),
        (vocabulary.INVALID_ASSIGNMENT, 2, "c", 3),
    }


def a_static_member_that_left_temporarily_keeps_its_partitions(h: History) -> Broken:
    h.metadata("a")
    h.group_epoch(3)
    h.target_epoch(3)
    h.current("a", 3, {0: 3})
    h.current("a", -2, {0: 3})
    h.commit_decided("a", 3, {0: 3}, "STALE_MEMBER_EPOCH")
    return set()


def _static_member(h: History) -> None:
    """Static member a has had partition 0 since epoch 5, and had lost it after epoch 3."""
    h.metadata("a", instance="i")
    h.group_epoch(5)
    h.target_epoch(5)
    h.current("a", 5, {0: 5}, revocation_epoch=3)


def an_ordinary_restart_of_a_static_member(h: History) -> Broken:
    _static_member(h)
    h.current("a", -2, {0: 5}, revocation_epoch=3)
    h.current("a", 5, {0: 5}, revocation_epoch=3)
    h.current("a", -2, {0: 5}, revocation_epoch=3)
    h.gone("a")
    h.metadata("b", instance="i")
    h.current("b", 5, {0: 5}, revocation_epoch=4)
    h.commit_decided("b", 5, {0: 5}, member_epoch=5)
    return set()


def epochs_that_fall_also_across_member_ids(h: History) -> Broken:
    _static_member(h)
    h.current("a", -2, {0: 0}, revocation_epoch=3)
    fell = [h.current("a", 5, {0: 5}, revocation_epoch=0)]
    h.current("a", -2, {0: 5}, revocation_epoch=0)
    h.gone("a")
    h.metadata("b", instance="i")
    h.current("b", 5, {0: 5}, revocation_epoch=4)
    h.gone("b")
    h.metadata("a", instance="i")
    fell.append(h.current("a", 5, {0: 5}, revocation_epoch=3))
    return {(vocabulary.EPOCH_FELL, offset, "a", None) for offset in fell}


def an_assignment_epoch_that_falls_lets_a_zombie_through(h: History) -> Broken:
    """The commit with epoch 2, from before the member lost the partition, is accepted after the planted record."""
    _static_member(h)
    fell = h.current("a", 5, {0: 2}, revocation_epoch=3)
    commit = h.commit_decided("a", 2, {0: 2}, member_epoch=5)
    return {(vocabulary.EPOCH_FELL, fell, "a", 0), (vocabulary.ZOMBIE_ACCEPTED, commit, "a", 0)}


def a_new_life_of_a_member_begins_with_new_epochs(h: History) -> Broken:
    """Its session expired, which raised the group's epoch."""
    _static_member(h)
    h.gone("a")
    h.group_epoch(6)
    h.metadata("a", instance="i")
    h.group_epoch(7)
    h.target_epoch(7)
    h.current("a", 7, {0: 7})
    return set()


def _restarts_that_reset_epochs(h: History, revocation_epoch: int | None) -> Broken:
    h.metadata("a", instance="i")
    h.group_epoch(5)
    h.target_epoch(5)
    lost = None if revocation_epoch is None else 3
    h.current("a", 5, {0: 5}, revocation_epoch=lost)
    for former, member in (("a", "a"), ("a", "b"), ("b", "a")):
        h.current(former, -2, {0: 0}, revocation_epoch=lost)
        h.gone(former)
        h.metadata(member, instance="i")
        h.current(member, 0, {0: 0}, revocation_epoch=revocation_epoch)
        h.current(member, 5, {0: 0}, revocation_epoch=revocation_epoch)
    return set()


def a_log_of_an_older_version(h: History) -> Broken:
    """It reset a static member that restarted, by a record with member epoch 0."""
    return _restarts_that_reset_epochs(h, 0)


def a_log_of_kafka(h: History) -> Broken:
    """Kafka has no revocation epochs."""
    return _restarts_that_reset_epochs(h, None)


def epochs_of_a_streams_group(h: History) -> Broken:
    def record(kind: str, **fields: Any) -> int:
        return h._record(type=f"StreamsGroup{kind}", group_kind="streams", **fields)

    def current(epoch: int, lost: int | None) -> int:
        return record("CurrentMemberAssignment", member_id="a", member_epoch=epoch, revocation_epoch=lost)

    record("MemberMetadata", member_id="a", instance_id="i")
    record("Metadata", epoch=5)
    record("TargetAssignmentMetadata", target_epoch=5)
    current(4, None)
    current(5, 4)
    current(-2, 4)
    fell = current(5, 2)
    out_of_order = {current(5, 5), current(6, 5)}
    return {
        (vocabulary.EPOCH_FELL, fell, "a", None),
        *((vocabulary.EPOCH_ORDER, offset, "a", None) for offset in out_of_order),
    }


STORIES: tuple[Callable[[History], Broken], ...] = (
    every_violation,
    a_static_member_that_left_temporarily_keeps_its_partitions,
    an_ordinary_restart_of_a_static_member,
    epochs_that_fall_also_across_member_ids,
    an_assignment_epoch_that_falls_lets_a_zombie_through,
    a_new_life_of_a_member_begins_with_new_epochs,
    a_log_of_an_older_version,
    a_log_of_kafka,
    epochs_of_a_streams_group,
)


class Judgement:
    """All stories, each in a shard of its own: what each expects, and the rows of one judgement."""

    def __init__(self, spark: Any) -> None:
        histories = [History(shard=shard) for shard in range(len(STORIES))]
        self.expected = [story(history) for story, history in zip(STORIES, histories, strict=True)]
        state = frame(spark, columns.STATE, [row for each in histories for row in each.state])
        events = frame(spark, columns.EVENTS, [row for each in histories for row in each.events])
        members, bound = intervals.member_intervals(state), complete_from(spark, shards=len(STORIES))
        members = intervals.materialize(members)
        held = intervals.held_partitions(intervals.merge_unchanged(members), bound)
        runs = intervals.materialize(intervals.merge_runs(held))
        judged = verdicts.VerdictPass(sources.packets_of(events), members, runs, bound)
        owned = intervals.materialize(intervals.merge_ownerships(runs))
        broken = invariants.check_invariants(state, owned, bound, judged.findings(), events)
        self.owned, self.verdicts, self.broken = owned.collect(), judged.rows().collect(), broken.collect()

    def of(self, rows: list[Any], story: Callable[[History], Broken], *names: str) -> set[tuple[Any, ...]]:
        shard = STORIES.index(story)
        return {tuple(row[name] for name in names) for row in rows if row["shard"] == shard}


@pytest.fixture(scope="module")
def judged(spark: Any) -> Judgement:
    return Judgement(spark)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_exactly_the_rules_that_a_history_breaks_are_found(judged, story):
    found = judged.of(judged.broken, story, "rule", "offset", "member_id", "partition")
    assert found == judged.expected[STORIES.index(story)]


def test_a_member_that_left_temporarily_owns_what_it_had_and_may_not_commit(judged):
    story = a_static_member_that_left_temporarily_keeps_its_partitions
    assert judged.of(judged.verdicts, story, "truth") == {("ahead",)}
    assert judged.of(judged.owned, story, "from_offset", "to_offset") == {(3, None)}
