"""Fault rules and recordings over HTTP: set, wait, release, clear, read, and every refusal with what is allowed."""

import httpx
import pytest

from tests.support.background import Background
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S
from tests.support.wire import Connection

HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {"durability": "write", "offsets.topic.num.partitions": 1, "admin.control.enable": "true"}
    with ServerProcess(tmp_path_factory.mktemp("faults"), settings=settings) as server:
        yield server


@pytest.fixture
def http(server):
    with httpx.Client(base_url=f"{server.admin}/v1", timeout=httpx.Timeout(WITHIN_S)) as client:
        yield client
        client.delete("/faults", params={"all": True}).raise_for_status()
        client.delete("/recordings", params={"all": True}).raise_for_status()


@pytest.fixture
def connection(server):
    with Connection(server.bootstrap) as link:
        yield link


def test_a_rule_is_set_listed_counted_and_cleared(http, connection):
    rule = {
        "match": {"api": "Heartbeat", "group": "g"},
        "action": {"error": "ILLEGAL_GENERATION"},
        "extent": {"times": 2},
    }
    answer = http.post("/faults", json=rule)
    assert answer.status_code == 201
    fault = answer.json()
    assert fault == {"id": fault["id"], "rule": rule, "matched": 0, "acted": 0, "held": 0, "active": True}
    assert connection.call("Heartbeat", 4, **HEARTBEAT)["error_code"] == 22
    counted = fault | {"matched": 1, "acted": 1}
    assert http.get(f"/faults/{fault['id']}").json() == counted
    assert http.get("/faults").json() == {"faults": [counted]}
    assert http.delete(f"/faults/{fault['id']}").json() == {"cleared": 1}
    assert http.get(f"/faults/{fault['id']}").status_code == 404
    assert connection.call("Heartbeat", 4, **HEARTBEAT)["error_code"] == 25


def test_a_wait_ends_when_the_rule_has_acted_and_a_release_lets_the_request_go_on(http, connection):
    fault = http.post("/faults", json={"match": {"api": "Heartbeat"}, "action": {"hold": "request"}}).json()
    reached = []

    def wait():
        reached.append(http.get(f"/faults/{fault['id']}", params={"until": "held:1", "timeout_ms": 20_000}).json())

    waiting = Background(wait)
    connection.send("Heartbeat", 4, HEARTBEAT)
    waiting.finish()
    assert (reached[0]["reached"], reached[0]["held"], reached[0]["acted"]) == (True, 1, 1)
    late = http.get(f"/faults/{fault['id']}", params={"until": "acted:2", "timeout_ms": 1}).json()
    assert late["reached"] is False
    assert http.post(f"/faults/{fault['id']}/release", json={"count": 5}).json() == {"released": 1}
    assert connection.receive()["error_code"] == 25


def test_a_scope_is_cleared_alone(http):
    rule = {"match": {"api": "Heartbeat"}, "action": {"close": True}}
    for scope in ("a", "a", "b"):
        http.post("/faults", json=rule | {"scope": scope})
        http.post("/recordings", json={"scope": scope})
    assert len(http.get("/faults", params={"scope": "a"}).json()["faults"]) == 2
    assert http.delete("/faults", params={"scope": "a"}).json() == {"cleared": 2}
    assert http.delete("/recordings", params={"scope": "a"}).json() == {"cleared": 2}
    assert [fault["rule"]["scope"] for fault in http.get("/faults").json()["faults"]] == ["b"]
    assert [recording["scope"] for recording in http.get("/recordings").json()["recordings"]] == ["b"]


@pytest.mark.parametrize("path", ["/faults", "/recordings"])
@pytest.mark.parametrize(
    ("query", "is_all"), [("", False), ("?all=false", False), ("?scope=a&all=true", False), ("?all=true", True)]
)
def test_what_everybody_has_set_is_cleared_only_if_one_says_all(http, path, query, is_all):
    http.post(path, json={"match": {"api": "Heartbeat"}} | ({"action": {"close": True}} if path == "/faults" else {}))
    answer = http.delete(path + query)
    assert (answer.status_code, answer.json().get("cleared")) == ((200, 1) if is_all else (422, None))


