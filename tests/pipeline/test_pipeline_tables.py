"""Small histories, row by row: the content of each table. Every test shows its whole history."""

from typing import Any

import pytest

from tests.pipeline.pipeline_rows import LOG, History, complete_from, frame

pytest.importorskip("pyspark")

from pyspark_coordinator_log import columns
from pyspark_coordinator_log.jobs import (
    gaps,
    intervals,
    invariants,
    rebalances,
    sources,
    transactions,
    verdicts,
    vocabulary,
)

pytestmark = pytest.mark.usefixtures("quick_plans")


def rows(frame: Any, *names: str) -> set[tuple[Any, ...]]:
    return {tuple(row[name] for name in names) for row in frame.collect()}


@pytest.fixture(scope="module")
def moved() -> History:
    """Partition 1 moves from a to b while b joins, with commits of every kind."""
    h = History()
    h.metadata("a")
    h.group_epoch(1)
    h.target_epoch(1)
    h.current("a", 1, {0: 1, 1: 1})
    h.commit_decided("a", 1, {0: 1}, member_epoch=1)
    h.metadata("b")
    h.group_epoch(2)
    h.target_epoch(2)
    h.current("a", 1, {0: 1}, pending={1: 1}, state="UNREVOKED_PARTITIONS")
    h.commit_decided("a", 1, {0: 1, 1: 1}, member_epoch=1)
    h.current("a", 2, {0: 1}, revocation_epoch=1)
    h.current("b", 2, {1: 2})
    h.commit_decided("a", 1, {1: None}, member_epoch=2)
    h.commit_decided("a", 1, {0: 1}, "STALE_MEMBER_EPOCH", member_epoch=2)
    h.commit_decided("a", 2, {1: None}, member_epoch=2)
    h.commit_decided("nobody", 2, {1: None}, "UNKNOWN_MEMBER_ID")
    h.commit_decided("b", 3, {1: 2}, "STALE_MEMBER_EPOCH", member_epoch=2)
    h.commit_decided("b", 2, {1: 2, 0: None}, "OFFSET_METADATA_TOO_LARGE", member_epoch=2)
    h.commit_decided("", -1, {5: None})
    return h


def judging(spark: Any, state: Any, events: Any, complete: int = 0) -> verdicts.VerdictPass:
    members, bound = intervals.member_intervals(state), complete_from(spark, complete)
    runs = intervals.merge_runs(intervals.held_partitions(intervals.merge_unchanged(members), bound))
    return verdicts.VerdictPass(sources.packets_of(events), members, runs, bound)


def owned_in(judged: verdicts.VerdictPass) -> Any:
    return intervals.merge_ownerships(judged.runs)


@pytest.fixture(scope="module")
def judged(spark: Any, moved: History) -> verdicts.VerdictPass:
    return judging(spark, *moved.frames(spark))


def test_a_member_has_one_interval_per_record(spark, moved):
    state, _ = moved.frames(spark)
    found = intervals.member_intervals(state)
    assert rows(found, "member_id", "epoch", "from_offset", "to_offset", "client_id") == {
        ("a", 1, 3, 7, "client of a"),
        ("a", 1, 7, 8, "client of a"),
        ("a", 2, 8, None, "client of a"),
        ("b", 2, 9, None, "client of b"),
    }


def test_an_ownership_spans_epochs_and_pending_revocation(spark, moved):
    state, _ = moved.frames(spark)
    found = intervals.ownership_intervals(intervals.member_intervals(state), complete_from(spark))
    assert rows(found, "partition", "member_id", "from_offset", "to_offset", "acquired_epoch", "last_epoch") == {
        (0, "a", 3, None, 1, 2),
        (1, "a", 3, 8, 1, 1),
        (1, "b", 9, None, 2, 2),
    }


def test_after_a_gap_in_the_log_the_record_dates_an_ownership(spark, moved):
    state, _ = moved.frames(spark)
    found = intervals.ownership_intervals(intervals.member_intervals(state), complete_from(spark, 9))
    assert rows(found, "partition", "member_id", "acquired_epoch", "begin_is_known") == {
        (0, "a", 1, False),
        (1, "a", 1, False),
        (1, "b", 2, True),
    }


def test_each_commit_is_judged_by_the_state_at_its_offset(judged):
    assert rows(judged.rows(), "offset", "partition", "truth", "outcome") == {
        (0, 0, "safe", "accepted"),
        (1, 0, "safe", "accepted"),
        (1, 1, "safe", "accepted"),
        (2, 1, "lost", "accepted"),
        (3, 0, "safe", "refused"),
        (4, 1, "unowned", "accepted"),
        (5, 1, "not a member", "refused"),
        (6, 1, "ahead", "refused"),
        (7, 1, "safe", "failed"),
        (7, 0, "unowned", "failed"),
        (8, 5, "unclaimed", "accepted"),
    }


