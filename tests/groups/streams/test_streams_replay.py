"""The log of a streams group brings its state back, in any order of records and however much was cleaned."""

import random
from itertools import permutations

import pytest

from coordinator.groups.machine import GroupMachine
from coordinator.groups.settings import GroupsConfig
from coordinator.groups.streams.group import State
from coordinator.groups.streams.member import MemberState
from coordinator.protocol.messages import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)
from coordinator.runtime.result import Record
from tests.groups.consumer.consumer_world import cleaned, compacted
from tests.groups.streams.streams_world import INTERVAL_MS, STATEFUL, StreamsHarness, Thread, assert_sound, settle
from tests.support.catalog import Catalog

_Tasks = StreamsGroupCurrentMemberAssignmentValue.TaskIds


@pytest.fixture
def h():
    """A group whose log has a record of every type."""
    h = StreamsHarness(group_streams_num_standby_replicas=1)
    threads = [
        Thread(h, "a", process="p", sent=STATEFUL, endpoint=("here", 9)),
        Thread(h, "b", process="q", sent=STATEFUL, instance="i"),
        Thread(h, "c", process="q", sent=STATEFUL),
    ]
    settle(h, threads, 8)
    threads[2].leave()
    threads[1].leave(-2)
    threads[0].beat()
    return h


def test_a_restart_restores_the_durable_state(h):
    before = h.durable()
    h.restart()
    assert h.durable() == before
    assert_sound(h)


def test_a_compacted_log_gives_the_same_state(h):
    assert h.durable(compacted(h.records)) == h.durable()
    for seed in range(20):
        assert h.durable(cleaned(h, random.Random(seed))) == h.durable()


def test_records_that_are_read_twice_change_nothing(h):
    assert h.durable([*h.records, *h.records]) == h.durable()


def test_records_of_a_first_join_may_be_replayed_in_any_order():
    h = StreamsHarness()
    h.arrive()
    expected = h.durable()
    for order in permutations(h.records):
        assert h.durable(order) == expected


@pytest.mark.parametrize(
    "key",
    [
        StreamsGroupMemberMetadataKey("g", "m"),
        StreamsGroupCurrentMemberAssignmentKey("g", "m"),
        StreamsGroupTargetAssignmentMemberKey("g", "m"),
        StreamsGroupTargetAssignmentMetadataKey("g"),
        StreamsGroupMetadataKey("g"),
        StreamsGroupTopologyKey("g"),
    ],
)
def test_a_tombstone_of_something_unknown_has_no_effect(key):
    groups = GroupMachine(GroupsConfig(), Catalog({}))
    groups.replay(Record(key, None))
    assert groups.by_id == {}


def test_the_tombstone_of_a_members_metadata_alone_frees_its_tasks():
    h = StreamsHarness()
    h.arrive()
    h.groups.replay(Record(StreamsGroupMemberMetadataKey("g", "m"), None))
    assert h.streams().members == h.streams().active == {}


def test_a_static_member_can_rejoin_after_a_crash(h):
    h.restart()
    h.advance(INTERVAL_MS)
    request = h.arrive("d", instance="i", process="q", sent=STATEFUL)
    assert request.ok
    assert h.streams().members.keys() == {"a", "d"}


def test_missing_assignment_epochs_default_to_the_member_epoch():
    """Written by a Kafka before 4.3."""
    groups = GroupMachine(GroupsConfig(), Catalog({}))
    value = StreamsGroupCurrentMemberAssignmentValue(7, 6, 1, [_Tasks("0", [1, 2])], [], [], [], [], [])
    groups.replay(Record(StreamsGroupCurrentMemberAssignmentKey("g", "m"), value))
    assert groups.by_id["g"].members["m"].assigned.active == {"0": {1: 7, 2: 7}}


def test_the_state_of_a_member_is_written_in_kafkas_numbers(h):
    written = {
        record.value.state for record in h.records if isinstance(record.value, StreamsGroupCurrentMemberAssignmentValue)
    }
    assert written <= {1, 2, 3}
    assert [state.value for state in MemberState] == [1, 2, 3, 127]


def test_what_kafka_keeps_of_topology_descriptions_is_written_back(h):
    value = StreamsGroupMetadataValue(
        h.streams().group_epoch,
        h.streams().metadata_hash,
        1,
        [],
        stored_description_topology_epoch=1,
        failed_description_topology_epoch=0,
    )
    h.groups.replay(Record(StreamsGroupMetadataKey("g"), value))
    h.beat("a", -1)
    last = [record.value for record in h.records if isinstance(record.value, StreamsGroupMetadataValue)][-1]
    assert (last.stored_description_topology_epoch, last.failed_description_topology_epoch) == (1, 0)


def test_a_group_whose_topology_is_not_in_the_log_takes_the_next_members():
    h = StreamsHarness()
    h.arrive()
    h.records = [record for record in h.records if not isinstance(record.key, StreamsGroupTopologyKey)]
    h.restart()
    assert h.streams().state is State.NOT_READY
    assert h.beat("m", 2).reply.error_message == "The log has no topology of this group."
    assert h.arrive().ok
    assert h.streams().topology is not None
