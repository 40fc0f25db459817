"""What a console asks: the server in one look, its workers, groups by trouble, records of a topic, searched events."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from coordinator_testing.control import Control, ControlRefused
from tests.support.admin_client import view
from tests.support.coordinators import coordinator_of
from tests.support.group_members import Consumer
from tests.support.record_batch import TRANSACTIONAL, Batch
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S, wait_until
from tests.support.wire import Connection

SETTINGS = {
    "topics": '[{"name": "t", "partitions": 2}]',
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.consumer.assignment.interval.ms": 0,
}
RECORDS = "/v1/topics/t/partitions/0/records"
SHARES = ("rebalances", "rebalancing_share", "culprit")


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("console"), settings=SETTINGS) as server:
        yield server


def produce(link: Connection, partition: int, batch: bytes, transactional_id: str | None = None) -> None:
    data = [{"name": "t", "partition_data": [{"index": partition, "records": batch}]}]
    answer = link.call("Produce", 9, acks=-1, timeout_ms=9_000, transactional_id=transactional_id, topic_data=data)
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0


def join(server: ServerProcess, group: str, closing: ExitStack, instance_id: str | None = None) -> Any:
    with coordinator_of(server, group) as found:
        member = Consumer(found, group, instance_id)
    closing.callback(member.connection.close)
    member.join()
    return member


def test_the_overview_counts_what_happens_between_two_answers(server, closing):
    before = view(server, "/v1/overview")
    assert (before["status"], before["reasons"], before["workers"], before["brokers"]) == ("ready", [], 0, 0)
    assert (before["topics"], before["partitions"], before["control"], before["events"]) == (1, 2, True, True)
    member = join(server, "counted", closing)
    after = view(server, "/v1/overview")
    assert after["requests"] > before["requests"]
    assert after["uptime_ms"] >= before["uptime_ms"]
    assert after["time_ms"] >= before["time_ms"]
    assert sum(after["groups"].values()) == sum(before["groups"].values()) + 1
    assert after["members"] == before["members"] + 1
    assert member.id


def test_several_workers_answer_the_overview_together_and_each_has_its_shards(coordinator_process, closing):
    server = coordinator_process(settings=SETTINGS, arguments=("--workers", "2"))
    for number in range(4):
        join(server, f"g{number}", closing)
    overview = view(server, "/v1/overview")
    assert (overview["workers"], overview["members"], sum(overview["groups"].values())) == (2, 4, 4)
    found = view(server, "/v1/workers")
    assert [(each["number"], each["ready"]) for each in found["workers"]] == [(0, True), (1, True)]
    assert found["not_served"] == []
    shards = [shard for each in found["workers"] for shard in each["shards"] if shard.startswith("__consumer_offsets")]
    assert sorted(shards) == [f"__consumer_offsets-{number}" for number in range(3)]
    assert sum(each["take_overs"] for each in found["workers"]) > 0
    assert {each["admin"] for each in found["workers"]} == {None}, "this address drains them"
    listed = view(server, "/v1/groups?sort=trouble&limit=3")
    assert (len(listed["groups"]), listed["total"], "next" in listed) == (3, 4, False)
    with Control(server.admin) as control:
        total = sum(len(each.shards) for each in control.workers())
        assert control.drain_worker(1).leaving
        wait_until(lambda: [len(each.shards) for each in control.workers()] == [total, 0])
        assert not control.resume_worker(1).leaving
        wait_until(lambda: all(each.shards for each in control.workers()))
        moved = control.workers()[0].shards[0]
        control.move_shard(moved, 1)
        wait_until(lambda: moved in control.workers()[1].shards)
        wait_until(lambda: sum(len(each.shards) for each in control.workers()) == total)
        with pytest.raises(ControlRefused, match="there is no worker 2"):
            control.drain_worker(2)


def test_a_server_that_works_alone_has_no_workers(server):
    assert view(server, "/v1/workers") == {"workers": [], "not_served": []}


def test_groups_in_trouble_come_first_and_name_their_culprit(server, closing):
    with coordinator_of(server, "calm") as link:
        offsets = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
        link.call("OffsetCommit", 8, group_id="calm", generation_id_or_member_epoch=-1, member_id="", topics=offsets)
    member = join(server, "troubled", closing)
    listed = view(server, "/v1/groups?sort=trouble&contains=l")["groups"]
    by_name = {each["group_id"]: each for each in listed}
    assert [each for each in by_name if each in {"calm", "troubled"}] == ["troubled", "calm"]
    assert by_name["troubled"]["rebalances"][-1]["cause"] == "a member joined"
    assert by_name["troubled"]["rebalances"][-1]["member_id"] == member.id
    assert by_name["troubled"]["culprit_rebalances"] == 1
    assert [by_name["calm"][name] for name in SHARES] == [[], 0, None]
    refused = httpx.get(f"{server.admin}/v1/groups?sort=trouble&after=a", timeout=WITHIN_S)
    assert (refused.status_code, refused.json()["allowed"]) == (422, ["name"])


def test_a_topic_has_its_readers_with_their_lag_there(server, closing):
    with coordinator_of(server, "reader") as link:
        produce(link, 1, Batch(values=[b"x"] * 5).encode())
        end = view(server, "/v1/topics/t")["partitions"][1]["end_offset"]
        for topic, offset in (("t", end - 2), ("elsewhere", 1)):
            offsets = [{"name": topic, "partitions": [{"partition_index": 1, "committed_offset": offset}]}]
            link.call(
                "OffsetCommit", 8, group_id="reader", generation_id_or_member_epoch=-1, member_id="", topics=offsets
            )
    listed = {each["group_id"]: each["lag"] for each in view(server, "/v1/groups?topic=t")["groups"]}
    assert listed["reader"] == 2
    assert view(server, "/v1/groups?topic=nothing")["groups"] == []
    assert httpx.get(f"{server.admin}/v1/topics/nothing", timeout=WITHIN_S).status_code == 404
    assert httpx.get(f"{server.admin}/v1/topics/__consumer_offsets", timeout=WITHIN_S).status_code == 404


def test_records_are_shown_with_their_transaction_and_within_bounds(coordinator_process, closing):
    server = coordinator_process(settings=SETTINGS)
    link = closing.enter_context(Connection(server.bootstrap))
    produce(link, 0, Batch(values=[b'{"a": 1}', b"\xff\x00", "ä".encode() * 9_000, b""]).encode())
    for is_commit in (True, False):
        begun = link.call("InitProducerId", 4, transactional_id="x", transaction_timeout_ms=9_000)
        who = {"transactional_id": "x", "producer_id": begun["producer_id"], "producer_epoch": begun["producer_epoch"]}
        link.call(
            "AddPartitionsToTxn", 3, v3_and_below_transactional_id="x", v3_and_below_producer_id=who["producer_id"],
            v3_and_below_producer_epoch=who["producer_epoch"], v3_and_below_topics=[{"name": "t", "partitions": [0]}],
        )  # fmt: skip
        batch = Batch(
            values=[b"in"], producer_id=who["producer_id"], producer_epoch=who["producer_epoch"], base_sequence=0,
            attributes=TRANSACTIONAL,
        )  # fmt: skip
        produce(link, 0, batch.encode(), "x")
        assert view(server, f"{RECORDS}?offset={4 if is_commit else 6}")["records"][0]["transaction"]["state"] == "open"
        assert link.call("EndTxn", 3, **who, committed=is_commit)["error_code"] == 0
    wait_until(lambda: view(server, RECORDS)["stable_offset"] == 8)
    page = view(server, f"{RECORDS}?offset=0&bytes=1001")
    assert (page["start_offset"], page["end_offset"], page["next"]) == (0, 8, 8)
    first, second, third, fourth, *rest = page["records"]
    assert first["value"] == {"size": 8, "text": '{"a": 1}'}
    assert second["value"] == {"size": 2, "base64": "/wA="}
    assert third["value"] == {"size": 18_000, "text": "ä" * 500, "cut": True}
    assert (fourth["key"], fourth["value"]) == (None, {"size": 0, "text": ""})
    assert (fourth["headers"], fourth["transaction"], fourth["control"]) == ([], None, None)
    said = [(each["offset"], each["transaction"] and each["transaction"]["state"], each["control"]) for each in rest]
    assert [(offset, state, control and control["type"]) for offset, state, control in said] == [
        (4, "committed", None), (5, None, "commit"), (6, "aborted", None), (7, None, "abort"),
    ]  # fmt: skip
    assert [each["offset"] for each in view(server, f"{RECORDS}?limit=2")["records"]] == [6, 7]
    few = view(server, f"{RECORDS}?offset=1&limit=2")
    assert ([each["offset"] for each in few["records"]], few["next"]) == ([1, 2], 3)
    topics = "/v1/topics"
    refused = {
        f"{RECORDS}?offset=9": 422,
        f"{RECORDS}?limit=201": 422,
        f"{topics}/t/partitions/2/records": 404,
        f"{topics}/t/partitions/x/records": 404,
        f"{topics}/__consumer_offsets/partitions/0/records": 404,
    }
    for path, status in refused.items():
        assert httpx.get(f"{server.admin}{path}", timeout=WITHIN_S).status_code == status, path


def test_what_clients_wrote_needs_more_than_anonymous_reading(coordinator_process):
    token = "planted-token-0123456789"
    server = coordinator_process(settings=SETTINGS | {"admin.token": token, "admin.anonymous": "read"})
    assert httpx.get(f"{server.admin}/v1/topics/t", timeout=WITHIN_S).status_code == 200
    assert httpx.get(f"{server.admin}{RECORDS}", timeout=WITHIN_S).status_code == 401
    known = httpx.get(f"{server.admin}{RECORDS}", headers={"Authorization": f"Bearer {token}"}, timeout=WITHIN_S)
    assert (known.status_code, known.json()["records"]) == (200, [])


def test_events_are_searched_by_type_member_client_and_time(server, closing):
    began_ms = int(time.time() * 1000)
    one, other = (join(server, "searched", closing, name) for name in ("one", "other"))

    def found(**fields: Any) -> list[tuple[str, str]]:
        query = {"group": "searched", **fields}
        page = httpx.get(f"{server.admin}/v1/events/page", params=query, timeout=WITHIN_S).json()
        assert page["at_end"]
        return [(each["type"], each.get("member_id", "")) for each in page["events"]]

    joined = [("MemberJoined", one.id), ("MemberJoined", other.id)]
    assert found(type="MemberJoined") == joined
    assert found(type="MemberJoined,MemberLeft", member=other.id) == joined[1:]
    assert {member for _, member in found(member=one.id)} == {one.id}
    assert found(type="MemberJoined", client="no such client") == []
    assert ("AssignmentDelivered", one.id) in found(client="127.0.0.1", type="AssignmentDelivered")
    assert found(type="MemberJoined", since_ms=began_ms) == joined
    assert found(type="MemberJoined", since_ms=began_ms + 3_600_000) == []
    refused = httpx.get(f"{server.admin}/v1/events?type=Nothing&follow=false", timeout=WITHIN_S)
    assert refused.status_code == 422
    assert "MemberJoined" in refused.json()["allowed"]


def test_after_a_restart_the_event_log_says_why_a_group_last_rebalanced(coordinator_process, closing):
    server = coordinator_process(settings=SETTINGS)
    join(server, "kept", closing)
    before = view(server, "/v1/groups")["groups"][0]["last_rebalance"]
    server.stop()
    server.start()

    def last() -> Any:
        return view(server, "/v1/groups")["groups"][0]["last_rebalance"]

    wait_until(lambda: last() is not None)
    assert last() == before