def test_where_the_state_log_was_compacted_the_event_is_the_evidence(spark, moved):
    state, events = moved.frames(spark)
    found = judging(spark, state, events, 9).rows()
    early = found.where("offset in (0, 1)")
    assert rows(early, "offset", "partition", "truth", "evidence") == {
        (0, 0, "safe", "event"),
        (1, 0, "safe", "event"),
        (1, 1, "safe", "event"),
    }
    assert rows(found.where("offset = 2"), "truth", "evidence") == {("lost", "state")}


def test_policies_are_replayed_by_request(judged):
    found = {row["replayed"]: row for row in verdicts.sums(judged.findings()).replay.to_pylist()}
    assert {name: (row["requests"], row["refused_rightly"], row["refused_wrongly"], row["accepted_zombies"])
            for name, row in found.items()} == {
        "strict": (7, 3, 1, 0),
        "revocation_epoch": (7, 3, 1, 0),
        "assignment_epoch": (7, 3, 0, 0),
        "in force": (7, 2, 1, 1),
    }  # fmt: skip
    assert {row["accepted_unowned"] for row in found.values()} == {1}


def test_the_accepted_zombie_is_the_only_violation(spark, moved, judged):
    state, events = moved.frames(spark)
    found = invariants.check_invariants(state, owned_in(judged), complete_from(spark), judged.findings(), events)
    assert rows(found, "rule", "log", "offset", "member_id", "partition") == {
        (vocabulary.ZOMBIE_ACCEPTED, "events", 2, "a", 1)
    }


def test_an_offset_that_goes_back_is_broken_unless_the_member_has_the_partition(spark):
    h = History()
    for member, owner in (("a", "b"), ("a", "a"), ("b", None), ("", "b")):
        step = ("t", "id-of-t", 3, 20, None, None, 52, owner)
        h.event("OffsetsRewound", member_id=member, partitions=[step])
    found = invariants.offsets_went_back(h.frames(spark)[1])
    assert rows(found, "rule", "member_id", "other_member_id", "partition", "detail") == {
        (vocabulary.OFFSET_WENT_BACK, "a", "b", 3, "20 after 52: 32 records come again"),
        (vocabulary.OFFSET_WENT_BACK, "b", None, 3, "20 after 52: 32 records come again"),
    }


def test_classic_groups_have_generations_and_owners_if_the_protocol_is_known(spark):
    h = History()
    h.generation(1, {"a": [0, 1]})
    h.event("RebalanceCompleted", group_kind="classic", epoch=1, cause="a new member joins", duration_ms=30,
            member_count=1, waited_for=[("a", 20)], delay_ms=10)  # fmt: skip
    h.generation(2, {"a": [0], "b": [1]})
    h.generation(3, {"a": b"\0\1other", "b": b""})
    h.commit_decided("a", 3, {0: None}, group_kind="classic", member_epoch=3, policy=None)
    h.commit_decided("a", 2, {0: None}, "ILLEGAL_GENERATION", group_kind="classic", member_epoch=3, policy=None)
    h.commit_decided("b", 4, {1: None}, "REBALANCE_IN_PROGRESS", group_kind="classic", member_epoch=4, policy=None)
    h.commit_decided("c", 3, {1: None}, "UNKNOWN_MEMBER_ID", group_kind="classic", policy=None)
    h.event("RebalanceOvertaken", group_kind="classic", epoch=2, cause="a member left", duration_ms=9_000,
            member_count=2, waited_for=[("a", 0), ("b", 8_000)], delay_ms=0)  # fmt: skip
    state, events = h.frames(spark)
    members = intervals.member_intervals(state)
    owned = intervals.ownership_intervals(members, complete_from(spark))
    assert rows(owned, "topic_key", "partition", "member_id", "from_offset", "to_offset") == {
        ("t", 0, "a", 0, 2),
        ("t", 1, "a", 0, 1),
        ("t", 1, "b", 1, 2),
    }
    unread = members.where("epoch = 3 and member_id = 'a'").collect()[0]
    assert (unread["held"], bytes(unread["unread_assignment"])) == (None, b"\0\1other")
    judged = judging(spark, state, events).rows()
    assert rows(judged, "offset", "truth", "strict_accepts") == {
        (1, "unknown", None),
        (2, "lost", None),
        (3, "unknown", None),
        (4, "not a member", None),
    }
    found = rebalances.rebalances(rebalances.epochs(state), members, events)
    names = ("epoch", "offset", "members", "cause", "duration_ms", "delay_ms", "slowest_member_id", "superseded")
    assert rows(found, *names) == {
        (1, 0, 1, "a new member joins", 30, 10, "a", False),
        (2, 1, 2, "a member left", 9_000, 0, "b", True),
        (3, 2, 2, None, None, None, None, False),
    }


