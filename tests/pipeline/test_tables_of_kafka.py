"""Tables of a log that Apache Kafka wrote, from its segments and from a copy over the network.

Kafka has no event log, so the tables do not say who committed what, or why a group rebalanced. Everything in its records is
the same both ways.
"""

from typing import Any

import pytest

pytest.importorskip("pyspark")

from coordinator.client.blocking import UNPROTECTED
from coordinator.operations.cluster_mirror import copied_cluster
from pyspark_coordinator_log.jobs import sources, tables

pytestmark = pytest.mark.usefixtures("quick_plans")


def derived(found: sources.LogSource) -> tables.Derived:
    return tables.Derived(source=found, keep=lambda _, made: made.localCheckpoint())


def rows(frame: Any, *names: str) -> set[tuple[Any, ...]]:
    return {tuple(row[name] for name in names) for row in frame.collect()}


@pytest.mark.java
def test_both_kinds_of_groups_have_tables_without_event_data(spark, kafka_with_history):
    broker = kafka_with_history
    ours = derived(sources.from_log(spark, str(broker.data_dir), {}))
    assert ours.commit_verdicts is None
    assert ours.policy_replay is None
    assert ours.event_gaps is None
    owned = rows(ours.ownership_intervals, "group", "partition", "to_offset")
    assert {each for each in owned if each[0] == "classic"} == {("classic", 0, None), ("classic", 2, None)}
    assert {each for each in owned if each[0] == "modern" and each[2] is None} == {
        ("modern", n, None) for n in range(3)
    }
    moves = [row for row in ours.rebalances.collect() if row["group"] in ("classic", "modern")]
    assert {(row["group"], row["cause"], row["cause_from"]) for row in moves if row["epoch"] == 1} >= {
        ("classic", None, None)
    }
    assert all(row["reason"] is None and row["cause_from"] != "event" for row in moves)
    assert ours.invariants_broken.isEmpty()
    outcomes = rows(ours.offset_commits.where("is_transactional"), "committed_offset", "outcome")
    assert outcomes == {(100, "committed"), (200, "aborted")}
    assert rows(ours.transactions, "outcome", "commits") == {("committed", 1), ("aborted", 1)}

    with copied_cluster(broker.bootstrap, 30, UNPROTECTED) as folder:
        theirs = derived(sources.from_log(spark, str(folder), {}))
        for name in ("member_intervals", "epochs", "offset_commits", "transactions"):
            wanted = [
                each for each in getattr(ours, name).columns if each not in ("log_id", "held", "unread_assignment")
            ]
            assert rows(getattr(theirs, name), *wanted) == rows(getattr(ours, name), *wanted)
        assert theirs.commit_verdicts is None
