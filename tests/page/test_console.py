"""The views of the page: each is for everybody, nothing moves while it is read, and it says what it does not know."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from coordinator_testing.throwaway_server import ThrowawayServer
from tests.page.conftest import axe_faults
from tests.page.crowd import Crowd
from tests.support.coordinators import coordinator_of
from tests.support.record_batch import TRANSACTIONAL, Batch
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S, wait_until
from tests.support.watching import Watcher

SETTINGS = {
    "group.consumer.assignment.interval.ms": 0,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.consumer.session.timeout.ms": 900_000,
    "group.consumer.max.session.timeout.ms": 900_000,
}
GROUP, TOPIC = "orders", "busy"
LARGE = 12345678901234567890
RULE = {
    "match": {"api": "OffsetCommit", "where": {"GenerationIdOrMemberEpoch": {">": 3}, "GroupId": "other*"}},
    "action": {"delay_ms": 5},
    "scope": "demo",
}
VIEWS = {
    "overview": "/",
    "groups": "/?view=groups",
    "group": f"/?group={GROUP}",
    "topics": "/?view=topics",
    "topic": f"/?topic={TOPIC}",
    "events": "/?view=events",
    "faults": "/?view=faults",
}
LOOKS = [(420, "dark"), (900, "light"), (1400, "dark")]
"""The width of the window and the scheme of colours. Colours do not depend on the width."""
SEEN = {
    "overview": "orders",
    "groups": "orders",
    "group": "following live",
    "topics": "busy",
    "topic": "aborted",
    "events": "member-000 joined",
    "faults": "Clear",
}
"""What a view shows when it has what it asked for."""


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[ServerProcess]:
    """A server with a group of two members, a topic with records in transactions, and a fault rule."""
    with ServerProcess(tmp_path_factory.mktemp("console"), settings=SETTINGS) as running:
        rule = httpx.post(f"{running.admin}/v1/faults", json=RULE, timeout=WITHIN_S)
        rule.raise_for_status()
        yield running


@pytest.fixture(scope="module")
def crowd(server) -> Iterator[Crowd]:
    with ExitStack() as stack:
        with coordinator_of(server, GROUP) as coordinator:
            made = Crowd(coordinator.bootstrap, GROUP, 6)
            stack.callback(made.close)
            produce(coordinator)
        made.join("member-000", "member-001")
        made.settle()
        made.commit("member-000", 1)
        yield made


def produce(link: Any) -> None:
    """Plain records, then a transaction that is aborted."""

    def write(batch: Batch, transactional_id: str | None = None) -> None:
        data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch.encode()}]}]
        answer = link.call("Produce", 9, acks=-1, timeout_ms=9_000, transactional_id=transactional_id, topic_data=data)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0

    values = [b"plain <b>text</b>", json.dumps({"id": LARGE, "of": []}).encode(), b"\xff\x00\x01"]
    write(Batch(values=values, headers=((b"trace", b"<i>7</i>"), (b"bits", b"\xfe\xff"))))
    begun = link.call("InitProducerId", 4, transactional_id="x", transaction_timeout_ms=9_000)
    producer, epoch = begun["producer_id"], begun["producer_epoch"]
    link.call(
        "AddPartitionsToTxn", 3, v3_and_below_transactional_id="x", v3_and_below_producer_id=producer,
        v3_and_below_producer_epoch=epoch, v3_and_below_topics=[{"name": TOPIC, "partitions": [0]}],
    )  # fmt: skip
    write(
        Batch(values=[b"never"], producer_id=producer, producer_epoch=epoch, base_sequence=0, attributes=TRANSACTIONAL),
        "x",
    )
    ended = link.call("EndTxn", 3, transactional_id="x", producer_id=producer, producer_epoch=epoch, committed=False)
    assert ended["error_code"] == 0


@pytest.fixture
def look(server, crowd, open_page: Callable[..., Any]) -> Callable[..., Any]:
    """Opens a view, and waits until it has what it asked for."""

    def open_it(view: str, **options: Any) -> Any:
        page = open_page(server.admin + VIEWS[view], **options)
        page.locator("main").get_by_text(SEEN[view]).first.wait_for()
        return page

    return open_it


@pytest.mark.parametrize("view", VIEWS)
def test_people_with_disabilities_can_use_every_view(look, view):
    page = look(view, viewport={"width": LOOKS[0][0], "height": 900})
    check_looks(page)
    if view == "group":
        page.get_by_role("button", name="Control", exact=True).click()
        page.get_by_role("button", name="Set fault").wait_for()
        check_looks(page)


def check_looks(page: Any) -> None:
    """The view is for everybody, at every width and in both schemes."""
    for width, scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        assert axe_faults(page) == [], (width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"wider than the screen of {width}"


def test_several_workers_have_a_view(coordinator_process, open_page):
    server = coordinator_process(settings=SETTINGS, arguments=("--workers", "2"))
    page = open_page(server.admin)
    page.get_by_role("link", name="Workers").click()
    rows = page.get_by_role("region", name="All workers").locator("tbody tr")
    wait_until(lambda: rows.count() == 2)
    assert [each.locator("td").all_inner_texts()[2] for each in rows.all()] == ["serves", "serves"]
    check_looks(page)


def test_several_brokers_have_a_view_that_takes_one_down(tmp_path, open_page):
    # Not a ServerProcess: it reserves one port, and three brokers need three that follow each other.
    server = ThrowawayServer(tmp_path, [*(f"{key}={value}" for key, value in SETTINGS.items()), "nodes=3"])
    try:
        page = open_page(server.start().admin_url)
        page.get_by_role("link", name="Brokers").click()
        page.get_by_role("button", name="Take down broker 2").click()
        page.get_by_text("Broker 2 is down.").wait_for()
        page.get_by_role("button", name="Bring up broker 2").wait_for()
        check_looks(page)
    finally:
        server.stop()


def test_the_overview_has_rates_health_and_the_groups_in_trouble(look):
    page = look("overview")
    page.get_by_text("Ready: every shard is loaded and accepts writes.").wait_for()
    rate = page.get_by_role("region", name="Requests a second").locator(".big")
    wait_until(lambda: rate.inner_text().isdecimal())
    troubled = page.get_by_role("region", name="Troubled groups")
    assert troubled.get_by_role("link", name=GROUP).is_visible()
    assert troubled.get_by_role("img", name=re.compile("rebalances? in the last five minutes")).is_visible()
    assert "joined" in page.get_by_role("region", name="Last events").inner_text()


def test_rows_keep_their_places_while_somebody_reads_them(look):
    page = look("groups")

    def answer(names: str) -> None:
        nothing = dict.fromkeys(("lag", "last_rebalance", "culprit"))
        numbers = dict.fromkeys(
            ("generation", "member_count", "offset_count", "rebalancing_share", "culprit_rebalances"), 0
        )
        same = {"kind": "simple", "state": "Empty", "rebalances": [], **nothing, **numbers}
        groups = [{"group_id": each, **same} for each in names]
        page.unroute_all()
        page.route("**/v1/groups?*", lambda route: route.fulfill(json={"groups": groups, "total": len(groups)}))

    def order() -> list[str]:
        return page.get_by_role("region", name="Groups").get_by_role("link").all_inner_texts()

    answer("abc")
    wait_until(lambda: order() == ["a", "b", "c"])
    page.get_by_role("link", name="b", exact=True).hover()
    answer("dcba")
    wait_until(lambda: "d" in order())
    assert order() == ["a", "b", "c", "d"]
    page.mouse.move(2, 2)
    wait_until(lambda: order() == ["d", "c", "b", "a"])


def test_what_is_scrolled_and_selected_stays_so_when_numbers_change(look):
    page = look("groups", viewport={"width": 420, "height": 900})
    kept = """() => {
      const region = document.querySelector(".wide"), name = region.querySelector("tbody a").firstChild;
      region.scrollLeft = 90;
      getSelection().selectAllChildren(name.parentNode);
      window.kept = () => [region.isConnected, region.scrollLeft, String(getSelection())];
    }"""
    page.evaluate(kept)
    asked = []
    page.on("response", lambda response: asked.append(response.url) if "/v1/groups?" in response.url else None)
    wait_until(lambda: len(asked) >= 2 or page.wait_for_timeout(50))
    assert page.evaluate("kept()") == [True, 90, GROUP]


def test_the_view_stays_with_a_record_that_is_read(look, crowd):
    page = look("group")
    script = "document.querySelector('.timeline').timeline"
    page.get_by_role("spinbutton", name="Go to a log offset").fill("0")
    page.get_by_role("spinbutton", name="Go to a log offset").press("Enter")
    view, count = page.evaluate(f"[{script}.view, {script}.model.events.length]")
    crowd.commit("member-001", 2)
    wait_until(lambda: page.evaluate(f"{script}.model.events.length") > count)
    assert page.evaluate(f"{script}.view") == view
    box = page.locator(".tl-detail").bounding_box()
    assert box["x"] > page.locator(".tl-scroll").bounding_box()["x"] + 400, "the details are beside the timeline"


def test_a_link_leads_a_colleague_to_the_same_moment(look, open_page):
    page = look("group")
    events = page.evaluate("document.querySelector('.timeline').timeline.model.events")
    joined = next(each for each in events if each["type"] == "MemberJoined")
    page.get_by_role("spinbutton", name="Go to a log offset").fill(str(joined["offset"]))
    page.get_by_role("spinbutton", name="Go to a log offset").press("Enter")
    detail = page.locator(".tl-detail h3").inner_text()
    link = page.get_by_role("link", name="Link to this moment").evaluate("each => each.href")
    other = open_page(link)
    other.locator(".tl-detail h3").filter(has_text=detail).wait_for()


def test_the_drawer_opens_and_closes_by_keyboard_and_says_what_a_button_does(look):
    page = look("group")
    opener = page.get_by_role("button", name="Control", exact=True)
    opener.press("Enter")
    drawer = page.get_by_role("complementary", name="Control")
    assert "Deletes offsets as if their retention had passed." in drawer.inner_text()
    assert drawer.evaluate("each => each === document.activeElement")
    page.keyboard.press("Escape")
    assert not drawer.is_visible()
    assert opener.evaluate("each => each === document.activeElement")


def test_a_server_that_cannot_be_reached_is_said_in_view_until_it_answers(look):
    page = look("group", expected="ERR_FAILED")
    said = page.get_by_text("The server cannot be reached since")
    assert not said.is_visible()
    page.route("**/v1/**", lambda route: route.abort())
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    said.wait_for()
    box = said.bounding_box()
    assert 0 <= box["y"] < 200, "however far down one reads"
    page.unroute_all()
    said.wait_for(state="hidden")


def test_records_are_text_json_or_hex_with_their_transaction(look):
    page = look("topic")
    region = page.get_by_role("region", name="Records of the partition")
    rows = [each.locator("td").all_inner_texts() for each in region.locator("tbody tr").all()]
    assert [row[0] for row in rows] == ["0", "1", "2", "3", "4"]
    assert rows[0][3] == "plain <b>text</b>"
    assert rows[1][3] == f'{{\n  "id": {LARGE},\n  "of": []\n}}', "numbers are as they were written"
    assert rows[2][3] == "ff 00 01"
    assert [row[4].split() for row in rows[:4]] == [["trace:", "<i>7</i>", "bits:", "fe", "ff"]] * 3 + [[]]
    assert rows[3][5].startswith("aborted, producer ")
    assert rows[4][2:4] == ["control record", "abort by coordinator epoch 0"]
    page.get_by_label("show as").select_option("hex")
    assert region.locator("tbody tr").first.locator("td").all_inner_texts()[3].startswith("70 6c 61 69 6e")
    page.get_by_label("from offset").fill("2")
    page.get_by_role("button", name="Read").click()
    wait_until(lambda: region.locator("tbody tr").count() == 3)
    assert "offset=2" in page.url


def test_a_topic_names_its_readers(look):
    page = look("topic")
    readers = page.get_by_role("region", name="Groups with offsets of the topic")
    readers.get_by_role("link", name=GROUP).wait_for()


def test_events_are_searched_and_new_ones_wait_for_the_reader(look, crowd):
    page = look("events")
    page.get_by_label("search by").select_option("member")
    page.get_by_label("text").fill("member-001")
    page.get_by_label("type").select_option("CommitDecided")
    page.get_by_role("button", name="Search").click()
    rows = page.get_by_role("region", name="Events").locator("tbody tr")
    page.get_by_text("following live").wait_for()
    before = rows.count()
    crowd.commit("member-000", 3)
    crowd.commit("member-001", 3)
    more = page.get_by_role("button", name="show 1 new event")
    more.wait_for()
    assert rows.count() == before
    more.click()
    assert rows.count() == before + 1
    assert "member-001" in rows.first.inner_text()


def test_the_conditions_of_a_fault_rule_are_words(look):
    page = look("faults")
    row = page.get_by_role("region", name="Fault rules").locator("tbody tr").first.inner_text()
    assert 'api OffsetCommit, GenerationIdOrMemberEpoch > 3, GroupId = "other*"' in row
    assert "delay_ms 5" in row


def test_a_server_that_lacks_endpoints_is_shown_as_far_as_it_is_known(look):
    """The same page stands in front of a cluster that has neither control, nor sizes, nor records."""
    for view in ("overview", "group", "faults", "topics", "topic", "events"):
        page = look(view, expected="404")
        missing = re.compile(r"/v1/(overview|faults|workers|events|topics/|groups\?|groups/.*/why)")
        page.route(missing, lambda route: route.fulfill(status=404, json={"detail": "no such path"}))
        page.reload()
        said = {
            "overview": "unknown",
            "group": "Nothing is known about its rebalances.",
            "faults": "This server has no fault rules.",
            "topics": "busy",
            "topic": "There is no such topic here.",
            "events": "no such path",
        }[view]
        page.locator("main").get_by_text(said).first.wait_for()


@pytest.fixture
def watcher(server, tmp_path) -> Iterator[Watcher]:
    with Watcher(tmp_path / "watcher", server.bootstrap) as found:
        wait_until(lambda: found.is_ready, lambda: found.log[-3_000:])
        yield found


def test_a_watched_cluster_is_shown_and_what_its_log_does_not_say_is_unknown(crowd, watcher, open_page):
    page = open_page(watcher.admin, expected="409")
    page.get_by_text("What is unknown here").wait_for()
    rate = page.get_by_role("region", name="Requests a second").locator(".big")
    rate.filter(has_text="unknown").wait_for()
    assert axe_faults(page) == []
    page.goto(f"{watcher.admin}/?view=topics")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=TOPIC))
    row.wait_for()
    assert row.get_by_role("cell").all_inner_texts()[2:5] == ["unknown", "unknown", ""]
    page.goto(f"{watcher.admin}/?group={GROUP}")
    page.get_by_text("What is unknown here").wait_for()
    page.get_by_role("button", name="Control", exact=True).click()
    page.locator(".drawer .note").filter(has_text="changes nothing there").wait_for()
    assert not page.get_by_role("button", name="Set fault").is_visible()
    assert axe_faults(page) == []
