"""The JSON views of groups, on a running server."""

from typing import Any

import pytest

from coordinator.protocol.subscription import Assignment, Subscription, encode_assignment, encode_subscription
from tests.support.admin_client import view
from tests.support.record_batch import Batch
from tests.support.waiting import wait_until
from tests.support.wire import Connection

GROUP = "orders/eu & more"


def subscription(owned: dict[str, tuple[int, ...]], generation_id: int) -> bytes:
    return encode_subscription(Subscription(("orders",), None, owned, generation_id, None, 3))


def join(connection: Connection, member_id: str, metadata: bytes) -> dict[str, Any]:
    return connection.call(
        "JoinGroup",
        9,
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": metadata}],
        reason="a test joins",
    )


def test_the_view_of_a_group_has_members_assignments_rebalances_claims_and_offsets(coordinator_process, closing):
    server = coordinator_process()
    connection = closing.enter_context(Connection(server.bootstrap, client_id="viewer"))
    member_id = join(connection, "", b"")["member_id"]
    joined = join(connection, member_id, subscription({"orders": (0, 1)}, 7))
    assert joined["error_code"] == 0
    assigned = encode_assignment(Assignment({"orders": (0, 1, 2)}, None, 3))
    synced = connection.call(
        "SyncGroup",
        5,
        group_id=GROUP,
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": member_id, "assignment": assigned}],
    )
    assert synced["error_code"] == 0
    partitions = [{"partition_index": 2, "committed_offset": 42, "committed_metadata": "so far"}]
    commit = {
        "group_id": GROUP,
        "generation_id_or_member_epoch": 1,
        "member_id": member_id,
        "topics": [{"name": "orders", "partitions": partitions}],
    }
    assert connection.call("OffsetCommit", 8, **commit)["topics"][0]["partitions"][0]["error_code"] == 0

    [listed] = view(server, "/v1/groups")["groups"]
    last = listed.pop("last_rebalance")
    assert [each["cause"] for each in listed.pop("rebalances")] == ["a new member joins"]
    assert 0 <= listed.pop("rebalancing_share") < 1
    assert (listed.pop("culprit"), listed.pop("culprit_rebalances")) == ("viewer", 1)
    assert listed == {
        "group_id": GROUP,
        "kind": "classic",
        "state": "Stable",
        "generation": 1,
        "member_count": 1,
        "offset_count": 1,
        "lag": 0,
    }
    assert last["cause"] == "a new member joins"
    assert last["started_ms"] <= last["ended_ms"]
    shown = view(server, "/v1/groups/orders%2Feu%20%26%20more")
    assert shown["leader"] == member_id
    assert shown["protocol_name"] == "range"
    (member,) = shown["members"]
    assert member["client_id"] == "viewer"
    assert member["assignment"] == {"orders": [0, 1, 2]}
    assert member["waits_for"] is None
    assert shown["committed"] == [
        {"topic": "orders", "partition": 2, "offset": 42, "metadata": "so far", "end_offset": 0, "lag": 0}
    ]
    (rebalance,) = shown["rebalances"]
    assert rebalance["reason"] == "a test joins"
    assert rebalance["started_ms"] <= rebalance["formed_ms"] <= rebalance["ended_ms"]
    assert shown["claims"]["stale"] == 2
    assert shown["claims"]["stale_claims"] == [
        {"member_id": member_id, "generation": 7, "partitions": [["orders", 0], ["orders", 1]]}
    ]


def test_the_view_of_a_streams_group_has_its_topology_and_tasks(coordinator_process, closing):
    server = coordinator_process(settings={"group.streams.initial.rebalance.delay.ms": 0})
    connection = closing.enter_context(Connection(server.bootstrap, client_id="viewer"))
    joined = connection.call(
        "StreamsGroupHeartbeat", 1, group_id="app", member_id="m", member_epoch=0, rebalance_timeout_ms=1_000,
        process_id="p", active_tasks=[], standby_tasks=[], warmup_tasks=[],
        topology={"epoch": 3, "subtopologies": [{"subtopology_id": "0", "source_topics": ["orders"]}]},
    )  # fmt: skip
    assert joined["member_epoch"] == 2
    [listed] = view(server, "/v1/groups")["groups"]
    assert listed.pop("last_rebalance")["cause"] == "a member joined"
    for name in ("rebalances", "rebalancing_share", "culprit", "culprit_rebalances"):
        del listed[name]
    assert listed == {
        "group_id": "app",
        "kind": "streams",
        "state": "Stable",
        "generation": 2,
        "member_count": 1,
        "offset_count": 0,
        "lag": None,
    }
    shown = view(server, "/v1/groups/app")
    assert (shown["topology_epoch"], shown["subtopologies"]["0"]["number_of_tasks"]) == (3, 4)
    (member,) = shown["members"]
    assert (member["client_id"], member["process_id"], member["state"]) == ("viewer", "p", "STABLE")
    assert member["assigned"]["active"] == {"0": dict.fromkeys("0123", 2)}
    (rebalance,) = shown["rebalances"]
    assert rebalance["cause"] == "a member joined"