def test_a_generation_number_that_was_given_out_twice_is_found(spark):
    """By a server that lost the generation 2 in a crash, and by a Kafka that does not know forming generations."""
    h = History()
    h.generation(1, {"a": [0], "b": [1]})
    h.forming(2, ["a", "b"])
    h.forming(2, ["a", "c"])
    h.generation(2, {"a": [0], "c": [1]})
    h.forming(3, ["c", "a"])
    h.generation(3, {"a": [0], "c": [1]})
    state, _ = h.frames(spark)
    found = invariants.generation_twice(state, complete_from(spark))
    assert rows(found, "rule", "log", "offset", "detail") == {
        (vocabulary.GENERATION_TWICE, "state", offset, f"generation {number}: {later}; at offset {first}: {earlier}")
        for offset, number, later, first, earlier in (
            (2, 2, "leader a, range, members a c", 1, "leader a, range, members a b"),
            (3, 2, "leader a, range, members a c", 1, "leader a, range, members a b"),
            (5, 3, "leader a, range, members a c", 4, "leader c, range, members a c"),
        )
    }
    assert invariants.generation_twice(state, complete_from(spark, 6)).isEmpty()


def test_ordinary_generations_are_not_given_out_twice(spark):
    """Resumed after a crash, interrupted, with a static member under another id, emptied, deleted and begun again."""
    h = History()
    h.generation(0, {})
    for _ in range(2):
        h.forming(1, ["a", "old"], {"old": "i"})
        h.generation(1, {"a": [0], "old": [1]}, {"old": "i"})
        h.forming(1, None)
        h.generation(1, {"a": [0], "new": [1]}, {"new": "i"})
        h.forming(2, ["new", "b"], {"new": "i"})
        h.forming(3, ["a", "b"])
        h.generation(3, {"a": [0], "b": [1]})
        h.forming(3, None)
        h.generation(4, {})
        h.generation(None, {})
    state, _ = h.frames(spark)
    assert invariants.generation_twice(state, complete_from(spark)).isEmpty()
    members = intervals.member_intervals(state)
    found = rebalances.rebalances(rebalances.epochs(state), members, None)
    assert rows(found, "epoch", "members") == {(1, 2), (3, 2), (4, 0)}, "a forming generation is not one that began"


def test_an_eviction_gives_no_generation_out_twice_but_hides_no_other(spark):
    """Evicted are the leader of generation 1, and a member of the forming generation 2; 3 and 4 are given to others, too."""
    h = History()
    h.forming(1, ["a", "b"])
    h.generation(1, {"a": [0], "b": [1]})
    h.generation(1, {"b": [1]})
    h.forced(1)
    h.forming(2, ["b", "c", "d"])
    h.forming(2, ["b", "d"])
    h.forced(2)
    h.generation(3, {"b": [0], "d": [1]})
    by_crash = h.generation(3, {"b": [0, 1]})
    h.forced(3)
    h.generation(4, {"b": [0], "d": [1]})
    unforced = h.generation(4, {"b": [0]})
    h.generation(5, {"b": [0], "d": [1]})
    h.generation(5, {"d": [1]})
    h.forced(5)
    back = h.generation(5, {"b": [0], "d": [1]})
    state, _ = h.frames(spark)
    found = invariants.generation_twice(state, complete_from(spark))
    assert rows(found, "offset") == {(by_crash,), (unforced,), (back,)}


def test_commits_of_streams_groups_are_judged_by_their_events(spark):
    h = History()
    streams_commit = {"group_kind": "streams", "policy": "assignment-epoch"}
    h.commit_decided("a", 3, {0: 3}, member_epoch=3, **streams_commit)
    h.commit_decided("a", 2, {0: 2}, member_epoch=3, **streams_commit)
    h.commit_decided("a", 2, {0: 3}, "STALE_MEMBER_EPOCH", member_epoch=3, **streams_commit)
    h.commit_decided("a", 2, {0: None}, "STALE_MEMBER_EPOCH", member_epoch=3, **streams_commit)
    h.commit_decided("z", 2, {0: None}, "UNKNOWN_MEMBER_ID", **streams_commit)
    found = judging(spark, *h.frames(spark))
    assert rows(found.rows(), "offset", "truth", "assignment_epoch_accepts", "evidence") == {
        (0, "safe", True, "event"),
        (1, "safe", True, "event"),
        (2, "lost", False, "event"),
        (3, "lost", False, "event"),
        (4, "not a member", False, "event"),
    }


