"""OffsetDelete, DeleteGroups and deleted topics: what may be deleted, and what is left."""

from collections import deque
from functools import partial

import pytest

from coordinator.groups.classic.states import State
from coordinator.groups.offsets import value as values
from coordinator.groups.offsets.delete import PIECE_OFFSETS, delete, topics_deleted
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.requests import offset_delete
from coordinator.requests.offset_delete import PIECE_ELEMENTS
from tests.groups.offsets.group_states import emptied_group, live_group
from tests.groups.offsets.offset_coordinator import OffsetCoordinator

P0 = ("topic", 0)
P1 = ("topic", 1)
OTHER = ("other", 0)
OK = ErrorCode.NONE


@pytest.fixture
def coordinator() -> OffsetCoordinator:
    coordinator = OffsetCoordinator()
    coordinator.topics.add("topic", 4)
    coordinator.topics.add("other", 4)
    return coordinator


def codes(answer):
    return {(topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions}


# --- OffsetDelete -----------------------------------------------------------------------------------------------------


def test_an_unknown_group_has_nothing_to_delete(coordinator):
    answer = coordinator.delete_offsets("g", [P0, ("nowhere", 0)])
    assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_the_empty_group_id_is_invalid_here(coordinator):
    coordinator.commit("", {P0: 1})
    assert coordinator.delete_offsets("", [P0]).error_code == ErrorCode.INVALID_GROUP_ID


def test_deleting_a_missing_offset_returns_no_error(coordinator):
    coordinator.commit("g", {P0: 1, OTHER: 2})
    answer = coordinator.delete_offsets("g", [("topic", 50), P0, P1, P0])
    assert answer.error_code == OK
    assert list(codes(answer).items()) == [(("topic", 50), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (P0, OK), (P1, OK)]
    assert coordinator.fetch("g") == {OTHER: 2}
    assert len(coordinator.log) == 3


@pytest.fixture
def large(coordinator):
    """A group with more offsets than are deleted in one piece; `asked` are more partitions still."""
    coordinator.topics.add("wide", 3 * PIECE_ELEMENTS)
    offsets = {("wide", index): 1 for index in range(3 * PIECE_ELEMENTS)}
    coordinator.commit("g", offsets)
    return [("nowhere", 0), *offsets, ("wide", 10_000), P0]


def test_a_large_request_is_answered_like_small_ones(coordinator, large):
    answer = coordinator.delete_offsets("g", large)
    missing = dict.fromkeys([("nowhere", 0), ("wide", 10_000)], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert (answer.error_code, codes(answer)) == (OK, dict.fromkeys(large, OK) | missing)
    assert [topic.name for topic in answer.topics] == ["nowhere", "wide", "topic"]
    assert coordinator.fetch("g") == {}
    coordinator.restart()
    assert set(coordinator.state.by_id) == {"g"}


def test_a_large_request_to_an_unknown_group_has_one_error(coordinator, large):
    answer = coordinator.delete_offsets("h", large)
    assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_a_group_that_begins_to_protect_its_offsets_refuses_the_rest(coordinator, large, monkeypatch):
    asked = []

    def change_in_between(groups, request, context, now_ms):
        asked.append(request)
        if len(asked) > 1:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        return delete(groups, request, context, now_ms)

    monkeypatch.setattr(offset_delete, "delete", change_in_between)
    answer = coordinator.delete_offsets("g", large)
    assert (answer.error_code, len(asked)) == (OK, 4)
    found = codes(answer)
    deleted = [key for key in large if found[key] == OK]
    assert found[P0] == ErrorCode.NON_EMPTY_GROUP
    assert 0 < len(deleted) <= PIECE_ELEMENTS
    assert coordinator.fetch("g").keys() == set(large[1:-2]) - set(deleted)


def test_a_live_group_protects_the_topics_it_subscribes_to(coordinator):
    live_group(coordinator, "g", topics=("topic",))
    coordinator.commit("g", {P0: 1, OTHER: 2}, member_id="member", generation=5)
    answer = coordinator.delete_offsets("g", [P0, ("nowhere", 0), OTHER])
    assert list(codes(answer).items()) == [
        (("nowhere", 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (P0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        (OTHER, OK),
    ]
    assert coordinator.fetch("g") == {P0: 1}


def test_an_unreadable_subscription_protects_every_topic(coordinator):
    live_group(coordinator, "g", topics=None)
    coordinator.commit("g", {OTHER: 2}, member_id="member", generation=5)
    assert codes(coordinator.delete_offsets("g", [OTHER])) == {OTHER: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


@pytest.mark.parametrize("state", [State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE])
def test_a_live_group_of_another_protocol_type_returns_non_empty_group(coordinator, state):
    live_group(coordinator, "g", state, protocol_type="connect")
    assert coordinator.delete_offsets("g", [P0]).error_code == ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
def test_offsets_of_an_empty_group_of_any_type_are_deleted(coordinator, protocol_type):
    emptied_group(coordinator, "g", protocol_type=protocol_type)
    coordinator.commit("g", {P0: 1})
    assert codes(coordinator.delete_offsets("g", [P0])) == {P0: OK}
    assert coordinator.fetch("g") == {}


def test_a_simple_group_outlives_its_last_offset_and_a_restart(coordinator):
    coordinator.commit("g", {P0: 1, P1: 2})
    coordinator.delete_offsets("g", [P0])
    coordinator.delete_offsets("g", [P1])
    for _ in range(2):
        assert codes(coordinator.delete_offsets("g", [P0])) == {P0: OK}
        assert coordinator.state.by_id["g"].protocol_type is None
        coordinator.restart()
    coordinator.pass_time(coordinator.config.offsets_retention_check_interval_ms)
    assert coordinator.state.by_id == {}


# --- DeleteGroups -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_each_group_gets_its_own_result(coordinator, version):
    live_group(coordinator, "live")
    coordinator.commit("simple", {P0: 1})
    coordinator.commit("", {P0: 1})
    emptied_group(coordinator, "empty")
    results = coordinator.delete_groups("live", "nobody", "simple", "", "empty", "simple", version=version)
    assert results == [
        ("live", ErrorCode.NON_EMPTY_GROUP),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ("simple", OK),
        ("", OK),
        ("empty", OK),
    ]
    assert set(coordinator.state.by_id) == {"live"}
    assert coordinator.state.offsets.count == 0


def test_the_errors_of_delete_groups_have_no_message(coordinator):
    answer = coordinator.ask("DeleteGroups", 3, groups_names=["nobody"])
    assert answer.results[0].error_message is None


def test_a_deleted_group_stays_deleted(coordinator):
    emptied_group(coordinator, "g")
    coordinator.commit("g", {P0: 1, P1: 2})
    coordinator.delete_groups("g")
    coordinator.restart()
    assert coordinator.fetch("g") == {}
    assert coordinator.state.by_id == {}


def test_a_deleted_group_can_be_used_again(coordinator):
    coordinator.commit("g", {P0: 1})
    coordinator.delete_groups("g")
    coordinator.commit("g", {P1: 2})
    coordinator.restart()
    assert coordinator.fetch("g") == {P1: 2}


def test_groups_of_many_shards_are_deleted_in_one_request():
    coordinator = OffsetCoordinator(shards=4)
    coordinator.topics.add("topic", 1)
    names = [f"group-{number}" for number in range(12)]
    for name in names:
        coordinator.commit(name, {P0: 1})
    assert coordinator.delete_groups(*names) == [(name, OK) for name in names]
    assert all(not shard.state.by_id for shard in coordinator.shards)


def test_a_refusal_names_every_group(coordinator):
    coordinator.refusing = ErrorCode.NOT_COORDINATOR
    refused = ErrorCode.NOT_COORDINATOR
    assert coordinator.delete_groups("a", "b") == [("a", refused), ("b", refused)]
    assert coordinator.delete_offsets("a", [P0]).error_code == refused


# --- deleted topics ---------------------------------------------------------------------------------------------------


def delete_topic(coordinator, name, topic_id):
    """Deletes the offsets of a topic; returns the number of later pieces."""
    waiting = deque()
    shard = coordinator.shards[0]
    shard.run_internal(partial(topics_deleted, {name: topic_id}, waiting.append))
    pieces = 0
    while waiting:
        pieces += sum(1 for _ in waiting.popleft())
    return pieces


def test_offsets_are_deleted_with_their_topic(coordinator):
    coordinator.commit("g", {P0: 1, P1: 1, OTHER: 2})
    coordinator.commit("h", {P0: 1})
    topic_id = coordinator.topics.topic_id("topic")
    delete_topic(coordinator, "topic", topic_id)
    assert (coordinator.fetch("g"), coordinator.fetch("h")) == ({OTHER: 2}, {})
    coordinator.restart()
    assert set(coordinator.state.by_id) == {"g", "h"}


def test_many_offsets_of_a_deleted_topic_are_deleted_in_pieces(coordinator):
    coordinator.topics.add("wide", 900)
    for group_id in "gh":
        coordinator.commit(group_id, {OTHER: 2, **{("wide", index): 1 for index in range(900)}})
    coordinator.stage("g", {("wide", 1): 3})
    pieces = delete_topic(coordinator, "wide", coordinator.topics.topic_id("wide"))
    assert pieces >= 2 * 900 // PIECE_OFFSETS - 1
    assert coordinator.fetch("g") == coordinator.fetch("h") == {OTHER: 2}
    assert not coordinator.state.offsets.pending.by_group


def test_groups_without_offsets_of_a_deleted_topic_are_looked_through_in_pieces(coordinator):
    coordinator.topics.add("wide", 900)
    for number in range(30):
        coordinator.commit(f"g{number}", {("wide", index): 1 for index in range(900)})
    assert delete_topic(coordinator, "topic", coordinator.topics.topic_id("topic")) > 1
    assert coordinator.state.offsets.count == 27_000


def test_a_deleted_topic_costs_no_look_into_the_offsets_of_others(coordinator, monkeypatch):
    """A request deletes thousands of topics beside groups with thousands of offsets."""
    coordinator.commit("g", {OTHER: 2, **{("topic", index): 1 for index in range(4)}})
    decoded, decode = [], values.decode
    monkeypatch.setattr(values, "decode", lambda stored: decoded.append(stored) or decode(stored))
    delete_topic(coordinator, "other", coordinator.topics.topic_id("other"))
    assert len(decoded) == 1
    assert OTHER not in coordinator.fetch("g")


def test_offsets_of_a_new_topic_of_the_same_name_stay(coordinator):
    old_id = coordinator.topics.topic_id("topic")
    coordinator.commit("g", {P0: 1})
    coordinator.topics.add("topic", 4, topic_id=(77).to_bytes(16, "big"))
    coordinator.commit("g", {P1: 1})
    delete_topic(coordinator, "topic", old_id)
    assert coordinator.fetch("g") == {P1: 1}


# --- pending offsets --------------------------------------------------------------------------------------------------


def test_a_pending_offset_is_deleted_too_and_its_marker_has_no_effect(coordinator):
    coordinator.commit("g", {P0: 1})
    coordinator.stage("g", {P0: 2, P1: 3})
    assert codes(coordinator.delete_offsets("g", [P0])) == {P0: OK}
    coordinator.end("g", commits=True)
    assert coordinator.fetch("g") == {P1: 3}


def test_a_simple_group_outlives_its_last_pending_offset_too(coordinator):
    coordinator.stage("g", {P0: 2})
    coordinator.delete_offsets("g", [P0])
    coordinator.restart()
    assert set(coordinator.state.by_id) == {"g"}


def test_a_group_is_deleted_with_its_pending_offsets(coordinator):
    coordinator.commit("g", {P0: 1})
    coordinator.stage("g", {P0: 2, P1: 3})
    assert coordinator.delete_groups("g") == [("g", OK)]
    assert coordinator.delete_groups("g") == [("g", ErrorCode.GROUP_ID_NOT_FOUND)]
    coordinator.end("g", commits=True)
    coordinator.restart()
    assert coordinator.fetch("g") == {}
    assert coordinator.state.by_id == {}


def test_pending_offsets_of_a_deleted_topic_are_deleted_but_not_of_its_namesake(coordinator):
    old = coordinator.topics.topic_id("topic")
    coordinator.stage("g", {P0: 1, OTHER: 1})
    coordinator.topics.add("topic", 4, topic_id=(77).to_bytes(16, "big"))
    coordinator.stage("g", {P1: 2})
    delete_topic(coordinator, "topic", old)
    coordinator.end("g", commits=True)
    assert coordinator.fetch("g") == {P1: 2, OTHER: 1}