def test_a_rule_that_leaves_a_ghost_in_its_group_says_so_and_names_the_tool(http):
    rule = {"match": {"api": "Heartbeat"}, "action": {"error": "UNKNOWN_MEMBER_ID"}}
    assert "/evict" in http.post("/faults", json=rule).json()["notice"]
    assert "notice" not in http.post("/faults", json=rule | {"action": {"error": "ILLEGAL_GENERATION"}}).json()


@pytest.mark.parametrize(
    ("rule", "status", "reason", "allowed"),
    [
        ({"match": {"api": "Heartbeet"}, "action": {"close": True}}, 422, "there is no API Heartbeet", "Heartbeat"),
        ({"match": {"api": "Heartbeat"}, "action": {"error": "ILLEGAL"}}, 422, "no error ILLEGAL", "ILLEGAL_GENERATION"),
        ({"match": {"api": "Heartbeat"}, "action": {"error": "OFFSET_OUT_OF_RANGE"}}, 422, "Heartbeat", "ILLEGAL_GENERATION"),
        ({"match": {"api": "Heartbeat", "topic": "t"}, "action": {"close": True}}, 422, "names a topic", "Fetch"),
        ({"match": {"api": "Heartbeat", "version": 9}, "action": {"close": True}}, 422, "has version 9", "JoinGroup"),
        ({"match": {"api": "Heartbeat"}, "action": {"error": "INVALID_REQUEST", "partitions": [1]}}, 422, "by one", "Fetch"),
        ({"match": {"api": "ListGroups"}, "action": {"coordinator": "moved"}}, 422, "coordinator", "Heartbeat"),
        ({"match": {"api": "WriteTxnMarkers"}, "action": {"throttle_ms": 5}}, 422, "throttle time", "Fetch"),
        ({"match": {"group_state": "Happy"}, "action": {"close": True}}, 422, "Happy", "Stable"),
        ({"match": {"grup": "g"}, "action": {"close": True}}, 422, "grup", "group"),
        ({"match": {"api": "Heartbeat"}, "action": {}}, 422, "at least one of error, coordinator", None),
        ({"match": {"api": "Fetch", "per": "member"}, "action": {"close": True}}, 422, "member_id", "Heartbeat"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_is_refused_with_what_is_allowed(http, rule, status, reason, allowed):
    answer = http.post("/faults", json=rule)
    assert answer.status_code == status, answer.text
    assert reason in answer.json()["detail"]
    assert allowed is None or allowed in answer.json()["allowed"]


def test_a_recording_has_requests_and_answers_page_by_page(http, connection):
    recording = http.post("/recordings", json={"match": {"api": "Heartbeat"}, "limit": 3}).json()
    path = f"/recordings/{recording['id']}"
    assert http.get(path, params={"timeout_ms": 1}).json() == {"entries": [], "next": 0, "dropped": 0}
    for generation in range(1, 5):
        connection.call("Heartbeat", 4, **HEARTBEAT | {"generation_id": generation})
    first = http.get(path, params={"limit": 2}).json()
    assert [entry["request"]["generation_id"] for entry in first["entries"]] == [2, 3]
    assert (first["next"], first["dropped"]) == (3, 1)
    (entry,) = http.get(path, params={"after": first["next"], "timeout_ms": 1_000}).json()["entries"]
    assert entry["response"] == {"throttle_time_ms": 0, "error": "UNKNOWN_MEMBER_ID"}
    assert (entry["api"], entry["outcome"], entry["fault"]) == ("Heartbeat", "answered", None)
    assert http.delete(path).json() == {"cleared": 1}
    assert http.get(path).status_code == 404
    assert http.post("/recordings", json={"match": {"nth": 2}}).status_code == 422


def test_faults_that_acted_are_among_the_metrics_and_the_events(server, http, connection):
    http.post("/faults", json={"match": {"api": "Heartbeat", "group": "g"}, "action": {"error": "ILLEGAL_GENERATION"}})
    connection.call("Heartbeat", 4, **HEARTBEAT)
    metrics = httpx.get(f"{server.admin}/metrics").text
    assert 'coordinator_faults_acted_total{action="error"}' in metrics
    assert "coordinator_fault_rules 0.0" in metrics
    events = http.get("/events/page").json()["events"]
    acted = [event for event in events if event["type"] == "FaultActed"]
    assert (acted[-1]["api"], acted[-1]["member_id"], acted[-1]["action"]) == (
        "Heartbeat",
        "m",
        "error:ILLEGAL_GENERATION",
    )
