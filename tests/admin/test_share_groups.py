"""What a person sees of a share group, and what control does to it: views, why, events, metrics, locks, fault rules."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.admin_client import act, ask, scrape, view
from tests.support.group_members import NONE, UNKNOWN_MEMBER_ID
from tests.support.server_process import ServerProcess
from tests.support.share_member import ACCEPT, RELEASE, SETTINGS, Sharer
from tests.support.waiting import wait_until

NOT_LEADER, INVALID_RECORD_STATE, INVALID_SHARE_SESSION_EPOCH = 6, 121, 123


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("share"), settings=SETTINGS).start() as server:
        yield server


@pytest.fixture
def sharer(server: ServerProcess, closing: ExitStack, request: pytest.FixtureRequest) -> Sharer:
    found = Sharer(server, request.node.name, closing)
    found.join()
    return found


def events(server: ServerProcess, group: str, kind: str) -> list[Any]:
    return view(server, f"/v1/events/page?group={group}&type={kind}")["events"]


def test_a_view_says_what_is_in_flight_and_who_holds_it(server: ServerProcess, sharer: Sharer) -> None:
    end = view(server, "/v1/topics/t")["partitions"][0]["end_offset"]
    sharer.produce(b"a", b"b", b"c")
    [(first, last, _)] = sharer.acquire()
    assert (first, last) == (0, end + 2)
    assert sharer.acknowledge(first, end, ACCEPT) == NONE
    assert sharer.acknowledge(end + 1, end + 1, RELEASE) == NONE
    group = view(server, f"/v1/groups/{sharer.group}")
    [partition] = group["share_partitions"]
    [held] = partition.pop("held")
    assert partition == {
        "topic": "t", "partition": 0, "start_offset": end + 1, "end_offset": end + 3, "lag": 2, "in_flight": 2,
        "acquired": 1, "available": 1, "archiving": 0, "delivery_counts": {"1": 2},
    }  # fmt: skip
    assert group["lag"] == 2
    [listed] = [each for each in view(server, "/v1/groups")["groups"] if each["group_id"] == sharer.group]
    assert listed["lag"] == 2
    times = held.pop("since_ms"), held.pop("lock_ends_ms")
    assert times[1] - times[0] == 60_000
    assert held == {
        "member_id": "m", "client_id": "sharer", "first_offset": end + 2, "last_offset": end + 2, "delivery_count": 1,
    }  # fmt: skip
    assert view(server, f"/v1/groups/{sharer.group}/why")["share_partitions"][0]["held"][0]["member_id"] == "m"


def test_the_lag_of_a_share_group_is_a_metric(server: ServerProcess, closing: ExitStack) -> None:
    watched = Sharer(server, "watched", closing)
    watched.join()
    watched.produce(b"a", b"b")
    [(first, last, _)] = watched.acquire()
    assert watched.acknowledge(first, last - 1, ACCEPT) == NONE
    assert scrape(server)["coordinator_group_lag"] == {("watched", "t"): 1}


def test_a_partition_that_no_member_reads_shows_its_durable_state(server: ServerProcess, sharer: Sharer) -> None:
    sharer.produce(b"a")
    [(first, last, _)] = sharer.acquire()
    assert sharer.acknowledge(first, last, ACCEPT) == NONE
    sharer.connection.close()
    wait_until(lambda: view(server, f"/v1/groups/{sharer.group}")["share_partitions"][0]["in_flight"] is None)
    [partition] = view(server, f"/v1/groups/{sharer.group}")["share_partitions"]
    # The write that makes an acknowledgement durable has the start before it, as in Kafka.
    assert (partition["start_offset"], partition["end_offset"], partition["lag"]) == (first, last + 1, 0)


def test_locks_that_control_ends_let_records_be_delivered_and_archived(server: ServerProcess, sharer: Sharer) -> None:
    path = f"/v1/groups/{sharer.group}/expire-locks"
    before = scrape(server)
    sharer.produce(b"a")
    [(first, last, _)] = sharer.acquire()
    records = last - first + 1
    assert act(server, path, member_id="nobody") == {"group_id": sharer.group, "records": 0}
    assert act(server, path, topic="u")["records"] == 0
    assert act(server, path, partition=1)["records"] == 0
    assert act(server, path, member_id="m", topic="t", partition=0)["records"] == records
    assert sharer.acknowledge(first, last, ACCEPT) == INVALID_RECORD_STATE
    assert [each[2] for each in sharer.acquire()] == [2]
    held = view(server, f"/v1/groups/{sharer.group}")["share_partitions"][0]["acquired"]
    assert act(server, path)["records"] == held
    expired = events(server, sharer.group, "AcquisitionLockExpired")
    assert [(each["member_id"], each["client_id"], each["records"]) for each in expired] == [
        ("m", "sharer", records),
        ("m", "sharer", held),
    ]
    assert {each["cause"] for each in expired} == {"an administrator ended the lock"}
    [archived] = events(server, sharer.group, "RecordsArchived")
    assert (archived["records"], archived["ranges"][0]["delivery_count"]) == (held, 2)
    after = scrape(server)
    for name, more in (("acquisition_lock_timeouts", records + held), ("records_archived", held)):
        sample = f"coordinator_share_{name}_total"
        assert after[sample][()] - before[sample][()] == more
    answer = view(server, f"/v1/groups/{sharer.group}/why")
    assert f"The locks of {records + held} records ended: sharer ({records + held})." in answer["sentence"]
    assert f"not be delivered again after 2 deliveries: last to sharer ({held})." in answer["sentence"]
    assert [each["type"] for each in answer["deliveries"]] == [
        "AcquisitionLockExpired", "AcquisitionLockExpired", "RecordsArchived",
    ]  # fmt: skip


def test_the_end_of_a_connection_is_an_event_of_the_records_that_it_gives_back(
    server: ServerProcess, sharer: Sharer
) -> None:
    sharer.produce(b"a")
    [(first, last, _)] = sharer.acquire()
    sharer.connection.close()
    wait_until(lambda: events(server, sharer.group, "RecordsReleased"))
    [released] = events(server, sharer.group, "RecordsReleased")
    assert (released["cause"], released["topic_name"]) == ("the connection of the session ended", "t")
    assert released["ranges"] == [{"first_offset": first, "last_offset": last, "delivery_count": 1}]


def test_the_group_and_an_administrator_begin_share_partitions(
    server: ServerProcess, sharer: Sharer, closing: ExitStack
) -> None:
    [new] = events(server, sharer.group, "SharePartitionsInitialized")
    assert (new["principal"], new["topics"][0]["partitions"]) == ("", [{"partition": 0, "start_offset": -1}])
    sharer.epoch = -1
    sharer.beat()
    topics = [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 1}]}]
    sharer.connection.call("AlterShareGroupOffsets", 0, group_id=sharer.group, topics=topics)
    altered = events(server, sharer.group, "SharePartitionsInitialized")[-1]
    assert (altered["principal"], altered["client_id"]) == ("User:ANONYMOUS", "sharer")
    assert altered["topics"][0]["partitions"] == [{"partition": 0, "start_offset": 1}]


@pytest.mark.parametrize("how", ["evict", "expire-session"])
def test_a_member_that_control_removes_is_unknown(server: ServerProcess, sharer: Sharer, how: str) -> None:
    done = act(server, f"/v1/groups/{sharer.group}/members/m/{how}")
    assert (done["kind"], done["state"]) == ("share", "Empty")
    assert sharer.beat()["error_code"] == UNKNOWN_MEMBER_ID


def rule(server: ServerProcess, match: Any, action: Any) -> None:
    status, answer = ask(server, "POST", "/v1/faults", {"match": match, "action": action})
    assert status == 201, answer


def test_fault_rules_match_heartbeats_by_group_topic_and_fields(server: ServerProcess, sharer: Sharer) -> None:
    match = {"api": "ShareGroupHeartbeat", "group": sharer.group}
    rule(server, match | {"where": {"MemberEpoch": {">": 0}}}, {"error": "FENCED_MEMBER_EPOCH"})
    assert sharer.beat()["error_code"] == 110
    assert sharer.beat()["error_code"] == NONE
    rule(server, match | {"topic": "u"}, {"error": "UNKNOWN_MEMBER_ID"})
    assert sharer.beat(topics=["t"])["error_code"] == NONE
    assert sharer.beat(topics=["t", "u"])["error_code"] == UNKNOWN_MEMBER_ID
    rule(server, match, {"coordinator": "moved"})
    assert sharer.beat()["error_code"] == 16


def test_fault_rules_refuse_partitions_and_sessions_of_share_fetches(server: ServerProcess, sharer: Sharer) -> None:
    sharer.produce(b"a")
    match = {"api": "ShareFetch", "group": sharer.group}
    rule(server, match, {"error": "SHARE_SESSION_NOT_FOUND"})
    assert sharer.fetch()["error_code"] == 122
    for _ in range(2):  # the first names the topic, the second has it in its session
        rule(server, match | {"topic": "t"}, {"error": "NOT_LEADER_OR_FOLLOWER"})
        [topic] = sharer.fetch()["responses"]
        assert [each["error_code"] for each in topic["partitions"]] == [NOT_LEADER]
        assert view(server, f"/v1/groups/{sharer.group}")["share_partitions"][0]["acquired"] == 0
    assert sharer.acquire()


def test_a_fault_rule_refuses_an_acknowledgement_and_the_lock_stays(server: ServerProcess, sharer: Sharer) -> None:
    sharer.produce(b"a")
    [(first, last, _)] = sharer.acquire()
    match = {"api": "ShareAcknowledge", "group": sharer.group, "topic": "t", "member_id": "m"}
    rule(server, match, {"error": "INVALID_RECORD_STATE"})
    assert sharer.acknowledge(first, last, ACCEPT) == INVALID_RECORD_STATE
    assert view(server, f"/v1/groups/{sharer.group}")["share_partitions"][0]["acquired"] == last - first + 1
    assert sharer.acknowledge(first, last, ACCEPT) == NONE


def test_a_fault_rule_of_partitions_does_not_hide_the_error_of_a_session(server: ServerProcess, sharer: Sharer) -> None:
    """Nothing of the request was done, and a partition without an error would say that its acknowledgements were."""
    sharer.produce(b"a")
    [(first, last, _)] = sharer.acquire()
    for api in ("ShareFetch", "ShareAcknowledge"):
        rule(server, {"api": api, "group": sharer.group, "topic": "t"}, {"error": "NOT_LEADER_OR_FOLLOWER"})
    sharer.session += 7
    assert sharer.fetch(named=True)["error_code"] == INVALID_SHARE_SESSION_EPOCH
    assert sharer.acknowledge(first, last, ACCEPT) == INVALID_SHARE_SESSION_EPOCH


def test_the_manual_clock_ends_locks(server: ServerProcess, sharer: Sharer) -> None:
    sharer.produce(b"a")
    sharer.acquire()
    try:
        act(server, "/v1/clock", mode="manual")
        act(server, "/v1/clock", advance_ms=60_001)
        assert [each["cause"] for each in events(server, sharer.group, "AcquisitionLockExpired")] == [""]
    finally:
        act(server, "/v1/clock", mode="real")
