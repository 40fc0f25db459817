"""The timeline in a real browser: it shows the recorded storm, and works with mouse, keyboard, screen reader and paper."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from coordinator.page.markup import tag
from coordinator.page.timeline import document, timeline_html
from tests.page.conftest import axe_faults
from tests.support.recorded_storm import RecordedStorm

EVIL = "<img src=x onerror=alert(1)>\u202e</script><script>alert(2)</script>"
ILLEGAL = "ILLEGAL_GENERATION"
Opened = Callable[..., Any]


@pytest.fixture
def drawn(open_page: Opened, tmp_path: Path) -> Opened:
    """Opens a document with the timeline of these events from disk; returns the page."""

    def draw(events: list[dict[str, Any]], options: dict[str, Any] | None = None, **more: Any) -> Any:
        path = tmp_path / f"document-{len(list(tmp_path.iterdir()))}.html"
        content = timeline_html({"group": "orders", "events": events, **more})
        path.write_text(document("orders", tag("main", tag("h1", "orders"), tag("h2", "Timeline"), content)))
        return open_page(path.as_uri(), **(options or {}))

    return draw


def rows(page: Any, section: str) -> list[dict[str, Any]]:
    """The rows of a part of the timeline, as it is drawn."""
    return page.evaluate(
        """(section) => document.querySelector(".timeline").timeline.model.rows.filter((row) => row.section === section)
        .map(({name, bars, marks}) => ({name, bars: bars.map(({from, to, label, half}) => ({from, to, label, half})),
        marks: marks.map(({time, glyph}) => ({time, glyph}))}))""",
        section,
    )


def open_table(page: Any) -> None:
    page.get_by_text("Events as a table").click()
    page.locator(".tl-table tbody tr").first.wait_for()


def place(page: Any, expression: str) -> tuple[float, float]:
    """The point of the window that an expression over the timeline `t` gives in those of its canvas."""
    box = page.locator(".tl-scroll canvas").bounding_box()
    x, y = page.evaluate(
        f"(() => {{ const t = document.querySelector('.timeline').timeline; return {expression}; }})()"
    )
    return box["x"] + x, box["y"] + y


def joined(number: int, time_ms: int, **fields: Any) -> dict[str, Any]:
    plain = {"type": "MemberJoined", "shard": 0, "offset": number, "time_ms": time_ms, "member_id": f"m{number}", "epoch": 1,
             "client_id": f"client-{number}", "client_host": "/10.0.0.1", "state_offset": number}  # fmt: skip
    return plain | fields


def test_a_storm_is_drawn_with_its_epochs_owners_and_members(drawn, storm_events, recorded_storm: RecordedStorm):
    page = drawn(storm_events)
    epochs, rebalances, _ = rows(page, "top")
    partitions, members = rows(page, "partitions"), rows(page, "members")
    assert len(epochs["bars"]) == len(rebalances["bars"]) == recorded_storm.rebalances
    assert [row["name"] for row in partitions] == [f"order-events-{number}" for number in range(108)]
    glyphs = [mark["glyph"] for row in members for mark in row["marks"]]
    truth = recorded_storm.truth["clients"].values()
    assert glyphs.count("joined") == sum(client["joined"] for client in truth)
    assert glyphs.count("expired") == sum(client.get("expired", client.get("killed", 0)) for client in truth)
    assert {mark["glyph"] for row in partitions for mark in row["marks"]} == {"accepted", "refused"}
    for row in partitions:
        ends = [(bar["from"], bar["to"]) for bar in row["bars"]]
        assert all(to is not None and to <= begin for (_, to), (begin, _) in pairwise(ends))
    legend = page.locator(".tl-legend").inner_text()
    assert all(name in legend for name in recorded_storm.truth["clients"])


_TIMES = """() => {
  const timeline = document.querySelector(".timeline").timeline, { context } = timeline, found = [];
  context.fillText = function (text, x, ...more) {
    if (/^\\d+:/.test(text)) found.push([x - context.measureText(text).width / 2, x + context.measureText(text).width / 2]);
    return CanvasRenderingContext2D.prototype.fillText.call(this, text, x, ...more);
  };
  timeline.draw();
  delete context.fillText;
  return found.sort((one, other) => one[0] - other[0]);
}"""


def test_times_of_the_axis_never_overlap(drawn, storm_events):
    page = drawn(storm_events)
    for _ in range(30):
        times = page.evaluate(_TIMES)
        assert times
        assert all(end < begin for (_, end), (begin, _) in pairwise(times))
        page.evaluate("document.querySelector('.timeline').timeline.zoom(0.83)")


def test_a_click_shows_the_record_its_offset_and_the_group_as_it_was_then(drawn, storm_events):
    page = drawn(storm_events)
    x, y = place(page, "[(t.scene().gutter + 4 + 100), t.layout.fixed[1].y + 9]")
    page.mouse.click(x, y)
    assert page.locator(".tl-none").is_visible(), "there is no rebalance there"
    started = next(each for each in storm_events if each["type"] == "RebalanceStarted" and each["epoch"] == 4)
    x, y = place(
        page,
        f"[t.scene().gutter + ({started['time_ms']} + 1000 - t.view.from) / (t.view.to - t.view.from)"
        " * (t.width - t.scene().gutter), t.layout.fixed[1].y + 9]",
    )
    page.mouse.move(x, y)
    assert "rebalance to epoch 4 started" in page.locator(".tl-tip").inner_text()
    page.mouse.click(x, y)
    detail = page.locator(".tl-detail").inner_text()
    assert "a member's session timed out" in detail or "a new member joins" in detail
    assert f"{started['offset']} in the event log of shard 0" in detail
    assert f"{started['state_offset']}: decided on the group's records before it" in detail
    assert "By then: epoch 4," in detail


def test_the_keyboard_reaches_every_record_and_a_screen_reader_hears_it(drawn, storm_events):
    page = drawn(storm_events)
    page.keyboard.press("Tab")
    while not page.evaluate("document.activeElement.matches('.tl-scroll')"):
        page.keyboard.press("Tab")
    said = page.locator(".tl-said")
    page.keyboard.press("ArrowDown")
    assert "epoch 1 began" in said.inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert "rebalance to epoch 2 started" in said.inner_text()
    page.keyboard.press("End")
    assert "rebalance to epoch 17 started" in said.inner_text()
    span = "(() => { const v = document.querySelector('.timeline').timeline.view; return v.to - v.from; })()"
    before = page.evaluate(span)
    page.keyboard.press("+")
    assert page.evaluate(span) == pytest.approx(before / 2)
    page.keyboard.press("0")
    assert page.evaluate(span) == pytest.approx(before)
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    assert "order-events-2: a commit of orders-api" in said.inner_text()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.matches('.tl-detail')")


def test_an_offset_leads_to_its_record(drawn, storm_events):
    page = drawn(storm_events)
    left = next(each for each in storm_events if each["type"] == "MemberLeft")
    offset = page.get_by_role("spinbutton", name="Go to a log offset")
    offset.fill(str(left["offset"]))
    offset.press("Enter")
    assert "left: the consumer is being closed" in page.locator(".tl-detail h3").inner_text()
    scrub = page.get_by_role("slider", name="Go through the records in the order of the log")
    assert int(scrub.input_value()) == storm_events.index(left)
    scrub.press("ArrowRight")
    assert f"{left['offset'] + 1} in the event log" in page.locator(".tl-detail").inner_text()


def test_the_table_has_all_events_in_pages_and_leads_back_to_the_timeline(drawn, storm_events):
    page = drawn(storm_events)
    assert page.get_by_text(f"Events as a table ({len(storm_events):,})").is_visible()
    open_table(page)
    assert page.locator(".tl-table tbody tr").count() == 50
    page.get_by_label("Type of the events").select_option("MemberLeft")
    assert page.locator(".tl-table tbody tr").count() == 2
    page.locator(".tl-table tbody tr").last.get_by_role("button").click()
    assert "orders-cron" in page.locator(".tl-detail h3").inner_text()


def test_a_text_leaves_only_its_rows(drawn, storm_events):
    page = drawn(storm_events)
    page.get_by_label("Show only rows with this text").fill("orders-cron")
    names = page.evaluate(
        "document.querySelector('.timeline').timeline.layout.lines.filter(l => l.row).map(l => l.row.name)"
    )
    assert len(names) == 2
    assert all(name.startswith("orders-cron") for name in names)


def test_names_that_clients_choose_stay_text(drawn):
    events = [
        joined(1, 1000, client_id=EVIL, member_id=EVIL),
        {"type": "MemberLeft", "offset": 2, "time_ms": 2000, "member_id": EVIL, "epoch": 1, "reason": EVIL},
    ]
    page = drawn(events)
    open_table(page)
    page.locator(".tl-table tbody button").first.click()
    assert "<img src=x onerror=alert(1)>\\u{202e}" in page.locator(".tl-detail h3").inner_text()
    assert page.locator("img").count() == 0


def test_what_a_crash_undid_is_not_drawn(drawn):
    opened = {"type": "EventLogOpened", "offset": 3, "time_ms": 3000, "cause": "start", "undone_from_offset": 2}
    page = drawn([joined(1, 1000), joined(2, 2000), opened])
    assert [row["name"] for row in rows(page, "members")] == ["m1"]


def test_two_owners_at_once_are_both_visible(drawn):
    owned = [
        {"topic": "t", "partition": 0, "member_id": "m1", "from_ms": 1000, "to_ms": 3000},
        {"topic": "t", "partition": 0, "member_id": "m2", "from_ms": 2000, "to_ms": None},
    ]
    page = drawn([joined(1, 1000), joined(2, 1000)], ownership=owned)
    [row] = rows(page, "partitions")
    assert [bar["half"] for bar in row["bars"]] == ["upper", "lower"]


def test_faults_and_refused_commits_have_marks_that_say_why(drawn):
    topics = [{"topic_name": "t", "partitions": [{"partition": 0, "committed_offset": 5, "error_code": ILLEGAL}]}]
    commit = {
        "type": "CommitDecided",
        "offset": 2,
        "time_ms": 2000,
        "member_id": "m1",
        "error_code": None,
        "topics": topics,
    }
    fault = {"type": "FaultActed", "time_ms": 3000, "fault": "f1", "api": "Heartbeat", "member_id": "m1",
             "action": {"error": "ILLEGAL_GENERATION"}}  # fmt: skip
    page = drawn([joined(1, 1000), commit, fault])
    [partition] = rows(page, "partitions")
    assert [mark["glyph"] for mark in partition["marks"]] == ["refused"]
    assert [mark["glyph"] for mark in rows(page, "top")[2]["marks"]] == ["fault"]
    open_table(page)
    said = page.locator(".tl-table").inner_text()
    assert "was refused for 1 partition: ILLEGAL_GENERATION" in said
    assert "fault f1 acted on Heartbeat of client-1 on 10.0.0.1, m1: error ILLEGAL_GENERATION" in said


@pytest.mark.parametrize(
    "options",
    [{}, {"color_scheme": "dark"}, {"viewport": {"width": 380, "height": 800}}],
    ids=["light", "dark", "narrow"],
)
def test_people_with_disabilities_can_use_it(drawn, storm_events, options):
    page = drawn(storm_events, options)
    open_table(page)
    page.locator(".tl-table tbody button").first.click()
    assert axe_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the screen"


def test_paper_has_all_rows(drawn, storm_events):
    page = drawn(storm_events, {"color_scheme": "dark"})
    height = "document.querySelector('.tl-scroll canvas').clientHeight"
    on_screen = page.evaluate(height)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(height) > 2 * on_screen
    white = "[...document.querySelector('.tl-scroll canvas').getContext('2d').getImageData(2, 2, 1, 1).data]"
    assert page.evaluate(white) == [255, 255, 255, 255]
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(height) == on_screen


def test_without_scripts_there_is_a_table(drawn, storm_events):
    page = drawn(storm_events, {"java_script_enabled": False})
    assert "The timeline is drawn by a script. Without it: the newest 500 of" in page.locator("noscript").inner_text()
    assert page.locator("noscript tbody tr").count() == 500


def busy_group() -> list[dict[str, Any]]:
    """10,000 events of 100 members on 200 partitions; a commit names two partitions."""
    events = [joined(number, 1000 + number, member_id=f"m{number % 100}") for number in range(100)]
    for number in range(100, 10_000):
        member = number % 100
        partitions = [(2 * member + number // 1000) % 200, (2 * member + 1 + number // 1000) % 200]
        event = {
            "offset": number,
            "time_ms": 2000 + number * 50,
            "member_id": f"m{member}",
            "epoch": number // 1000 + 1,
        }
        if number % 1000 < 100:
            topics: list[dict[str, Any]] = [{"topic_name": "orders", "partitions": partitions}]
            event |= {"type": "AssignmentDelivered", "topics": topics}
        elif number % 1000 in {100, 999}:
            kind = "RebalanceCompleted" if number % 1000 == 100 else "RebalanceStarted"
            event |= {
                "type": kind,
                "cause": "a new member joins",
                "duration_ms": 5000,
                "members": 100,
                "waited_for": [],
            }
        else:
            each = [
                {"partition": p, "committed_offset": number, "error_code": None if number % 97 else ILLEGAL}
                for p in partitions
            ]
            event |= {
                "type": "CommitDecided",
                "error_code": None,
                "topics": [{"topic_name": "orders", "partitions": each}],
            }
        events.append(event)
    return events


_PAN_AND_ZOOM = """(seconds) => new Promise((resolve) => {
  const timeline = document.querySelector(".timeline").timeline;
  const times = [], frames = [], marks = [];
  const draw = timeline.draw.bind(timeline);
  timeline.draw = () => {
    let rects = 0;
    const rect = timeline.context.rect;
    timeline.context.rect = function (...all) { rects += 1; return rect.apply(this, all); };
    const start = performance.now();
    draw();
    times.push(performance.now() - start);
    marks.push(rects);
    delete timeline.context.rect;
  };
  let last = performance.now(), step = 0;
  const end = last + seconds * 1000;
  requestAnimationFrame(function frame(now) {
    frames.push(now - last);
    last = now;
    step += 1;
    for (let event = 0; event < 3; event += 1) timeline.panPixels(step % 60 < 30 ? 12 : -12);
    timeline.zoom(step % 120 < 60 ? 0.97 : 1 / 0.97);
    timeline.scroll.scrollTop += step % 80 < 40 ? 40 : -40;
    if (now < end) requestAnimationFrame(frame);
    else resolve({frames: frames.slice(1), times, marks, width: timeline.width, rows: Math.ceil(timeline.height / 18)});
  });
})"""


def test_ten_thousand_events_of_200_partitions_and_100_members_move_with_the_hand(drawn, record_property):
    page = drawn(busy_group())
    assert len(rows(page, "partitions")) == 200
    assert len(rows(page, "members")) == 100
    found = page.evaluate(_PAN_AND_ZOOM, 2)
    for name in ("frames", "times"):
        ordered = sorted(found[name])
        figures = {"median": ordered[len(ordered) // 2], "p99": ordered[int(len(ordered) * 0.99)]}
        record_property(name, figures)
        print(name, len(ordered), {key: f"{value:.1f} ms" for key, value in figures.items()})
    assert len(found["times"]) <= len(found["frames"]) + 2, "however many movements, a frame is drawn once"
    assert max(found["marks"]) <= found["rows"] * found["width"], "at most one mark for each pixel of a visible row"
