"""The pipeline against the reference model, on histories made by the core, with planted violations.

Tests of `follow` (test_follow.py) check that reading in batches gives the same results.
"""

import pytest

from tests.pipeline.histories import SimulatedHistory
from tests.pipeline.reference_model import ReferenceResult, replay

pytest.importorskip("pyspark")

from pyspark_coordinator_log.jobs import audit, sources, tables, vocabulary

pytestmark = pytest.mark.usefixtures("quick_plans")


SEEDS = (1, pytest.param(2, marks=pytest.mark.thorough))
ZOMBIES = ("lost", "ahead", "not a member")


def planted(seed: int) -> tuple[SimulatedHistory, ReferenceResult, dict[str, object]]:
    """A history with two owners, an epoch ahead of its group, a generation that was given out twice, and accepted zombies."""
    story = SimulatedHistory(seed).run_workload(450)
    twice = story.plant_second_owner()
    story.run_workload(40)
    ahead = story.put_epoch_ahead()
    story.run_workload(60)
    repeated = story.repeat_generation()
    refused = sorted(
        {row[0] for row in replay(story.records, story.events).verdicts if row[3] == "lost" and row[-1] == "refused"}
    )
    through = refused[::5]
    for index in through:
        story.accept_refused_commit(index)
    return story, replay(story.records, story.events), {
        "twice": twice, "ahead": ahead, "repeated": repeated, "through": set(through),
    }  # fmt: skip


@pytest.fixture(scope="module", params=SEEDS)
def planted_case(request, tmp_path_factory, spark):
    story, truth, plan = planted(request.param)
    folder = story.write(tmp_path_factory.mktemp("story"))
    derived = tables.Derived(
        source=sources.from_log(spark, str(folder), {}), keep=lambda _, made: made.localCheckpoint()
    )
    return derived, truth, plan


def test_intervals_epochs_and_verdicts_match_the_reference_model(planted_case):
    derived, truth, _ = planted_case
    members = {
        (row["group"], row["member_id"], row["epoch"], row["from_offset"], row["to_offset"])
        for row in derived.member_intervals.collect()
    }
    assert members == truth.members
    owned = {
        (row["group"], row["topic_key"], row["partition"], row["member_id"], row["from_offset"], row["to_offset"],
         row["acquired_epoch"])
        for row in derived.ownership_intervals.collect()
    }  # fmt: skip
    assert owned == truth.ownership
    assert {
        (row["group"], row["kind"], row["epoch"], row["offset"]) for row in derived.epochs.collect()
    } == truth.epochs
    assert sorted(map(repr, verdict_rows(derived.commit_verdicts.collect()))) == sorted(map(repr, truth.verdicts))


def verdict_rows(rows):
    names = ("offset", "topic_key", "partition", "truth", "member_epoch", "owned_since", "strict_accepts",
             "revocation_epoch_accepts", "assignment_epoch_accepts", "outcome")  # fmt: skip
    return [tuple(row[name] for name in names) for row in rows]


def test_exactly_the_planted_violations_are_found(planted_case):
    derived, truth, plan = planted_case
    rows = derived.invariants_broken.collect()
    zombies = {row["offset"] for row in rows if row["rule"] == vocabulary.ZOMBIE_ACCEPTED}
    assert plan["through"]
    assert plan["through"] <= zombies
    assert zombies == {row[0] for row in truth.verdicts if row[3] in ZOMBIES and row[-1] == "accepted"}
    twice = {(row["group"], row["topic_key"], row["partition"], row["member_id"], row["offset"]) for row in rows
             if row["rule"] == vocabulary.TWO_OWNERS}  # fmt: skip
    assert twice == truth.two_owners
    assert plan["twice"] in {row[-1] for row in twice}
    order = {(row["group"], row["offset"]) for row in rows if row["rule"] == vocabulary.EPOCH_ORDER}
    assert order == truth.epoch_order
    assert plan["ahead"] in {row[1] for row in order}
    repeated = {(row["group"], row["offset"]) for row in rows if row["rule"] == vocabulary.GENERATION_TWICE}
    assert repeated == truth.generation_twice == {("c", plan["repeated"])}
    # The server's events agree with its log up to the first forged record.
    forged_ms = min(row["time_ms"] for row in rows if row["rule"] in (vocabulary.TWO_OWNERS, vocabulary.EPOCH_ORDER))
    differ = [row for row in rows if row["rule"] in (vocabulary.EVENT_DISAGREES, vocabulary.VERDICT)]
    assert [row for row in differ if row["time_ms"] < forged_ms] == []
    # Static members restart now and then; their epochs go on.
    fell = [row for row in rows if row["rule"] in (vocabulary.EPOCH_FELL, vocabulary.SINCE_TOO_EARLY)]
    assert [row for row in fell if row["time_ms"] < forged_ms] == []


def test_the_sums_of_the_audit_match_the_reference_model(planted_case):
    derived, truth, _ = planted_case
    found = audit.summary(derived)
    rows = truth.verdicts
    assert found["commits"]["decisions"] == len(rows)
    assert found["commits"]["zombies_accepted"] == sum(row[3] in ZOMBIES and row[-1] == "accepted" for row in rows)
    assert found["commits"]["zombies_refused"] == sum(row[3] in ZOMBIES and row[-1] == "refused" for row in rows)
    assert found["commits"]["unowned_accepted"] == sum(row[3] == "unowned" and row[-1] == "accepted" for row in rows)
    requests: dict[int, list[tuple]] = {}
    for row in rows:
        if row[6] is not None:
            requests.setdefault(row[0], []).append(row)
    for index, name in enumerate(("strict", "revocation_epoch", "assignment_epoch")):
        refused = [each for each in requests.values() if not all(row[6 + index] for row in each)]
        rightly = [each for each in refused if any(row[3] in (*ZOMBIES, "unowned") for row in each)]
        policy = next(row for row in found["policies"] if row["replayed"] == name)
        assert (policy["refused"], policy["refused_rightly"]) == (len(refused), len(rightly))
        assert policy["requests"] == len(requests)
    assert not audit.is_clean(found)
    assert found["gaps"] == []


def test_a_history_without_violations_is_clean(spark, tmp_path):
    story = SimulatedHistory(3).run_workload(300)
    derived = tables.Derived(
        source=sources.from_log(spark, str(story.write(tmp_path)), {}), keep=lambda _, made: made.localCheckpoint()
    )
    found = audit.summary(derived)
    assert found["broken"] == {}
    assert audit.is_clean(found)
