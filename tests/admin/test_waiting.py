"""`GET /v1/groups/{group}?until=`: a request waits for a state of a group, and nobody polls."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from coordinator.config.settings import AdminConfig
from tests.admin.acting_world import SETTINGS, member
from tests.support.admin_client import act, ask, view
from tests.support.group_members import KINDS, Classic
from tests.support.server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("waiting"), settings=SETTINGS).start() as server:
        yield server


class Waiter(threading.Thread):
    """A long poll in progress."""

    def __init__(self, server: ServerProcess, path: str) -> None:
        super().__init__()
        self.server, self.path, self.answer = server, path, (0, {})
        self.start()

    def run(self) -> None:
        self.answer = ask(self.server, "GET", self.path)

    def result(self) -> Any:
        self.join(30)
        return self.answer


@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_ends_with_the_change_that_it_waits_for(server: ServerProcess, closing: ExitStack, kind: Any) -> None:
    group = f"{kind.kind}-comes"
    waits = Waiter(server, f"/v1/groups/{group}?until=state:Stable,members:1&timeout_ms=20000")
    stays = member(server, kind, group, closing)
    status, shown = waits.result()
    assert (status, shown["reached"], shown["state"], shown["member_count"]) == (200, True, "Stable", 1)
    epoch = shown["generation"]
    waits = Waiter(server, f"/v1/groups/{group}?until=epoch:{epoch + 1}&timeout_ms=20000")
    act(server, f"/v1/groups/{group}/bump-epoch")
    assert waits.result()[1]["generation"] == epoch + 1
    waits = Waiter(server, f"/v1/groups/{group}?until=state:Empty&timeout_ms=20000")
    act(server, f"/v1/groups/{group}/members/{stays.id}/evict")
    assert waits.result()[1]["reached"]


def test_what_is_so_already_is_answered_at_once_and_what_never_is_at_the_end(
    server: ServerProcess, closing: ExitStack
) -> None:
    member(server, Classic, "now", closing)
    assert view(server, "/v1/groups/now?until=state:Stable,members:1,generation:1&timeout_ms=20000")["reached"]
    shown = view(server, "/v1/groups/now?until=members:7&timeout_ms=0")
    assert (shown["reached"], shown["member_count"]) == (False, 1)
    gone = view(server, "/v1/groups/none?until=state:Stable&timeout_ms=10")
    assert (gone["reached"], gone["state"]) == (False, "Dead")
    assert view(server, "/v1/groups/none?until=state:Dead&timeout_ms=10")["reached"]


def test_a_group_that_is_deleted_becomes_dead_but_not_one_that_is_loading(
    server: ServerProcess, closing: ExitStack
) -> None:
    member(server, Classic, "loads", closing)
    act(server, "/v1/clock", mode="manual")
    act(server, "/v1/groups/loads/reload", for_ms=10_000)
    assert not view(server, "/v1/groups/loads?until=state:Dead&timeout_ms=10")["reached"]
    waits = Waiter(server, "/v1/groups/loads?until=members:1&timeout_ms=20000")
    act(server, "/v1/clock", advance_ms=10_000)
    act(server, "/v1/clock", mode="real")
    assert waits.result()[1]["reached"]


def test_a_wait_of_a_client_that_goes_ends(server: ServerProcess) -> None:
    import http.client

    for _ in range(AdminConfig().admin_connections):  # twice as many as may wait at the same time
        connection = http.client.HTTPConnection(server.admin.removeprefix("http://"), timeout=30)
        connection.request("GET", "/v1/groups/never?until=state:Stable&timeout_ms=600000")
        view(server, "/v1/clock")  # answered behind it: it waits now
        connection.close()
    assert view(server, "/v1/groups/none?until=state:Dead&timeout_ms=10")["reached"]


@pytest.mark.parametrize(
    "query",
    [
        "until=state:Sleeping",
        "until=size:3",
        "until=members:three",
        "until=members:1,members:2",
        "until=",
        "timeout_ms=5",
        "until=members:1&at=0",
        "diff=1",
        "at=-1",
    ],
)
def test_a_query_that_cannot_be_is_refused(server: ServerProcess, query: str) -> None:
    status, answer = ask(server, "GET", f"/v1/groups/g?{query}")
    assert status == 422 and answer["detail"]
