"""A group at an offset of its log, and what has changed between two: `?at=` and `?diff=`."""

from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from coordinator.admin.history import differences
from tests.admin.acting_world import SETTINGS, commit, member
from tests.support.admin_client import act, ask, view
from tests.support.group_members import KINDS, Classic, Consumer
from tests.support.server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("history"), settings=SETTINGS).start() as server:
        yield server


def end(server: ServerProcess) -> int:
    """The offset of the next record in the log of all groups."""
    last: int = view(server, "/v1/groups/nobody?at=0")["at"]["last_offset"]
    return last


def at(server: ServerProcess, group: str, offset: int) -> Any:
    return view(server, f"/v1/groups/{group}?at={offset}")


@pytest.mark.parametrize("kind", KINDS)
def test_every_moment_of_a_group_can_be_seen_again(server: ServerProcess, closing: ExitStack, kind: Any) -> None:
    group = f"{kind.kind}-past"
    start = end(server)
    one = member(server, kind, group, closing)
    joined = end(server)
    now = view(server, f"/v1/groups/{group}")
    act(server, f"/v1/groups/{group}/bump-epoch")
    bumped = end(server)
    act(server, f"/v1/groups/{group}/members/{one.id}/evict")
    assert at(server, group, start)["state"] == "Dead"
    then = at(server, group, joined)
    for field in ("kind", "state", "generation", "member_count", "committed"):
        assert then[field] == now[field], field
    assert [each["member_id"] for each in then["members"]] == [one.id]
    assert at(server, group, bumped)["generation"] == now["generation"] + 1
    assert at(server, group, end(server))["member_count"] == 0
    assert then["at"]["is_complete"] and then["at"]["offset"] == joined


def test_the_state_offset_of_an_event_shows_the_group_that_it_was_decided_on(
    server: ServerProcess, closing: ExitStack
) -> None:
    member(server, Consumer, "events", closing)
    one = member(server, Consumer, "events", closing, instance_id="i")
    act(server, f"/v1/groups/events/members/{one.id}/evict", reason="a test")
    events = view(server, "/v1/events/page?group=events&limit=100")["events"]
    left = next(event for event in events if event["type"] == "MemberLeft")
    assert {each["member_id"] for each in at(server, "events", left["state_offset"])["members"]} >= {one.id}
    assert left["reason"].endswith("a test; asked for by admin HTTP from 127.0.0.1")


def test_a_diff_names_what_has_changed_and_nothing_else(server: ServerProcess) -> None:
    commit(server, "offsets", "t")
    first = end(server)
    commit(server, "offsets", "u")
    shown = view(server, f"/v1/groups/offsets?diff={first},{end(server)}")
    added = {"path": "committed[u-0]", "before": None}
    assert [change | {"after": None} for change in shown["changes"] if change["path"] == added["path"]] == [
        added | {"after": None}
    ]
    assert {change["path"] for change in shown["changes"]} == {"offset_count", "committed[u-0]"}
    assert (shown["since"]["offset"], shown["at"]["offset"]) == (first, end(server))


def test_what_is_only_in_the_journal_is_part_of_the_history_also_after_kill_9(
    coordinator_process: Any, closing: ExitStack
) -> None:
    server = coordinator_process(settings=SETTINGS)
    one = member(server, Classic, "g", closing)
    last = end(server)
    before = at(server, "g", last)
    server.restart(kill=True)
    after = at(server, "g", last)
    assert before["members"] == after["members"]
    assert before["members"][0]["member_id"] == one.id


def test_offsets_that_the_log_does_not_have_are_refused_with_those_that_it_has(server: ServerProcess) -> None:
    status, answer = ask(server, "GET", f"/v1/groups/g?at={end(server) + 1}")
    assert (status, answer["detail"]) == (422, f"the log of the group's shard has the offsets from 0 to {end(server)}")


def test_differences_are_found_by_name_and_not_by_place() -> None:
    before = {"members": [{"member_id": "a", "x": 1}, {"member_id": "b", "x": 1}], "state": "Stable", "old": [1]}
    after = {"members": [{"member_id": "b", "x": 2}, {"member_id": "c", "x": 1}], "state": "Stable", "old": [2]}
    assert [tuple(each) for each in differences(before, after)] == [
        ("members[a]", {"member_id": "a", "x": 1}, None),
        ("members[b].x", 1, 2),
        ("members[c]", None, {"member_id": "c", "x": 1}),
        ("old", [1], [2]),
    ]


def test_why_a_group_rebalances_and_which_offsets_went_back_is_known_also_after_a_restart(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, settings=SETTINGS).start() as server, ExitStack() as closing:
        one = member(server, Consumer, "why-now", closing)
        for offset in (50, 18):
            partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
            one.connection.call(
                "OffsetCommit", 9, group_id="why-now", member_id=one.id, generation_id_or_member_epoch=one.epoch,
                topics=[{"name": "t", "partitions": [partition]}],
            )  # fmt: skip
        act(server, "/v1/groups/why-now/bump-epoch")
        first = view(server, "/v1/groups/why-now/why")
        closing.close()
        server.restart(kill=True)
        again = view(server, "/v1/groups/why-now/why")
        assert ask(server, "GET", "/v1/groups/nobody/why")[0] == HTTPStatus.NOT_FOUND
    assert {each["kind"] for each in first["causes"]} == {"the group starts", "administrator"}
    assert [each["joined"] for each in first["clients"]] == [1]
    (back,) = first["rewound_offsets"]
    assert (back["previous"], back["offset"], back["records"], back["owner_id"]) == (50, 18, 32, one.id)
    assert "Offsets went back, so that 32 records come again" in first["sentence"]
    assert {each["cause"] for each in again["causes"]} == {each["cause"] for each in first["causes"]}
    assert again["rewound_offsets"] == first["rewound_offsets"]
