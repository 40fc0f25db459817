"""`coordinator groups why` names the causes that the recorded storm really has, from its folder and from a server."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.groups.cause_words import sentence
from coordinator.groups.group_events import group_event
from coordinator.groups.rebalance_causes import (
    BACK_ON_ITS_CONNECTION,
    CUT_OFF,
    KILLED,
    PAUSED,
    PAUSED_OR_CUT_OFF,
    TYPES,
    Client,
    GroupEvent,
    find_causes,
    union_ms,
)
from tests.groups.consumer.consumer_world import INTERVAL_MS, ConsumerHarness, Modern, settle
from tests.support.admin_client import view
from tests.support.group_members import Classic
from tests.support.wire import Connection

HOUR_MS = 3_600_000


def why(capsys, *arguments):
    assert cli.main(["groups", "why", *map(str, arguments)]) == 0
    return capsys.readouterr().out


@pytest.fixture
def answer(recorded_storm, capsys):
    return json.loads(why(capsys, "orders", "--log", recorded_storm.data, "--json"))


def by_client(rows):
    return {row["client_id"]: row for row in rows if row["client_id"]}


# --- the recorded storm -------------------------------------------------------------------------------------------------


def test_the_time_spent_rebalancing_is_the_one_that_was_seen_in_the_group(recorded_storm, answer):
    assert answer["rebalancing_ms"] / 1000 == pytest.approx(recorded_storm.truth["rebalancing_s"], abs=1)
    assert (
        len(answer["rebalances"]) == recorded_storm.rebalances == sum(each["rebalances"] for each in answer["causes"])
    )
    assert sum(each["rebalances"] for each in answer["clients"]) == recorded_storm.rebalances - 1, "one has no culprit"


def test_every_client_has_what_happened_to_its_members(recorded_storm, answer):
    rows = by_client(answer["clients"])
    for client_id, truth in recorded_storm.truth["clients"].items():
        row = rows[client_id]
        assert row["host"].lstrip("/") == truth["host"]
        assert row["joined"] == truth["joined"], client_id
        assert row["left"] == truth.get("left", 0), client_id
        assert row["expired"] == truth.get("expired", truth.get("killed", 0)), client_id
        stays = not truth.get("left") and not truth.get("killed")
        assert row["members"] == (truth["members"] if stays else 0), client_id


def test_the_first_cause_is_the_client_that_stops_polling_and_for_how_long(recorded_storm, answer):
    truth = recorded_storm.truth
    first = answer["causes"][0]
    assert first["client_id"] == truth["paused"]["client"]
    assert first["rebalances"] > recorded_storm.rebalances / 2
    words = first["cause"].split()
    assert words[:3] == ["falls", "silent", "for"]
    assert 0 <= int(words[3]) - truth["paused"]["for_s"] <= 3, "its last heartbeat was up to three seconds earlier"
    assert first["cause"].endswith(PAUSED)
    assert answer["sentence"].startswith("orders spent 35 % of the last 5 min rebalancing; 11 of 17 rebalances because")


def test_the_killed_client_and_the_visitor_are_causes_of_their_own(recorded_storm, answer):
    causes = by_client(answer["causes"])
    assert causes[recorded_storm.truth["killed"]["client"]]["cause"] == f"falls silent and does not come back, {KILLED}"
    visitor = causes[recorded_storm.truth["joined_and_left"]["client"]]
    assert (visitor["cause"], visitor["rebalances"]) == ("joins and leaves", 4)
    assert {each["cause"] for each in answer["causes"] if each["client_id"] is None} == {"the group starts"}


def test_the_paused_client_was_waited_for_while_it_was_paused(recorded_storm, answer):
    paused = recorded_storm.truth["paused"]
    starts = [recorded_storm.truth["started_ms"] + at_s * 1000 for at_s in paused["at_s"]]
    found = 0
    for each in answer["rebalances"]:
        if any(start <= each["started_ms"] < start + 3_000 for start in starts):
            longest = max(each["waited_for"], key=lambda wait: wait["ms"])
            assert longest["client_id"] == paused["client"], each
            found += 1
    assert found, "some rebalances begin while it stands still"


def test_text_says_clients_and_hosts_and_no_member_ids(recorded_storm, capsys):
    text = why(capsys, "orders", "--log", recorded_storm.data)
    lines = text.splitlines()
    assert lines[0].startswith("orders spent ")
    row = next(line for line in lines if line.startswith("orders-gc"))
    assert row.split()[1] == "10.0.2.1"
    assert len(text) < 3_000


def test_the_documents_show_what_is_printed(recorded_storm, capsys):
    shown = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    assert why(capsys, "orders", "--log", recorded_storm.data) in shown


def test_a_shorter_time_is_looked_at(recorded_storm, capsys):
    found = json.loads(why(capsys, "orders", "--log", recorded_storm.data, "--json", "--last", "60s"))
    assert found["to_ms"] - found["from_ms"] == 60_000
    assert 0 < found["rebalancing_ms"] < 60_000
    assert set(by_client(found["causes"])) == {"orders-gc"}


def test_a_running_server_gives_the_same_answer(recorded_storm, answer, coordinator_process, tmp_path, capsys):
    shutil.copytree(recorded_storm.data, tmp_path / "copy")
    settings = {"coordinator.events.retention.ms": -1, "offsets.topic.num.partitions": 1,
                "transaction.state.log.num.partitions": 1}  # fmt: skip
    server = coordinator_process(settings=settings, arguments=("--data-dir", str(tmp_path / "copy")))
    asked = json.loads(why(capsys, "orders", "--bootstrap", server.bootstrap, "--json", "--last", "99999d"))
    assert asked["rebalances"] == answer["rebalances"]
    assert asked["causes"] == answer["causes"]
    counted = ("joined", "left", "expired", "rebalances", "waited_ms", "host")
    for client_id, row in by_client(answer["clients"]).items():
        assert {name: by_client(asked["clients"])[client_id][name] for name in counted} == {
            name: row[name] for name in counted
        }


# --- other answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "there is no group nope, or nothing happened to it in the last 60 min"),
        (["orders", "--last", "soon"], "'soon' is no duration, such as 30s, 10m, 2h or 7d"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_line(recorded_storm, capsys, arguments, said):
    assert cli.main(["groups", "why", *arguments, "--log", str(recorded_storm.data)]) != 0
    assert said in capsys.readouterr().err


def test_a_folder_without_events_is_named(tmp_path, capsys):
    (tmp_path / "__consumer_offsets-0").mkdir()
    assert cli.main(["groups", "why", "orders", "--log", str(tmp_path)]) == 1
    assert "has no event log (__coordinator_events-N)" in capsys.readouterr().err


def test_a_server_without_events_is_named(coordinator_process, capsys):
    server = coordinator_process(settings={"coordinator.events": "none"})
    assert cli.main(["groups", "why", "orders", "--bootstrap", server.bootstrap]) == 1
    assert "the server has no events" in capsys.readouterr().err


def test_events_that_the_user_may_not_read_are_named(coordinator_process, capsys):
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    server = coordinator_process(settings={"authorizer.class.name": authorizer})
    assert cli.main(["groups", "why", "orders", "--bootstrap", server.bootstrap]) == 1
    assert "an ACL must allow this user to READ the events of the server" in capsys.readouterr().err


def test_a_group_that_does_not_rebalance_is_said_so(coordinator_process, capsys):
    server = coordinator_process()
    with Connection(server.bootstrap) as connection:
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        connection.call("CreateTopics", 5, topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1,
                                                    "assignments": [], "configs": []}], timeout_ms=9_000)  # fmt: skip
        connection.call("OffsetCommit", 8, group_id="quiet", topics=[{"name": "t", "partitions": [partition]}])
    assert cli.main(["groups", "why", "quiet", "--bootstrap", server.bootstrap]) == 0
    assert "quiet has not rebalanced in the last" in capsys.readouterr().out


# --- groups with epochs -------------------------------------------------------------------------------------------------


def test_a_consumer_group_has_the_same_kinds_of_causes():
    h = ConsumerHarness()
    stable, silent, guest = Modern(h, "stable"), Modern(h, "silent"), Modern(h, "guest")
    settle(h, [stable], 3)
    settle(h, [stable, silent], 8)
    for _ in range(60):
        stable.beat()
        h.advance(INTERVAL_MS)
    settle(h, [stable, silent], 8)
    settle(h, [stable, silent, guest], 8)
    guest.h.beat("g", "guest", -1)
    settle(h, [stable, silent], 8)
    opened = GroupEvent(type="EventLogOpened", offset=0, time_ms=0)
    events = [opened, *(event for event in map(decoded, range(1, 10**6), encoded_events(h)) if event is not None)]
    events = [replace(each, client_id=each.member_id) if each.type == "MemberJoined" else each for each in events]
    findings = find_causes("g", events, events[1].time_ms, h.now_ms)
    assert [(each.text, each.client and each.client.client_id, each.rebalances) for each in findings.causes] == [
        ("falls silent for 61 s (session timeout 45 s)", "silent", 2),
        ("joins and leaves", "guest", 2),
        ("joins", "silent", 1),
        ("the group starts", None, 1),
    ]
    assert {each.client.client_id: (each.joined, each.left, each.expired, each.members) for each in findings.clients} == {
        "stable": (1, 0, 0, 1), "silent": (2, 0, 1, 1), "guest": (1, 1, 0, 0),
    }  # fmt: skip


def encoded_events(h):
    """(type, value) of each event of the harness, as in the log."""
    return [(record.key.NAME.removesuffix("Key"), h.event_serde.encode(record)[1]) for record in h.events]


def decoded(offset, kind_and_value):
    kind, value = kind_and_value
    return group_event(kind, offset, value) if kind in TYPES else None


# --- single rules -------------------------------------------------------------------------------------------------------

_TIMES = iter(range(10**9))


def event(kind, time_s, member="", **fields):
    return GroupEvent(type=kind, offset=next(_TIMES), time_ms=round(time_s * 1000), member_id=member, **fields)


def joined(time_s, member, client, **fields):
    return event("MemberJoined", time_s, member, client_id=client, client_host=f"/{client}-host", **fields)


def started(time_s, epoch, member, cause="?"):
    return event("RebalanceStarted", time_s, member, epoch=epoch, cause=cause)


def completed(time_s, epoch, *waited, **fields):
    return event("RebalanceCompleted", time_s, epoch=epoch, waited_for=waited, members=2, **fields)


def found(*events, to_s=100):
    return find_causes("g", events, 0, to_s * 1000)


def test_overlapping_epochs_are_counted_once():
    findings = found(
        joined(1, "a", "x"), started(1, 2, "a"), joined(5, "b", "y"), started(5, 3, "b"),
        completed(11, 2, ("a", 10_000)), completed(11, 3, ("a", 6_000), ("b", 6_000)),
    )  # fmt: skip
    assert findings.rebalancing_ms == 10_000
    waited = {each.client.client_id: each.waited_ms for each in findings.clients}
    assert waited == {"x": 10_000, "y": 6_000}
    assert union_ms([(0, 5), (3, 4), (10, 12)]) == 7


def test_undone_events_did_not_happen():
    first = joined(1, "a", "x")
    again = event("EventLogOpened", 3, undone_from_offset=first.offset + 1)
    lost = event("RebalanceStarted", 2, "a", epoch=9)
    assert found(first, lost, again).rebalances == []


def test_a_rebalance_ends_with_the_process():
    opened = event("EventLogOpened", 50)
    findings = found(joined(1, "a", "x"), started(1, 2, "a"), joined(8, "b", "x"), opened)
    assert findings.rebalancing_ms == 7_000, "until the last event before the restart"


def closed_for_a_night(cause):
    opened = event("EventLogOpened", 100 + 8 * 3600, cause=cause, previous_ms=100_000)
    events = joined(1, "a", "x"), started(1, 2, "a"), completed(11, 2), started(90, 3, "a"), opened
    return find_causes("g", events, 0, opened.time_ms + 100_000)


def test_the_time_in_which_the_server_was_closed_counts_as_none():
    findings = closed_for_a_night("start")
    assert (findings.rebalancing_ms, findings.unrecorded_ms, findings.share) == (20_000, 8 * HOUR_MS, 0.1)
    assert (
        "10 % of the last 8 h (without 8 h before a start of the server, in which nothing was recorded) rebalancing"
        in sentence(findings)
    )
    assert closed_for_a_night("resume").unrecorded_ms == 0, "only its event log was"


def test_a_restarted_server_and_its_log_agree_on_how_long_it_was_closed(coordinator_process, capsys):
    server = coordinator_process()
    for stop in (server.restart, server.terminate):
        member = Classic(server, "orders")
        member.join()
        live = json.loads(why(capsys, "orders", "--bootstrap", server.bootstrap, "--json"))
        assert view(server, "/v1/groups/orders/why")["unrecorded_ms"] == live["unrecorded_ms"]
        member.connection.call("LeaveGroup", 3, group_id="orders", members=[{"member_id": member.id}])
        member.connection.close()
        stop()
    from_log = json.loads(why(capsys, "orders", "--log", server.data_dir, "--json"))
    assert from_log["unrecorded_ms"] == live["unrecorded_ms"] > 0


def test_the_report_agrees_on_how_long_the_server_was_closed():
    group_data = pytest.importorskip("pyspark_coordinator_log.jobs.group_data")
    joins = {"type": "MemberJoined", "member_id": "a", "client_id": "x", "waited_for": None}
    openings = [
        {"type": "EventLogOpened", "waited_for": None, "cause": "start", "previous_time_ms": before, "time_ms": at}
        | offset
        for before, at, offset in ((None, 0, {"offset": 0}), (9_000, 60_000, {"offset": 2}))
    ]
    events = [joins | {"time_ms": at, "offset": offset} for at, offset in ((1_000, 1), (61_000, 3))]
    data = group_data.GroupData(group={"group": "g"}, events=events, openings=openings)
    assert data.findings.unrecorded_ms == 51_000


def test_a_rebalance_in_progress_lasts_until_now():
    assert found(joined(1, "a", "x"), started(90, 2, "a")).rebalancing_ms == 10_000


def test_members_are_counted_by_client_and_host_even_if_they_joined_earlier():
    member = "billing-12345678-1234-1234-1234-123456789012"
    findings = found(started(1, 5, member, "the leader joins again"), completed(2, 5, (member, 900)))
    (cause,) = findings.causes
    assert (cause.text, cause.client) == ("the leader joins again", Client("billing", ""))


def test_a_consumer_whose_poll_timeout_passes_stops_polling():
    leave = event("MemberLeft", 5, "a", reason="consumer poll timeout has expired.")
    start = event("RebalanceStarted", 5, "a", epoch=3, cause="a member left", reason=leave.reason)
    findings = found(joined(1, "a", "x"), leave, start, completed(6, 3))
    assert findings.causes[0].text == "stops polling for longer than its poll timeout"


def test_the_only_member_of_a_group_that_falls_silent_does_not_start_it_again():
    opened = event("EventLogOpened", 0)
    expired = event("MemberExpired", 50, "a", timeout="session", timeout_ms=10_000)
    findings = found(
        replace(opened, offset=0), joined(1, "a", "x"), started(1, 1, "a"), completed(4, 1),
        expired, started(50, 2, "a"), replace(completed(50, 2), members=0),
        joined(52, "b", "x"), started(52, 3, "b"), completed(55, 3),
    )  # fmt: skip
    assert [(each.text, each.rebalances) for each in findings.causes] == [
        ("falls silent for 12 s (session timeout 10 s)", 2),
        ("the group starts", 1),
    ]


def test_a_static_member_that_comes_back_replaces_its_old_id():
    findings = found(joined(1, "a", "x", instance_id="i"), joined(2, "b", "x", instance_id="i"))
    assert [(each.joined, each.members) for each in findings.clients] == [(2, 1)]


def silence_of(port, end, back_port):
    expired = event("MemberExpired", 50, "a", timeout="session", timeout_ms=10_000, port=port, connection_end=end)
    back = [joined(57, "b", "x", port=back_port)] if back_port else []
    findings = found(joined(1, "a", "x", port=1000), expired, started(50, 2, "a"), completed(50, 2), *back)
    return findings.causes[0].text


@pytest.mark.parametrize(
    ("port", "end", "back_port", "text"),
    [
        (1000, "closed", 0, f"falls silent and does not come back, {KILLED}"),
        (1000, "reset", 2000, f"falls silent for 17 s (session timeout 10 s), {KILLED}"),
        (1000, "", 1000, f"falls silent for 17 s (session timeout 10 s), {PAUSED}"),
        (1000, "", 2000, f"falls silent for 17 s (session timeout 10 s), {CUT_OFF}"),
        (1000, "", 0, f"falls silent and does not come back, {PAUSED_OR_CUT_OFF}"),
        (1000, "idle", 0, "falls silent and does not come back, the server had closed its connection (idle)"),
        (-1, "", 2000, "falls silent for 17 s (session timeout 10 s)"),
    ],
)
def test_the_connection_shows_whether_a_member_was_killed_paused_or_cut_off(port, end, back_port, text):
    assert silence_of(port, end, back_port) == text


@pytest.mark.parametrize(
    ("again", "port", "texts"),
    [
        ("b", 1000, {BACK_ON_ITS_CONNECTION}),
        ("a", -1, {BACK_ON_ITS_CONNECTION}),
        ("b", 2000, {"joins and leaves"}),
        ("b", -1, {"joins and leaves"}),
    ],
)
def test_a_departure_without_a_reason_is_a_consumer_that_stops_polling_if_its_process_comes_back(again, port, texts):
    findings = found(
        joined(0, "first", "y"), joined(1, "a", "x", port=1000),
        event("MemberLeft", 9, "a"), started(9, 2, "a"), completed(9, 2),
        joined(30, again, "x", port=port), started(30, 3, again), completed(31, 3),
    )  # fmt: skip
    assert {each.text for each in findings.causes} == texts
    assert [each.rebalances for each in findings.causes] == [2]


def rolled(pairs, pause_s=20, stays=(), restarts=2):
    """Members that leave and come back as others, one after another."""
    events = [replace(event("EventLogOpened", 0), offset=0)]
    events += [joined(1, name, "api") for name in (*(old for old, _ in pairs), *stays)]
    events += [started(1, 1, pairs[0][0]), completed(2, 1)]
    at, epoch = 100, 2
    for old, new in pairs:
        events += [event("MemberLeft", at, old), started(at, epoch, old), completed(at + 1, epoch)]
        events += [joined(at + restarts, new, "api"), started(at + restarts, epoch + 1, new)]
        events += [completed(at + restarts + 1, epoch + 1)]
        at, epoch = at + pause_s, epoch + 2
    return {
        (each.kind, each.rebalances, each.client and each.client.client_id)
        for each in found(*events, to_s=9_999).causes
    }


def test_a_rollout_is_one_cause_with_its_rebalances_counted_and_no_culprit():
    pairs = [("a", "A"), ("b", "B"), ("c", "C")]
    assert rolled(pairs) == {("the group starts", 1, None), ("rollout", 6, None)}
    assert rolled(pairs, stays=("d",)) == {("the group starts", 1, None), ("rollout", 6, None)}


@pytest.mark.parametrize(
    ("arguments"),
    [
        {"pairs": [("a", "A"), ("b", "B")], "stays": ("c", "d")},
        {"pairs": [("a", "A"), ("b", "B"), ("c", "C")], "pause_s": 3_000},
        {"pairs": [("a", "A"), ("b", "B"), ("c", "C")], "pause_s": 1, "restarts": 10},
        {"pairs": [("a", "a"), ("b", "b"), ("c", "c")]},
    ],
    ids=["half of the members", "hours between them", "all stop and then all start", "none is another process"],
)
def test_members_that_are_not_replaced_one_after_another_are_no_rollout(arguments):
    assert "rollout" not in {kind for kind, _, _ in rolled(**arguments)}


@pytest.mark.parametrize(
    ("cause", "reason", "kind"),
    [
        ("a subscribed topic changed", "", "topic"),
        (
            "the leader joins again",
            "cached metadata has changed from ({orders=2}) to ({orders=4})",
            "topic",
        ),
        ("an administrator removed a member", "scale down; asked for by User:ops, admin on 10.0.0.9", "administrator"),
        ("an administrator forced a rebalance", "", "administrator"),
        ("the leader joins again", "", "other"),
    ],
)
def test_a_topic_and_an_administrator_are_causes_and_no_client_is_blamed(cause, reason, kind):
    start = replace(started(9, 2, "a", cause), reason=reason)
    (only,) = found(joined(1, "a", "x"), start, completed(10, 2)).causes
    assert only.kind == kind
    assert only.client == (Client("x", "/x-host") if kind == "other" else None)
    assert reason in only.text


def test_an_id_of_which_nobody_knows_the_client_is_no_client():
    findings = found(joined(1, "a", "x"), started(9, 2, "instance-7"), completed(10, 2, ("PZxq-short-uuid", 700)))
    assert [each.client.client_id for each in findings.clients] == ["x"]
    assert [each.client for each in findings.causes] == [None]
