"""Events about share partitions and their records: who held them, how often they were delivered, who altered their start."""

import pytest

from coordinator.groups.share.deliveries import AlteredBy, Deliveries, note_deliveries
from coordinator.groups.share.initialized import Initialized
from coordinator.groups.share.offsets import Alteration, Altered, begin_alteration, complete_alteration
from coordinator.protocol.errors import ErrorCode
from tests.groups.share.share_world import ShareHarness


@pytest.fixture
def h():
    return ShareHarness()


def note(h, outcome, cause="", member_id="m"):
    ranges = [(3, 4, 1, 1), (7, 7, 2, 3)]
    deliveries = Deliveries(outcome, "g", member_id, "t", h.catalog.topic_id("t"), 1, cause, 3, ranges, 7_000, 1)
    h._apply(note_deliveries(h.groups, h.now_ms, deliveries=deliveries))


@pytest.mark.parametrize(
    ("outcome", "event", "fact"),
    [
        ("lock_expired", "AcquisitionLockExpired", "acquisition_lock_expired"),
        ("archived", "RecordsArchived", "records_archived"),
        ("released", "RecordsReleased", "records_released"),
    ],
)
def test_what_became_of_records_is_an_event_with_their_member(h, outcome, event, fact):
    h.arrive()
    note(h, outcome, "a cause")
    (found,) = h.events_of(event)
    assert (found.member_id, found.client_id, found.client_host) == ("m", "client", "/127.0.0.1")
    assert (found.topic_name, found.topic_id, found.partition) == ("t", h.catalog.topic_id("t"), 1)
    assert (found.cause, found.records) == ("a cause", 3)
    assert [(each.first_offset, each.last_offset, each.delivery_count) for each in found.ranges] == [
        (3, 4, 1),
        (7, 7, 2),
    ]
    (said,) = [each for each in h.facts if each.name == fact]
    assert (said.fields["client"], said.fields["first_offset"], said.fields["delivery_count"]) == ("client", 3, 2)


@pytest.mark.parametrize(
    ("outcome", "event"), [("acquired", "RecordsAcquired"), ("acknowledged", "RecordsAcknowledged")]
)
def test_who_got_records_and_what_was_said_about_them_are_events_without_a_line_in_the_log(h, outcome, event):
    h.arrive()
    note(h, outcome)
    (found,) = h.events_of(event)
    assert (found.member_id, found.client_id, found.partition, found.records) == ("m", "client", 1, 3)
    assert found.loaded_ms == 7_000
    assert [each.delivery_count for each in found.ranges] == [1, 2]
    if outcome == "acknowledged":
        assert [each.acknowledge_type for each in found.ranges] == [1, 3]
    assert not any(each.name and "member" in each.fields and "cause" in each.fields for each in h.facts)


def test_records_of_a_member_that_is_gone_have_an_event_without_a_client(h):
    note(h, "lock_expired")
    (found,) = h.events_of("AcquisitionLockExpired")
    assert (found.member_id, found.client_id, found.client_host) == ("m", None, None)


def test_new_share_partitions_are_an_event_without_a_principal(h):
    h.arrive(topics=["u"])
    (found,) = h.events_of("SharePartitionsInitialized")
    assert (found.principal, found.client_id, found.error_code) == ("", None, ErrorCode.NONE)
    assert [(each.topic_name, each.topic_id) for each in found.topics] == [("u", h.catalog.topic_id("u"))]
    assert [(each.partition, each.start_offset) for each in found.topics[0].partitions] == [(0, -1)]


def test_share_partitions_that_could_not_be_made_are_an_event_with_the_error(h):
    h.states.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    h.arrive(topics=["u"])
    assert [each.error_code for each in h.events_of("SharePartitionsInitialized")] == [15]


def test_an_alteration_is_an_event_with_its_principal_and_start_offsets(h):
    topic_id = h.catalog.topic_id("t")
    topics = {topic_id: Initialized("t", frozenset({0, 2}))}
    h.call(begin_alteration, Alteration("g", topics))
    by = AlteredBy("User:alice", "admin-1")
    starts = {(topic_id, 0): 5, (topic_id, 2): 9}
    h.call(complete_alteration, Altered("g", topics, {}, ErrorCode.NONE, starts, by))
    (found,) = h.events_of("SharePartitionsInitialized")
    assert (found.principal, found.client_id) == ("User:alice", "admin-1")
    assert [(each.partition, each.start_offset) for each in found.topics[0].partitions] == [(0, 5), (2, 9)]
