"""`GET /v1/events` and `/v1/events/page`: history and live without a seam, over all groups or one, as a stream and in pages."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.background import Background
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S
from tests.support.wire import Connection

TIMEOUT = httpx.Timeout(WITHIN_S)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {"durability": "write", "offsets.topic.num.partitions": 4}
    with ServerProcess(tmp_path_factory.mktemp("events"), settings=settings) as server:
        yield server


@pytest.fixture
def connection(server):
    with Connection(server.bootstrap) as link:
        yield link


def commit(connection: Connection, group: str, count: int = 1, generation: int = -1) -> None:
    """Commits; each is an event."""
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    for _ in range(count):
        connection.send(
            "OffsetCommit", 7,
            {"group_id": group, "generation_id_or_member_epoch": generation, "member_id": "", "topics": topics},
        )  # fmt: skip
    for _ in range(count):
        connection.receive()


def page(server: ServerProcess, **query: Any) -> dict[str, Any]:
    answer = httpx.get(f"{server.admin}/v1/events/page", params=query, timeout=TIMEOUT)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def blocks(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """The server-sent events in these lines, as name -> value."""
    block: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            block[name] = value
        elif block:
            yield block
            block = {}


def stream(server: ServerProcess, count: int, last_id: str = "", **query: Any) -> list[tuple[str, dict[str, Any]]]:
    """The ids and values of the first `count` events of a stream."""
    found: list[tuple[str, dict[str, Any]]] = []
    headers = {"Last-Event-ID": last_id} if last_id else {}
    with httpx.stream("GET", f"{server.admin}/v1/events", params=query, headers=headers, timeout=TIMEOUT) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        for block in blocks(answer.iter_lines()):
            if "data" in block:
                found.append((block["id"], json.loads(block["data"])))
            if len(found) == count:
                break
    return found


def test_an_event_has_names_for_errors_and_kinds_and_its_place_in_the_log(server, connection):
    commit(connection, "refused", generation=7)
    [event] = page(server, group="refused")["events"]
    assert event["type"] == "CommitDecided"
    assert (event["group"], event["group_kind"], event["error_code"]) == ("refused", "classic", "ILLEGAL_GENERATION")
    assert {"shard", "offset", "time_ms", "state_offset", "topics"} <= event.keys()
    commit(connection, "accepted")
    [event] = page(server, group="accepted")["events"]
    assert event["error_code"] is None
    assert event["topics"][0]["partitions"][0]["partition"] == 0


def test_a_stream_that_is_cut_continues_without_a_gap_or_a_duplicate_while_more_events_come(server, connection):
    commit(connection, "seam", 50)
    writer = Background(commit, connection, "seam", 400)
    first = stream(server, 120, group="seam")
    second = stream(server, 200, last_id=first[-1][0], group="seam")
    writer.finish()
    third = stream(server, 130, after=second[-1][0], group="seam")
    streamed = [event["state_offset"] for _, event in [*first, *second, *third]]
    paged, after = [], None
    while True:
        answer = page(server, group="seam", limit=99, **({"after": after} if after else {}))
        paged += [event["state_offset"] for event in answer["events"]]
        after = answer["next"]
        if answer["at_end"]:
            break
    assert len(streamed) == 450
    assert streamed == paged == sorted(set(paged))


def test_events_of_all_groups_come_in_pages_that_have_each_event_once(server, connection):
    for number in range(30):
        commit(connection, f"many-{number}")
    seen, after = [], None
    while True:
        answer = page(server, limit=7, **({"after": after} if after else {}))
        seen += [(event["shard"], event["offset"]) for event in answer["events"]]
        assert len(answer["events"]) <= 7
        after = answer["next"]
        if answer["at_end"]:
            break
    assert len(seen) == len(set(seen)) >= 30
    assert {f"many-{number}" for number in range(30)} <= {each["group"] for each in page(server)["events"]}


def test_a_stream_from_now_on_has_no_history_and_ends_after_its_limit(server, connection):
    commit(connection, "now", 3)
    url = f"{server.admin}/v1/events"
    with httpx.stream("GET", url, params={"group": "now", "after": "now", "limit": 2}, timeout=TIMEOUT) as answer:
        found = blocks(answer.iter_lines())
        assert "data" not in next(found)
        commit(connection, "now", 5)
        offsets = [json.loads(block["data"])["state_offset"] for block in found]
    assert len(offsets) == 2
    everything = [event["state_offset"] for event in page(server, group="now")["events"]]
    assert everything.index(offsets[0]) == 3


def test_a_stream_that_does_not_follow_ends_at_the_last_event(server, connection):
    commit(connection, "ends", 3)
    answer = httpx.get(f"{server.admin}/v1/events", params={"group": "ends", "follow": "false"}, timeout=TIMEOUT)
    assert answer.text.count("data: ") == 3


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ({"after": "yesterday"}, 422, "after"),
        ({"after": "5"}, 422, "an offset alone needs a group"),
        ({"after": "9999:5"}, 422, "there is no shard 9999"),
        ({"after": "0:99999999"}, 422, "shard 0 ends before"),
        ({"limit": "0"}, 422, "limit"),
        ({"limit": "null"}, 422, "limit: null is no value; leave the field out"),
        ({"since": "0"}, 422, "unknown field: since"),
    ],
)
def test_a_position_that_cannot_be_is_refused(server, query, status, words):
    answer = httpx.get(f"{server.admin}/v1/events", params=query, timeout=TIMEOUT)
    assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.text


def test_a_client_that_wants_json_hears_where_it_is_and_waits_for_no_stream(server):
    answer = httpx.get(f"{server.admin}/v1/events", headers={"Accept": "application/json"}, timeout=TIMEOUT)
    assert (answer.status_code, "/v1/events/page" in answer.json()["detail"]) == (406, True)


def test_events_that_retention_has_deleted_are_reported(coordinator_process):
    small = {"coordinator.events.retention.bytes": 20_000, "coordinator.events.segment.bytes": 10_000}
    server = coordinator_process(settings=small | {"durability": "write", "log.retention.check.interval.ms": 100})
    with Connection(server.bootstrap) as connection:
        commit(connection, "old", 5)
        [*_, last] = page(server, group="old", limit=2)["events"]
        begins = last["offset"]
        for _ in range(200):
            commit(connection, "old", 50)
            first = page(server, group="old", limit=1)["events"][0]["offset"]
            if first > begins + 1:
                break
        found = page(server, group="old", after=begins)["events"]
    assert found[0]["type"] == "EventsDeleted"
    assert (found[0]["from_offset"], found[0]["offset"] + 1) == (begins + 1, found[1]["offset"])


def test_without_an_event_log_the_refusal_names_the_setting(coordinator_process):
    server = coordinator_process(settings={"coordinator.events": "none"})
    answer = httpx.get(f"{server.admin}/v1/events", timeout=TIMEOUT)
    assert answer.status_code == 409
    assert answer.json() == {
        "title": "Conflict",
        "status": 409,
        "detail": "the server records no events: coordinator.events is none",
        "allowed": ["refused", "all"],
    }


def test_a_stop_ends_streams_in_an_orderly_way(coordinator_process):
    server = coordinator_process()
    with httpx.stream("GET", f"{server.admin}/v1/events", timeout=TIMEOUT) as answer:
        found = blocks(answer.iter_lines())
        next(found)
        stopper = Background(server.stop)
        [last] = [block for block in found if "data" in block]
        stopper.finish()
    assert last["event"] == "end"
    assert json.loads(last["data"]) == {"type": "StreamEnded", "reason": "the server is stopping"}
