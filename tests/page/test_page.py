"""The server's page in a real browser: groups, a storm as it happens, the group at an offset, and control by button.

It is the same page whether one process serves it or the supervisor of several workers.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from coordinator.protocol.errors import ErrorCode
from tests.page.crowd import Crowd
from tests.support.coordinators import coordinator_of
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

EVIL = "<img src=x onerror=alert(1)>\u202e"
SETTINGS = {
    "group.consumer.assignment.interval.ms": 0,
    "offsets.topic.num.partitions": 6,
    "transaction.state.log.num.partitions": 6,
}
WITHIN_MS = 20_000


@pytest.fixture(scope="module", params=[(), ("--workers", "3")], ids=["alone", "workers"])
def server(request, tmp_path_factory) -> Iterator[ServerProcess]:
    """One server for all tests, and one with several workers; each test has a group of its own."""
    running = ServerProcess(tmp_path_factory.mktemp("server"), settings=SETTINGS, arguments=request.param).start()
    yield running
    running.stop()


@pytest.fixture
def group(request) -> str:
    """A name that is neither a path, nor HTML, nor a glob that matches itself."""
    return f"orders/eu & more [*]: {request.node.name}"


@pytest.fixture
def crowd(server, group):
    with ExitStack() as stack:
        with coordinator_of(server, group) as coordinator:
            made = Crowd(coordinator.bootstrap, group, 200)
        stack.callback(made.close)
        yield made


@pytest.fixture
def group_page(server, group, open_page: Callable[..., Any]) -> Callable[..., Any]:
    """Opens the page of the group, as its link in the list does."""

    def open_it(**options: Any) -> Any:
        page = open_page(f"{server.admin}/?view=groups", **options)
        page.get_by_label("Filter").fill(group)
        page.get_by_role("link", name=group, exact=True).click()
        page.get_by_text("following live").wait_for()
        return page

    return open_it


def rows(page: Any, section: str, name: str = "name") -> list[Any]:
    return page.evaluate(
        "([section, name]) => document.querySelector('.timeline').timeline.model.rows"
        ".filter(row => row.section === section).map(row => row[name])",
        [section, name],
    )


def wait(page: Any, condition: str) -> None:
    """Waits for a condition over the timeline `t`. The policy of the page keeps Playwright from waiting inside of it."""
    script = f"(() => {{ const t = document.querySelector('.timeline').timeline; return {condition}; }})()"
    wait_until(lambda: page.evaluate(script), condition)


def drawn_owners(page: Any) -> dict[str, str]:
    """Partition -> the member that owns it at the end of the timeline."""
    bars = zip(rows(page, "partitions"), rows(page, "partitions", "bars"), strict=True)
    return {name: row[-1]["member"] for name, row in bars if row and row[-1]["to"] is None}


def marks(page: Any) -> set[str]:
    """The kinds of marks that are in the timeline."""
    return {
        each["glyph"]
        for section in ("top", "partitions", "members")
        for row in rows(page, section, "marks")
        for each in row
    }


def commit(server: ServerProcess, group: str) -> None:
    """Commits an offset of a group without members. A worker that has no shard yet refuses at first."""
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]

    def try_once() -> bool:
        with coordinator_of(server, group) as link:
            answer = link.call(
                "OffsetCommit", 8, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics
            )
        return answer["topics"][0]["partitions"][0]["error_code"] == 0

    wait_until(try_once)


def names(count: int) -> list[str]:
    return [f"member-{number:03}" for number in range(count)]


def test_the_list_has_every_group_and_follows_live(server, open_page):
    commit(server, EVIL)
    commit(server, "billing")
    page = open_page(f"{server.admin}/?view=groups")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="billing"))
    row.wait_for()
    cells = row.locator("td").all_inner_texts()
    assert (cells[1], cells[7]) == ("Empty", "simple")
    assert page.get_by_role("link", name="<img src=x onerror=alert(1)>\\u{202e}").is_visible()
    commit(server, "newer")
    page.get_by_role("link", name="newer").wait_for(timeout=WITHIN_MS)
    page.get_by_label("Filter").fill("bill")
    page.get_by_role("link", name="newer").wait_for(state="detached")
    assert page.get_by_role("link", name="billing").is_visible()
    page.get_by_label("Filter").fill("nothing like it")
    page.get_by_text("No group.").wait_for()


def test_the_list_turns_pages_of_a_hundred_groups(server, open_page):
    for number in range(103):
        commit(server, f"zz-{number:03}")
    page = open_page(f"{server.admin}/?view=groups")
    page.get_by_label("Order").select_option("name")
    page.get_by_label("Filter").fill("zz-")
    page.get_by_role("link", name="billing").wait_for(state="detached")
    page.get_by_text("Groups 1 to 100, and more").wait_for()
    page.get_by_role("button", name="next page").click()
    page.get_by_text("Groups 101 to 103").wait_for()
    assert page.get_by_role("region").get_by_role("link").all_inner_texts() == ["zz-100", "zz-101", "zz-102"]
    page.get_by_role("button", name="previous page").click()
    page.get_by_text("Groups 1 to 100, and more").wait_for()


def control(page: Any) -> None:
    """Opens the drawer."""
    page.get_by_role("button", name="Control", exact=True).click()
    page.get_by_role("button", name="Set fault").wait_for()


@pytest.mark.alone
def test_a_storm_of_100_members_is_drawn_as_it_happens(crowd, group_page):
    crowd.join(*names(10))
    crowd.settle()
    page = group_page()
    wait(page, "t.model.rows.filter(r => r.section === 'members').length === 10")
    crowd.join(*names(100)[10:])
    crowd.settle()
    assert crowd.commit("member-050", 7) == [0, 0]
    crowd.leave(*names(20))
    crowd.settle()
    wait(page, "t.model.rows.flatMap(r => r.marks).filter(m => m.glyph === 'left').length === 20")
    assert set(rows(page, "members")) == set(names(100))
    owners = {
        f"busy-{number}": member
        for member, topics in crowd.owned.items()
        for numbers in topics.values()
        for number in numbers
    }
    assert len(owners) == 200
    wait_until(lambda: drawn_owners(page) == owners, "the owners that the members know")
    assert {"joined", "left", "accepted"} <= marks(page)
    wait(page, "t.view.to >= t.bounds.last")
    page.locator("p.about").filter(has_text="80 members").wait_for()


def test_what_happened_before_the_page_was_opened_is_in_it(crowd, group_page):
    crowd.join(*names(5))
    crowd.settle()
    crowd.leave("member-001")
    crowd.settle()
    page = group_page()
    wait(page, "t.model.rows.filter(r => r.section === 'members').length === 5")
    assert "left" in marks(page)


def test_a_fault_is_set_by_button_acts_and_is_cleared(crowd, group_page):
    crowd.join("member-000", "member-001")
    crowd.settle()
    page = group_page()
    control(page)
    page.locator("#fault-api").select_option("ConsumerGroupHeartbeat")
    page.locator("#fault-member").select_option("member-001")
    page.locator("#fault-action").select_option(label="answer with an error")
    page.locator("#fault-error").fill("FENCED_MEMBER_EPOCH")
    page.locator("#fault-times").fill("2")
    page.get_by_role("button", name="Set fault").click()
    [fault_id] = re.findall(r"Fault (f\d+) is set", page.locator(".said").filter(has_text="is set").inner_text())
    assert crowd.beat("member-000") == 0
    assert crowd.beat("member-001") == ErrorCode.FENCED_MEMBER_EPOCH
    wait(page, "t.model.rows.flatMap(r => r.marks).some(m => m.glyph === 'fault')")
    [fault] = [each for row in rows(page, "top", "marks") for each in row if each["glyph"] == "fault"]
    assert (fault["event"]["api"], fault["event"]["member_id"]) == ("ConsumerGroupHeartbeat", "member-001")
    page.get_by_role("button", name=f"Clear {fault_id}").click()
    page.get_by_text("No fault is set.").wait_for()
    assert crowd.beat("member-001") == 0


def test_an_offset_shows_the_group_as_its_log_had_it(crowd, group_page):
    crowd.join("member-000")
    crowd.settle()
    crowd.join("member-001")
    crowd.settle()
    page = group_page()
    wait(page, "t.model.rows.filter(r => r.section === 'members').length === 2")
    events = page.evaluate("document.querySelector('.timeline').timeline.model.events")
    [second] = [each for each in events if (each["type"], each.get("member_id")) == ("MemberJoined", "member-001")]
    offset = page.get_by_role("spinbutton", name="Go to a log offset")
    offset.fill(str(second["offset"]))
    offset.press("Enter")
    page.get_by_text(f"The group at offset {second['state_offset']} of its log").wait_for()
    before = page.get_by_role("region", name="Members at that offset")
    assert before.get_by_role("row").count() == 2, "the heads, and the only member before the second one joined"
    assert "member-000" in before.inner_text()


def test_buttons_act_on_the_group_its_members_and_the_clock(crowd, group_page):
    crowd.join("member-000", "member-001")
    crowd.settle()
    page = group_page()
    control(page)
    said = page.locator(".said")

    def press(name: str, outcome: str) -> None:
        page.get_by_role("button", name=name, exact=True).click()
        said.filter(has_text=outcome).wait_for()

    press("Rebalance", "Rebalance: ")
    press("Bump epoch", "Bump epoch: ")
    press("Evict member-000", "member id member-000")
    assert crowd.beat("member-000") == ErrorCode.UNKNOWN_MEMBER_ID
    press("Expire session of member-001", "member id member-001")
    assert crowd.beat("member-001") == ErrorCode.UNKNOWN_MEMBER_ID
    wait(page, "t.model.rows.flatMap(r => r.marks).some(m => m.glyph === 'expired')")
    crowd.join("member-002")
    press("Stop the clock", "done")
    page.get_by_label("by (ms)").fill("46000")
    press("Advance", "timers fired")
    assert crowd.beat("member-002") == ErrorCode.UNKNOWN_MEMBER_ID, "its session ran out by the clock of the page"
    press("Let it run", "done")
    press("Reload", "Reload: ")


def test_an_impossible_fault_says_what_is_allowed(crowd, group_page):
    crowd.join("member-000")
    crowd.settle()
    page = group_page(expected="422")
    control(page)
    page.locator("#fault-error").fill("NO_SUCH_ERROR")
    page.get_by_role("button", name="Set fault").click()
    page.locator(".said.bad").wait_for()
    assert "NO_SUCH_ERROR" in page.locator(".said.bad").inner_text()


def test_without_control_the_page_says_how_to_turn_it_on(coordinator_process, open_page):
    server = coordinator_process(settings={"admin.control.enable": False})
    commit(server, "billing")
    page = open_page(f"{server.admin}/?group=billing", expected="403")
    page.get_by_role("button", name="Control", exact=True).click()
    note = page.locator(".drawer .note")
    note.filter(has_text="admin.control.enable").wait_for()
    assert page.get_by_role("button", name="Rebalance").is_visible()
    for name in ("Set fault", "Bump epoch", "Stop the clock"):
        assert not page.get_by_role("button", name=name).is_visible()


def test_the_topics_are_listed_and_every_page_says_which_server_it_is(server, open_page):
    page = open_page(server.admin)
    page.get_by_role("link", name="Topics").click()
    row = page.get_by_role("row").filter(has_text="orders")
    row.wait_for()
    assert row.get_by_role("cell").all_inner_texts()[1:4] == ["4", "0", "0 B"]
    page.locator(".server").filter(has_text=server.bootstrap).wait_for()


def test_a_group_that_committed_nothing_has_no_lag(crowd, group_page):
    crowd.join(*names(1))
    crowd.settle()
    page = group_page()
    page.get_by_text("lag none, because nothing is committed").wait_for()
    assert page.get_by_text("The group has committed nothing.").is_visible()
