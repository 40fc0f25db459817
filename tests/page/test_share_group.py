"""The page of a share group: what is in flight in its partitions, and who holds what."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.page.test_console import check_looks
from tests.support.admin_client import act
from tests.support.server_process import ServerProcess
from tests.support.share_member import RELEASE, SETTINGS, Sharer

GROUP = "invoices"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a share group of two members: one holds records, the other one lost its locks and gave up records."""
    with ServerProcess(tmp_path_factory.mktemp("page"), settings=SETTINGS).start() as running, ExitStack() as closing:
        slow = Sharer(running, GROUP, closing, "slow")
        slow.join()
        fast = Sharer(running, GROUP, closing, "fast")
        fast.join()
        for _ in range(2):
            slow.produce(b"a", b"b", b"c")
            slow.acquire()
            act(running, f"/v1/groups/{GROUP}/expire-locks", member_id="slow")
        fast.produce(b"d", b"e")
        [*_, (first, _, _)] = fast.acquire()
        assert fast.acknowledge(first, first, RELEASE) == 0
        act(running, "/v1/clock", mode="manual")  # the locks must not end while pages are looked at
        yield running


@pytest.fixture
def page_of_group(server: ServerProcess, open_page: Callable[..., Any]) -> Callable[..., Any]:
    def open_it(**options: Any) -> Any:
        page = open_page(f"{server.admin}/?group={GROUP}", **options)
        page.get_by_role("heading", name="Share partitions").wait_for()
        page.get_by_text("The locks of").first.wait_for()
        return page

    return open_it


def cells(page: Any, table: str) -> list[list[str]]:
    return [
        row.locator("td").all_inner_texts() for row in page.get_by_role("region", name=table).locator("tbody tr").all()
    ]


def test_the_page_says_what_is_in_flight_and_who_holds_it(page_of_group: Callable[..., Any]) -> None:
    page = page_of_group()
    [[partition, _start, lag, in_flight, held, given_back, dead, _deliveries]] = cells(page, "Share partitions")
    assert partition == "t-0"
    assert dead == "0"
    assert int(in_flight) >= int(held) + int(given_back) == int(lag) > 0
    rows = cells(page, "Records that members hold")
    assert rows
    assert {(row[0], row[2], row[3]) for row in rows} == {("t-0", "sharer", "fast")}
    assert "alarmed" in (page.locator(".verdict").get_attribute("class") or "")
    assert "will not be delivered again after 2 deliveries" in page.locator(".verdict").inner_text()


def test_people_with_disabilities_can_use_the_page_of_a_share_group(page_of_group: Callable[..., Any]) -> None:
    check_looks(page_of_group())
