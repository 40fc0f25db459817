"""The report of the recorded storm, made by the job, gives the answer of `coordinator groups why`."""

import json
import re
from html import unescape

import pytest

pytest.importorskip("pyspark")

from click.testing import CliRunner

from coordinator import cli
from coordinator_lab.cli.what_if import what_if
from pyspark_coordinator_log.jobs import report, sources, tables


@pytest.fixture(scope="module")
def foretold(recorded_storm):
    """What `coordinator groups what-if` says about the storm with longer sessions."""
    options = ["orders", "--log", str(recorded_storm.data), "--set", "session.timeout.ms=30000", "--json"]
    return json.loads(CliRunner().invoke(what_if, options, standalone_mode=False).stdout)


@pytest.fixture(scope="module")
def storm_page(spark, recorded_storm, foretold, tmp_path_factory):
    source = sources.from_log(spark, str(recorded_storm.data), {})
    derived = tables.Derived(source=source.for_groups(["orders"]))
    [path] = report.write(derived, tmp_path_factory.mktemp("report"), "a storm", lambda _: None, [foretold])
    return path.read_text()


def cells(page: str, about: str) -> list[list[str]]:
    """The rows of the table with this name."""
    start = page.index(f'aria-label="{about}"')
    body = page[page.index("<tbody>", start) : page.index("</tbody>", start)]
    return [
        [unescape(re.sub(r"<[^>]+>", "", each)) for each in re.findall(r"<td.*?</td>", row, re.DOTALL)]
        for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    ]


def test_the_report_opens_with_the_answer_of_groups_why(storm_page, recorded_storm, capsys):
    assert cli.main(["groups", "why", "orders", "--log", str(recorded_storm.data)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert unescape(storm_page).index(lines[0]) < storm_page.index("<dl")
    causes = [(row[0], row[1]) for row in cells(storm_page, "Causes of rebalances")]
    start = next(place for place, line in enumerate(lines) if line.startswith("REBALANCES"))
    said = [line.split(maxsplit=2) for line in lines[start + 1 : start + 1 + len(causes)]]
    assert causes == [(text, count) for count, _, text in said]


def test_the_report_says_what_another_setting_would_have_changed(storm_page, foretold):
    text = unescape(storm_page)
    assert "session.timeout.ms: 10000 → 30000" in text
    assert foretold["proof"]["text"] in text
    assert all(each in text for each in foretold["assumptions"])
    then, unchanged, now = (foretold[each] for each in ("recorded", "replayed_unchanged", "replayed_changed"))
    expected = [[name.replace("_", " "), *(f"{each[name]:,}" for each in (then, unchanged, now))] for name in then]
    assert cells(storm_page, "What another setting would have changed") == expected
    assert now["rebalances"] < unchanged["rebalances"] / 2


def test_the_report_shows_clients_and_not_the_ids_of_their_members(storm_page, recorded_storm):
    truth = recorded_storm.truth["clients"]
    rows = {row[0]: row for row in cells(storm_page, "Clients")}
    assert set(rows) == set(truth)
    for client_id, row in rows.items():
        assert row[1] == truth[client_id]["host"]
        assert int(row[3]) == truth[client_id]["joined"]
        assert int(row[5]) == truth[client_id].get("expired", truth[client_id].get("killed", 0))
    [data] = re.findall(r'<script type="application/json">(.*?)</script>', storm_page)
    assert {each["client_id"] for each in json.loads(data)["clients"]} == set(truth)
    without_data = re.sub(r"<(script|noscript).*?</\1>", "", storm_page, flags=re.DOTALL)
    visible = re.sub(r"<[^>]*>", "", without_data)
    assert re.findall(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}", visible) == []


def test_refused_commits_name_the_client_and_host_that_sent_them(storm_page):
    rows = cells(storm_page, "Commits of partitions that the member did not own")
    assert {row[3] for row in rows} == {"orders-gc @ 10.0.2.1"}


def test_a_group_that_is_not_there_is_found_out_before_anything_is_made(spark, recorded_storm):
    source = sources.from_log(spark, str(recorded_storm.data), {})
    assert source.has_group("orders")
    assert not source.has_group("nope")
