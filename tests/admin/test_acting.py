"""Acts on groups of every kind over admin HTTP, on raw frames; after kill -9 the effect is as it was acknowledged."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import pytest

from tests.admin.acting_world import SETTINGS, Kind, commit, member
from tests.support.admin_client import act, ask, view
from tests.support.group_members import (
    ILLEGAL_GENERATION,
    KINDS,
    LOAD_IN_PROGRESS,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
    Classic,
    Consumer,
)
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("acting"), settings=SETTINGS).start() as server:
        yield server


def path(member: Any, *rest: str) -> str:
    return "/".join((f"/v1/groups/{member.group}", *rest))


@pytest.mark.parametrize("how", ["evict", "expire-session"])
@pytest.mark.parametrize("instance_id", [None, "i"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_removed_member_gets_what_kafka_answers_an_unknown_one(
    server: ServerProcess, closing: ExitStack, kind: Kind, how: str, instance_id: str | None
) -> None:
    gone = member(server, kind, f"{kind.kind}-{how}-{instance_id}", closing, instance_id=instance_id)
    done = act(server, path(gone, "members", quote(gone.id, safe=""), how))
    assert (done["group_id"], done["member_id"], done["kind"]) == (gone.group, gone.id, kind.kind)
    assert (done["state"], done["epoch"]) == ("Empty", gone.epoch + 1)
    assert gone.beat() == UNKNOWN_MEMBER_ID
    assert view(server, path(gone))["member_count"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_bumped_epoch_is_the_next_one_with_the_same_members(
    server: ServerProcess, closing: ExitStack, kind: Kind
) -> None:
    stays = member(server, kind, f"{kind.kind}-bump", closing)
    before = stays.epoch
    done = act(server, path(stays, "bump-epoch"), reason="a test")
    assert done["epoch"] == before + 1
    assert view(server, path(stays))["member_count"] == 1
    if kind is Classic:
        assert stays.beat() == ILLEGAL_GENERATION
    else:
        assert (stays.beat(), stays.epoch) == (NONE, before + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_act_is_as_acknowledged_after_kill_9(coordinator_process: Any, closing: ExitStack, kind: Kind) -> None:
    server = coordinator_process(settings=SETTINGS)
    groups = {how: member(server, kind, how, closing) for how in ("evict", "expire-session", "bump-epoch")}
    for how in ("evict", "expire-session"):
        act(server, path(groups[how], "members", groups[how].id, how))
    bumped = act(server, path(groups["bump-epoch"], "bump-epoch"))
    server.restart(kill=True)
    for how in ("evict", "expire-session"):
        assert view(server, path(groups[how]))["member_count"] == 0
    shown = view(server, path(groups["bump-epoch"]))
    assert (shown["member_count"], shown["generation"]) == (1, bumped["epoch"])


def test_a_member_of_a_larger_classic_group_stays_evicted_after_kill_9(
    coordinator_process: Any, closing: ExitStack
) -> None:
    server = coordinator_process(settings=SETTINGS)
    first = member(server, Classic, "g", closing, instance_id="first")
    second = Classic(server, "g", "second")
    closing.callback(second.connection.close)
    second.send_join()
    wait_until(lambda: view(server, "/v1/groups/g")["member_count"] == 2, lambda: "the second member")
    first.send_join()
    answers = [each.connection.receive() for each in (first, second)]
    first.id, second.id = (answer["member_id"] for answer in answers)
    assert [answer["generation_id"] for answer in answers] == [2, 2]
    act(server, f"/v1/groups/g/members/{second.id}/evict")
    server.restart(kill=True)
    assert [each["member_id"] for each in view(server, "/v1/groups/g")["members"]] == [first.id]


def test_offsets_expire_by_topic_and_a_group_goes_with_its_last_one(server: ServerProcess) -> None:
    commit(server, "offsets", "t", "u")
    done = act(server, "/v1/groups/offsets/offsets/expire", topics=["u", "none"])
    assert done == {"group_id": "offsets", "expired": 1, "kept": [], "group_deleted": False}
    assert [each["topic"] for each in view(server, "/v1/groups/offsets")["committed"]] == ["t"]
    assert act(server, "/v1/groups/offsets/offsets/expire")["group_deleted"]
    assert ask(server, "GET", "/v1/groups/offsets")[0] == 404


def test_offsets_that_retention_would_keep_stay(server: ServerProcess, closing: ExitStack) -> None:
    reads = member(server, Consumer, "reads", closing)
    with Connection(server.bootstrap) as connection:
        connection.call(
            "OffsetCommit", 9, group_id="reads", generation_id_or_member_epoch=reads.epoch, member_id=reads.id,
            topics=[{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 5}]} for topic in "tu"],
        )  # fmt: skip
    done = act(server, "/v1/groups/reads/offsets/expire")
    kept = [{"topic": "t", "partition": 0, "why": "the group's members read it"}]
    assert (done["expired"], done["kept"], done["group_deleted"]) == (1, kept, False)


def fetch_offsets(member: Any) -> int:
    """The error of OffsetFetch for the member's group."""
    answer = member.connection.call("OffsetFetch", 8, groups=[{"group_id": member.group, "topics": None}])
    error: int = answer["groups"][0]["error_code"]
    return error


