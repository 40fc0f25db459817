"""Forcing a rebalance by admin HTTP and by the command line, on a running server."""

import asyncio
import http.client
import json
from typing import Any

import pytest

from coordinator import cli
from coordinator.admin.api import RebalanceRequest, force_rebalance
from coordinator.admin.endpoint import RefusedRequest, Request
from coordinator.groups.force_rebalance import CAUSE
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.shard import Status
from tests.support.admin_client import scrape, view
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

GROUP = "orders/eu"
PATH = "/v1/groups/orders%2Feu/rebalance"
JSON = {"Content-Type": "application/json"}
REASON = 'racks "moved"'
ASKED_BY = "; asked for by admin HTTP from 127.0.0.1"


def post(server: ServerProcess, body: Any, path: str = PATH, headers: dict[str, str] = JSON) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(server.admin.removeprefix("http://"), timeout=60)
    connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def stable_member(connection: Connection) -> str:
    """The member of a Stable classic group, in generation 1."""
    joining = {
        "group_id": GROUP,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "x",
        "protocols": [{"name": "p", "metadata": b""}],
    }
    member_id = connection.call("JoinGroup", 9, **joining)["member_id"]
    assert connection.call("JoinGroup", 9, **joining, member_id=member_id)["generation_id"] == 1
    synced = connection.call(
        "SyncGroup", 5, group_id=GROUP, generation_id=1, member_id=member_id, protocol_type="x", protocol_name="p",
        assignments=[],
    )  # fmt: skip
    assert synced["error_code"] == 0
    return member_id


def heartbeat(connection: Connection, member_id: str) -> int:
    error: int = connection.call("Heartbeat", 4, group_id=GROUP, generation_id=1, member_id=member_id)["error_code"]
    return error


REBALANCE_IN_PROGRESS = 27


def test_a_post_starts_a_rebalance_whose_reason_is_in_view_log_and_metrics(coordinator_process, closing):
    server = coordinator_process()
    connection = closing.enter_context(Connection(server.bootstrap))
    member_id = stable_member(connection)
    started = {"group_id": GROUP, "kind": "classic", "started": True, "state": "Stable", "epoch": 2}
    assert post(server, {"reason": REASON}) == (200, started)
    assert heartbeat(connection, member_id) == REBALANCE_IN_PROGRESS
    again = started | {"started": False, "state": "PreparingRebalance", "epoch": None}
    assert post(server, {"reason": "again"}) == (200, again)
    (_, rebalance) = view(server, "/v1/groups/orders%2Feu")["rebalances"]
    assert (rebalance["cause"], rebalance["reason"], rebalance["member_id"]) == (CAUSE, REASON + ASKED_BY, "")
    assert f'cause="{CAUSE}" member_id="" reason="racks \\"moved\\"{ASKED_BY}"' in server.log
    assert scrape(server)["coordinator_rebalances_total"][CAUSE, "classic"] == 1


def test_the_rebalance_that_was_acknowledged_survives_kill_9(coordinator_process, closing):
    server = coordinator_process()
    member_id = stable_member(closing.enter_context(Connection(server.bootstrap)))
    assert post(server, {"reason": REASON})[0] == 200
    server.kill()
    server.start()
    connection = closing.enter_context(Connection(server.bootstrap))
    assert heartbeat(connection, member_id) == REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("body", "headers", "status", "words"),
    [
        ({"reason": ""}, JSON, 422, "reason: Expected `str` of length >= 1"),
        ({"reason": " "}, JSON, 422, "at most 255 printable"),
        ({"reason": 7}, JSON, 422, "reason: Expected `str`, got `int`"),
        ({}, JSON, 422, "missing required field `reason`"),
        ({"reason": "x", "force": True}, JSON, 422, "unknown field `force`"),
        ({"reason": "x" * 256}, JSON, 422, "length <= 255"),
        ({"reason": "a\nevent=forged"}, JSON, 422, "at most 255 printable"),
        (b'{"reason": "\\ud800"}', JSON, 400, "a JSON object"),
        (b"[" * 10_000, JSON, 400, "a JSON object"),
        (b"[]", JSON, 400, "a JSON object"),
        ({"reason": "x"}, {"Content-Type": "text/plain"}, 415, "application/json"),
        ({"reason": "x"}, {}, 415, "application/json"),
        ({"reason": "x" * 255}, {"Content-Type": "Application/JSON; charset=utf-8"}, 404, "no such group"),
    ],
)
def test_a_request_that_is_not_as_it_must_be_is_refused(shared_server, body, headers, status, words):
    got, answer = post(shared_server, body, headers=headers)
    assert got == status
    assert words in answer["detail"]


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("force")) as server:
        yield server


def test_a_group_without_members_is_refused(shared_server, closing):
    connection = closing.enter_context(Connection(shared_server.bootstrap))
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    connection.call("OffsetCommit", 8, group_id="simple", topics=[{"name": "events", "partitions": partitions}])
    status, answer = post(shared_server, {"reason": "x"}, "/v1/groups/simple/rebalance")
    assert (status, answer["detail"]) == (409, "the group has no members to rebalance; it is Empty")


def run(server: ServerProcess, capsys: Any, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(
        ["groups", "rebalance", "--timeout", "5", "--admin", server.admin.removeprefix("http://"), *arguments]
    )
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_prints_what_was_done(coordinator_process, closing, capsys):
    server = coordinator_process()
    stable_member(closing.enter_context(Connection(server.bootstrap)))
    code, out, _ = run(server, capsys, GROUP, "--reason", REASON)
    assert code == 0
    assert out.splitlines()[1].split() == [GROUP, "classic", "Stable", "started", "2"]
    code, out, _ = run(server, capsys, GROUP, "--reason", REASON, "--json")
    assert (code, json.loads(out)["started"]) == (0, False)


def test_the_error_of_the_command_is_one_line(shared_server, capsys):
    assert run(shared_server, capsys, "none", "--reason", "x") == (
        1,
        "",
        "coordinator: no such group\n",
    )
    code, _, error = run(shared_server, capsys, "none", "--reason", "x", "--admin", "nowhere")
    assert (code, error) == (
        2,
        "coordinator: 'nowhere' is no admin address: it must be http://HOST:PORT or HOST:PORT\n",
    )
    assert run(shared_server, capsys, "none", "--reason", "x", "--admin", "127.0.0.1:1")[0] == 1


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE), 503, "COORDINATOR_NOT_AVAILABLE: try again"),
        (KafkaError(ErrorCode.NOT_COORDINATOR), 503, "NOT_COORDINATOR: try again"),
        (KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 503, "COORDINATOR_LOAD_IN_PROGRESS: try again"),
        (KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR), 500, "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_a_coordinator_that_cannot_answer_gives_a_clear_error(error, status, words):
    class Shard:
        awaits_log = False
        status = Status.ACTIVE

        def submit(self, _operation, request):
            request.send(request.encode(request.refusal(error)))

    class Groups:
        def shard_of(self, _group_id):
            return Shard()

    class Server:
        groups = Groups()

    request = Request(parameters={"group_id": "g"}, body=RebalanceRequest("x"))
    with pytest.raises(RefusedRequest, match=words) as refused:
        asyncio.run(force_rebalance(Server(), request))
    assert refused.value.status == status
