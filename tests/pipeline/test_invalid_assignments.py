"""A leader that assigns against the rules is found in every place where somebody may look: log, metric, view, event, audit."""

from typing import Any

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.subscription import Assignment, Subscription, encode_assignment, encode_subscription
from tests.support.admin_client import scrape, view
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

pytest.importorskip("pyspark")

from pyspark_coordinator_log.jobs import audit, sources, tables, vocabulary

pytestmark = pytest.mark.usefixtures("quick_plans")

ASSIGNOR = "cooperative-sticky"
RULES = ("two_members", "no_subscriber", "not_revoked")


class Member:
    """A member on a connection of its own."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.link = Connection(bootstrap)
        self.about = {"group_id": group, "protocol_type": "consumer"}
        self.member_id = ""
        self.generation = -1

    def join(self, *owned: int) -> None:
        metadata = encode_subscription(Subscription(("orders",), None, {"orders": owned}, self.generation, None, 3))
        protocols = [{"name": ASSIGNOR, "metadata": metadata}]
        timeouts = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000}
        self.link.send("JoinGroup", 3, {**self.about, **timeouts, "member_id": self.member_id, "protocols": protocols})

    def joined(self) -> None:
        answer = self.link.receive()
        assert answer["error_code"] == 0
        self.member_id, self.generation = answer["member_id"], answer["generation_id"]

    def sync(self, **assignments: dict[str, tuple[int, ...]]) -> None:
        each = [
            {"member_id": member_id, "assignment": encode_assignment(Assignment(partitions, None, 3))}
            for member_id, partitions in assignments.items()
        ]
        about = {**self.about, "protocol_name": ASSIGNOR, "generation_id": self.generation, "member_id": self.member_id}
        self.link.send("SyncGroup", 5, {**about, "assignments": each})

    def synced(self) -> int:
        return self.link.receive()["error_code"]


def lead_badly(server: ServerProcess, group: str) -> tuple[list[int], str, str]:
    """A group of two whose leader breaks all rules; returns the answers to both, and their ids."""
    leader, follower = Member(server.bootstrap, group), Member(server.bootstrap, group)
    leader.join()
    leader.joined()
    leader.sync(**{leader.member_id: {"orders": (0, 1)}})
    assert leader.synced() == 0
    follower.join()
    leader.join(0, 1)
    leader.joined()
    follower.joined()
    follower.sync()
    leader.sync(**{leader.member_id: {"orders": (0,)}, follower.member_id: {"orders": (0, 1), "events": (3,)}})
    answers = [leader.synced(), follower.synced()]
    leader.link.close()
    follower.link.close()
    return answers, leader.member_id, follower.member_id


def test_a_leader_that_breaks_rules_is_found_everywhere(spark: Any, coordinator_process: Any) -> None:
    server = coordinator_process()
    with Connection(server.bootstrap) as link:
        config = {"name": "classic.validate.assignments", "config_operation": 0, "value": "refuse"}
        resource = {"resource_type": 32, "resource_name": "strict", "configs": [config]}
        (answer,) = link.call("IncrementalAlterConfigs", 1, resources=[resource])["responses"]
        assert answer["error_code"] == 0
    received, leader, follower = lead_badly(server, "lenient")
    refused, _, _ = lead_badly(server, "strict")
    assert (received, refused) == ([0, 0], [ErrorCode.REBALANCE_IN_PROGRESS] * 2)

    assert server.log.count("event=assignment_invalid") == 2
    samples = scrape(server)
    assert samples["coordinator_invalid_assignments_total"] == {(rule,): 2.0 for rule in RULES}
    causes = samples["coordinator_rebalances_total"]
    assert causes[("the leader's assignment is invalid", "classic")] == 1
    shown = view(server, "/v1/groups/lenient")["invalid_assignments"]
    assert [shown[rule] for rule in RULES] == [1, 1, 1]
    assert (shown["generation"], shown["leader"], shown["refused"]) == (2, leader, False)
    assert [tuple(each.values()) for each in shown["partitions"]] == [
        ("two_members", "orders", 0, [leader, follower], None),
        ("no_subscriber", "events", 3, [follower], None),
        ("not_revoked", "orders", 1, [follower], leader),
    ]
    assert view(server, "/v1/groups/strict")["invalid_assignments"]["refused"]

    server.terminate()
    source = sources.from_log(spark, str(server.data_dir), {})
    derived = tables.Derived(source=source, keep=lambda _, made: made.localCheckpoint())
    found = audit.summary(derived)
    assert found["assignments"] == {"invalid_received": 1, "invalid_refused": 1}
    assert "invalid assignments of leaders: 1 received, 1 refused" in audit.lines(found)
    assert found["broken"] == {vocabulary.INVALID_ASSIGNMENT: 3, vocabulary.TWO_OWNERS: 1}
    assert not audit.is_clean(found)
    rows = derived.invariants_broken.where(f"rule = '{vocabulary.INVALID_ASSIGNMENT}'").collect()
    assert {(row["group"], row["member_id"], row["topic_key"], row["partition"], row["detail"]) for row in rows} == {
        ("lenient", leader, topic, partition, f"{rule}: assigned by the leader in generation 2")
        for topic, partition, rule in (
            ("orders", 0, "two_members"), ("events", 3, "no_subscriber"), ("orders", 1, "not_revoked"),
        )
    }  # fmt: skip