def test_groups_show_their_lag_and_a_list_can_be_of_those_whose_names_contain_a_text(coordinator_process, closing):
    server = coordinator_process()
    connection = closing.enter_context(Connection(server.bootstrap))
    topic = {"name": "orders", "num_partitions": 2, "replication_factor": 1}
    connection.call("CreateTopics", 7, topics=[topic], timeout_ms=10_000)
    records = Batch(values=[b"x"] * 5).encode()
    produced = [{"index": 0, "records": records}]
    connection.call("Produce", 9, acks=-1, timeout_ms=1000, topic_data=[{"name": "orders", "partition_data": produced}])
    for group_id, offset in (("billing-eu", 2), ("billing-us", 5), ("audit", 0)):
        partitions = [{"partition_index": 0, "committed_offset": offset}]
        commit = {"group_id": group_id, "generation_id_or_member_epoch": -1, "member_id": ""}
        connection.call("OffsetCommit", 8, **commit, topics=[{"name": "orders", "partitions": partitions}])
    listed = view(server, "/v1/groups?contains=billing")["groups"]
    assert [(each["group_id"], each["lag"], each["last_rebalance"]) for each in listed] == [
        ("billing-eu", 3, None), ("billing-us", 0, None),
    ]  # fmt: skip
    shown = view(server, "/v1/groups/audit")
    assert (shown["lag"], [each["lag"] for each in shown["committed"]]) == (5, [5])


@pytest.mark.parametrize("group_id", ["only-offsets"])
def test_a_group_that_only_has_offsets_is_of_the_kind_simple(coordinator_process, closing, group_id):
    server = coordinator_process()
    connection = closing.enter_context(Connection(server.bootstrap))
    commit = {
        "group_id": group_id,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
    }
    connection.call("OffsetCommit", 8, **commit)
    shown = view(server, f"/v1/groups/{group_id}")
    assert (shown["kind"], shown["state"], shown["offset_count"]) == ("simple", "Empty", 1)


def test_the_view_of_a_group_has_pending_offsets_with_their_transaction(coordinator_process, closing):
    server = coordinator_process()
    connection = closing.enter_context(Connection(server.bootstrap))
    topic = {"name": "orders", "num_partitions": 2, "replication_factor": 1}
    connection.call("CreateTopics", 7, topics=[topic], timeout_ms=10_000)
    began = connection.call("InitProducerId", 5, transactional_id="tx", transaction_timeout_ms=60_000)
    producer = {key: began[key] for key in ("producer_id", "producer_epoch")}
    partitions = [{"partition_index": each, "committed_offset": 7, "committed_metadata": ""} for each in (0, 1)]
    connection.call(
        "TxnOffsetCommit", 5, transactional_id="tx", group_id="g", topics=[{"name": "orders", "partitions": partitions}],
        **producer,
    )  # fmt: skip
    plain = [{"partition_index": 1, "committed_offset": 9}]
    connection.call(
        "OffsetCommit", 8, group_id="g", generation_id_or_member_epoch=-1,
        topics=[{"name": "orders", "partitions": plain}],
    )  # fmt: skip
    shown = view(server, "/v1/groups/g")
    of_transaction = {"topic": "orders", "transactional_id": "tx", **producer}
    assert shown["pending"] == [
        {"partition": 0, "offset": 7, **of_transaction},
        {"partition": 1, "offset": None, **of_transaction},
    ]
    assert [(each["partition"], each["offset"]) for each in shown["committed"]] == [(1, 9)]

    connection.call("EndTxn", 5, transactional_id="tx", committed=True, **producer)
    wait_until(lambda: not view(server, "/v1/groups/g")["pending"], "the end of the transaction")
    assert [each["offset"] for each in view(server, "/v1/groups/g")["committed"]] == [7, 9]