@pytest.mark.parametrize("kind", KINDS)
def test_a_reload_is_a_failover(server: ServerProcess, closing: ExitStack, kind: Kind) -> None:
    """Parked requests get NOT_COORDINATOR, others LOAD_IN_PROGRESS, and then the group is what the log says."""
    parked = Classic(server, f"parked-{kind.kind}", rebalance_timeout_ms=60_000)
    closing.callback(parked.connection.close)
    parked.join()
    other = Classic(server, parked.group, "other")
    closing.callback(other.connection.close)
    other.send_join()
    wait_until(lambda: view(server, path(parked))["member_count"] == 2, lambda: "the parked join")
    stays = member(server, kind, f"{kind.kind}-reload", closing)
    act(server, "/v1/clock", mode="manual")
    try:
        done = act(server, path(stays, "reload"), for_ms=500)
        assert (done["shard"], done["refused"]) == (0, 1)
        assert other.connection.receive()["error_code"] == NOT_COORDINATOR
        # Kafka's coordinator answers NONE to heartbeats of classic members while it loads.
        assert (stays.beat(), fetch_offsets(stays)) == (NONE if kind is Classic else LOAD_IN_PROGRESS, LOAD_IN_PROGRESS)
        act(server, "/v1/clock", advance_ms=499)
        assert fetch_offsets(stays) == LOAD_IN_PROGRESS
        act(server, "/v1/clock", advance_ms=1)
        assert fetch_offsets(stays) == NONE
    finally:
        act(server, "/v1/clock", mode="real")
    assert stays.beat() == NONE
    assert view(server, path(stays))["member_count"] == 1


def test_a_transaction_expires_and_its_producer_is_fenced(server: ServerProcess, closing: ExitStack) -> None:
    connection = closing.enter_context(Connection(server.bootstrap))

    def begin() -> dict[str, Any]:
        made = connection.call("InitProducerId", 4, transactional_id="tx", transaction_timeout_ms=60_000)
        added = connection.call(
            "AddPartitionsToTxn", 3, v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=made["producer_id"], v3_and_below_producer_epoch=made["producer_epoch"],
            v3_and_below_topics=[{"name": "t", "partitions": [0]}],
        )  # fmt: skip
        assert added["results_by_topic_v3_and_below"][0]["results_by_partition"][0]["partition_error_code"] == NONE
        return made

    producer = begin()
    act(server, "/v1/transactions/tx/reload")
    assert view(server, "/v1/transactions/tx")["state"] == "Ongoing"
    assert act(server, "/v1/transactions/tx/expire") == {"transactional_id": "tx", "aborted": True}
    wait_until(lambda: view(server, "/v1/transactions/tx")["state"] == "CompleteAbort", lambda: "the markers")
    ended = connection.call(
        "EndTxn", 3, transactional_id="tx", producer_id=producer["producer_id"],
        producer_epoch=producer["producer_epoch"], committed=True,
    )  # fmt: skip
    assert ended["error_code"] == 90  # PRODUCER_FENCED
    assert ask(server, "POST", "/v1/transactions/tx/expire", {})[0] == 409
    assert ask(server, "POST", "/v1/transactions/none/expire", {})[0] == 404


def test_acts_on_what_is_not_there_or_cannot_be_are_refused(server: ServerProcess, closing: ExitStack) -> None:
    alone = member(server, Classic, "refusals", closing)
    refused = {
        "/v1/groups/none/members/m/evict": 404,
        path(alone, "members", "nobody", "evict"): 404,
        path(alone, "members", "nobody", "expire-session"): 404,
        "/v1/groups/none/bump-epoch": 404,
        "/v1/groups/none/offsets/expire": 404,
    }
    assert {each: ask(server, "POST", each, {})[0] for each in refused} == refused
    act(server, path(alone, "members", alone.id, "evict"))
    status, answer = ask(server, "POST", path(alone, "bump-epoch"), {})
    assert (status, answer["detail"]) == (409, "the group has no members; it is Empty")
    assert ask(server, "POST", path(alone, "bump-epoch"), {"reason": "two\nlines"})[0] == 422


def test_without_control_nobody_may_act(coordinator_process: Any) -> None:
    server = coordinator_process(settings=SETTINGS | {"admin.control.enable": False})
    for each in ("/v1/groups/g/bump-epoch", "/v1/groups/g/reload", "/v1/clock", "/v1/transactions/tx/expire"):
        status, answer = ask(server, "POST", each, {})
        assert (status, "admin.control.enable" in answer["detail"]) == (403, True)