def test_without_events_rebalances_are_derived_from_records(spark, moved):
    state, _ = moved.frames(spark)
    found = rebalances.rebalances(rebalances.epochs(state), intervals.member_intervals(state), None)
    assert rows(found, "epoch", "offset", "cause", "cause_member_id", "cause_from", "duration_ms", "slowest_member_id",
                "completed") == {
        (1, 1, "member joined", "a", "state", 200, "a", True),
        (2, 5, "member joined", "b", "state", 400, "b", True),
    }  # fmt: skip


def test_a_superseded_rebalance_has_no_duration(spark):
    h = History()
    h.metadata("a")
    h.metadata("b")
    h.group_epoch(1)
    h.target_epoch(1)
    h.current("a", 1, {0: 1})
    h.group_epoch(2)
    h.target_epoch(2)
    h.current("a", 2, {0: 1})
    h.current("b", 2, {1: 2})
    h.event("RebalanceStarted", epoch=3, cause="a member left", member_id="b", reason="closed")
    state, events = h.frames(spark)
    found = rebalances.rebalances(rebalances.epochs(state), intervals.member_intervals(state), events)
    assert rows(found, "epoch", "offset", "cause", "reason", "duration_ms", "completed", "superseded") == {
        (1, 2, "member joined", None, None, False, True),
        (2, 5, None, None, 300, True, False),
        (3, None, "a member left", "closed", None, False, False),
    }


def test_transactional_offsets_take_effect_at_the_next_marker_or_never(spark):
    h = History()
    h.offset(0, 1, producer=7)
    h.offset(1, 1, producer=8)
    h.offset(2, 5)
    h.marker(8, commit=False)
    h.offset(0, 2, producer=7)
    h.marker(7, commit=True)
    h.offset(0, 3, producer=7)
    h.offset(2, None)
    commits = frame(spark, columns.COMMITS, h.commits)
    markers = frame(spark, columns.RAW, h.markers)
    found = transactions.offset_commits(commits, markers).localCheckpoint()
    assert rows(found, "offset", "outcome", "effective_offset", "tombstone") == {
        (0, "committed", 5, False),
        (1, "aborted", None, False),
        (2, "plain", 2, False),
        (4, "committed", 5, False),
        (6, "pending", None, False),
        (7, "plain", 7, True),
    }
    assert rows(transactions.transactions(found), "producer_id", "outcome", "commits", "partitions") == {
        (7, "committed", 2, 1),
        (7, "pending", 1, 1),
        (8, "aborted", 1, 1),
    }
    assert rows(transactions.offset_commits(commits, None), "outcome") == {(None,)}


def opening(h: History, at: int, **fields: Any) -> None:
    plain = {"policy": "all", "cleanly_closed": False, "group": None, "group_kind": None}
    h.event("EventLogOpened", at=at, **{**plain, **fields})


def test_a_gap_in_the_event_log_is_a_row(spark):
    h = History()
    opening(h, 0)
    h.event("RebalanceStarted", at=4)
    opening(h, 20, previous_state_offset=4, covered_state_offset=9)
    opening(h, 30, previous_state_offset=20, covered_state_offset=30, cleanly_closed=True, policy="refused")
    opening(h, 50, previous_state_offset=45, covered_state_offset=50, cleanly_closed=True)
    events = frame(spark, columns.EVENTS, h.events)
    opened = gaps.openings(events)
    found = gaps.event_gaps(opened, [gaps.FirstEvent(LOG, 0, 0, 0)]).to_pylist()
    assert {(gap["what"], gap["from_state_offset"], gap["to_state_offset"]) for gap in found} == {
        ("lost", 9, 20),
        ("not written", 30, 50),
    }
    assert [gap["detail"] for gap in found if gap["what"] == "not written"] == ["events: refused"]
    later = gaps.event_gaps(opened, [gaps.FirstEvent(LOG, 0, 7, 4)]).to_pylist()
    assert [gap["to_state_offset"] for gap in later if gap["what"] == "deleted"] == [4]


def test_undone_events_are_dropped(spark):
    h = History()
    opening(h, 0)
    for at in (1, 2, 3):
        h.event("RebalanceStarted", at=at)
    opening(h, 2, undone_from_offset=2, covered_state_offset=2, previous_state_offset=3)
    h.event("RebalanceStarted", at=3)
    events = frame(spark, columns.EVENTS, h.events)
    kept = gaps.without_undone(events, gaps.undone(gaps.openings(events)))
    assert rows(kept, "offset") == {(0,), (1,), (4,), (5,)}
