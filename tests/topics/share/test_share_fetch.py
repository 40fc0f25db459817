"""Share fetches on a simulated data plane: waiting, reading, acquiring, and what becomes of share partitions and sessions."""

import pytest

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.share_state.share_state import Batch, SharePartition, ShareState
from coordinator.topics.list_offsets import EARLIEST, LATEST
from coordinator.topics.share.leader import RETRY_MS, TRIES_MAX
from coordinator.topics.share.machine import ACCEPT, REJECT, RELEASE, RENEW, Acknowledgement
from coordinator.topics.share.outcomes import RANGES_MAX
from coordinator.topics.share.sessions import SessionKey
from tests.topics.data_plane import batch
from tests.topics.share.world import LIMITS, Connection, World, begin, shown


@pytest.fixture
def world():
    return World()


def test_a_fetch_gets_what_is_there_at_once(world):
    world.plane.produce(batch(b"a", b"b"))
    _, answers = world.later()
    assert shown(answers[0]) == [(0, [(0, 1, 1)])]
    (data,) = answers[0].values()
    assert len(data.records) == len(batch(b"a", b"b"))


def test_a_fetch_waits_for_records_and_not_longer_than_it_wants(world):
    _, answers = world.later(wait_ms=500)
    assert not answers
    world.plane.produce(batch(b"a"))
    assert shown(answers[0]) == [(0, [(0, 0, 1)])]
    _, answers = world.later(wait_ms=500)
    world.plane.advance(499)
    assert not answers
    world.plane.advance(1)
    assert shown(answers[0]) == [(0, [])]


def test_a_fetch_waits_for_as_many_bytes_as_it_wants(world):
    size = len(batch(b"a"))
    _, answers = world.later(least=3 * size)
    for _ in range(2):
        world.plane.produce(batch(b"a"))
        assert not answers
    world.plane.produce(batch(b"a"))
    assert shown(answers[0]) == [(0, [(0, 2, 1)])]


def test_a_fetch_waits_for_records_that_are_given_back(world):
    world.plane.produce(batch(b"a", b"b"))
    world.fetch(member="a")
    _, answers = world.later(member="b", wait_ms=60_000)
    assert not answers
    assert world.ack(1, 1, RELEASE, member="a") is None
    assert shown(answers[0]) == [(0, [(1, 1, 2)])]


def test_a_fetch_gets_records_whose_lock_ends(world):
    world.plane.produce(batch(b"a"))
    world.fetch(member="a")
    _, answers = world.later(member="b", wait_ms=60_000)
    world.plane.advance(LIMITS.lock_ms - 1)
    assert not answers
    world.plane.advance(1)
    assert shown(answers[0]) == [(0, [(0, 0, 2)])]
    assert world.states.writes == [(0, 0, [(0, 0, 0, 1)])]
    assert world.ack(0, 0, ACCEPT, member="a") == "INVALID_RECORD_STATE"


def test_a_fetch_that_is_cancelled_gets_nothing_and_watches_nothing(world):
    fetch, answers = world.later()
    fetch.cancel()
    world.plane.produce(batch(b"a"))
    world.plane.advance(1_000)
    assert not answers
    assert not world.plane.topics.partition("t", 0).readers
    assert not world.manager.leaders[SharePartition("g", world.id, 0)].waiters


def test_groups_have_their_own_records(world):
    world.plane.produce(batch(b"a"))
    assert world.fetch(group="g") == world.fetch(group="h") == [(0, [(0, 0, 1)])]


def test_only_as_many_records_are_acquired_as_are_wanted_of_all_partitions(world):
    assert world.fetch(0, 1) == [(0, []), (1, [])]
    for index in (0, 1):
        for _ in range(3):
            world.plane.produce(batch(b"a", b"b"), partition=index)
    assert world.fetch(0, 1, records=5) == [(0, [(0, 5, 1)]), (1, [])]
    assert world.fetch(0, 1, records=5) == [(1, [(0, 5, 1)])]


def test_a_response_has_the_batches_that_were_acquired_and_no_others(world):
    for value in (b"a", b"b", b"c"):
        world.plane.produce(batch(value))
    world.fetch(member="a")
    world.ack(1, 1, RELEASE, member="a")
    _, answers = world.later(member="b")
    (data,) = answers[0].values()
    assert data.records[:8] == (1).to_bytes(8)
    assert len(data.records) == len(batch(b"b"))


def test_what_was_acknowledged_is_durable_before_its_member_hears_of_it(world):
    world.plane.produce(batch(b"a", b"b"))
    world.fetch()
    results = []
    acks = {world.key(): [Acknowledgement(0, 0, [ACCEPT])]}
    world.manager.acknowledge(SessionKey("g", "m"), acks, results.append)
    assert world.states.writes == [(0, 1, [(0, 0, 2, 1)])]
    assert not results
    world.run()
    assert results == [{world.key(): None}]


def test_a_share_coordinator_that_cannot_answer_is_asked_again(world):
    world.plane.produce(batch(b"a"))
    world.states.refuses = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    _, answers = world.later(wait_ms=60_000)
    assert not answers
    world.plane.advance(RETRY_MS)
    world.run()
    assert shown(answers[0]) == [(0, [(0, 0, 1)])]


def test_a_share_coordinator_that_never_answers_is_an_error(world):
    world.plane.produce(batch(b"a"))
    world.fetch()
    world.states.refuses = [ErrorCode.NOT_COORDINATOR] * TRIES_MAX
    results = []
    acks = {world.key(): [Acknowledgement(0, 0, [ACCEPT])]}
    world.manager.acknowledge(SessionKey("g", "m"), acks, results.append)
    for tries in range(TRIES_MAX):
        world.run()
        world.plane.advance(RETRY_MS << tries)
    world.run()
    assert results[0][world.key()].code is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("code", "shows"),
    [
        (ErrorCode.FENCED_STATE_EPOCH, "NOT_LEADER_OR_FOLLOWER"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "UNKNOWN_TOPIC_OR_PARTITION"),
        (ErrorCode.INVALID_REQUEST, "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_a_state_that_cannot_be_read_is_an_error_and_is_read_again_by_the_next_fetch(world, code, shows):
    world.plane.produce(batch(b"a"))
    world.states.refuses = [code]
    assert world.fetch() == [(0, shows)]
    assert world.fetch() == [(0, [(0, 0, 1)])]


def test_a_share_partition_whose_state_was_fenced_is_read_again(world):
    world.plane.produce(batch(b"a"))
    world.fetch()
    world.states.refuses = [ErrorCode.FENCED_LEADER_EPOCH]
    world.states.states[SharePartition("g", world.id, 0)] = ShareState(3, 0, 0, [Batch(0, 0, 0, 4)])
    assert world.ack(0, 0, ACCEPT) == "NOT_LEADER_OR_FOLLOWER"
    assert world.ack(0, 0, ACCEPT) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert world.fetch() == [(0, [(0, 0, 5)])]


@pytest.mark.parametrize(
    ("start", "first"), [(EARLIEST, 0), (LATEST, 2), (1_700_000_000_500, 1), (1_800_000_000_000, 2)]
)
def test_a_group_without_a_start_offset_begins_where_its_settings_say(start, first):
    world = World(start=start)
    world.plane.produce(batch(b"a", timestamp=1_700_000_000_000))
    world.plane.produce(batch(b"b", timestamp=1_700_000_001_000))
    world.states.states[SharePartition("g", world.id, 0)] = ShareState(0, -1, -1, [])
    world.fetch()
    assert world.manager.leaders[SharePartition("g", world.id, 0)].machine.start_offset == first


def test_deleted_records_are_passed(world):
    world.plane.produce(batch(b"a"))
    world.plane.produce(batch(b"b"))
    world.plane.topics.partition("t", 0).delete_before(1)
    assert world.fetch() == [(0, [])]
    assert world.fetch() == [(0, [(1, 1, 1)])]


def test_a_deleted_topic_ends_the_wait(world):
    _, answers = world.later(wait_ms=60_000)
    world.plane.delete("t")
    world.run()
    assert [error for _, error in shown(answers[0])] == ["NOT_LEADER_OR_FOLLOWER"]
    world.manager.topics_deleted({world.id})
    assert not world.manager.leaders


def test_records_of_open_and_aborted_transactions_are_not_delivered_to_readers_of_committed_ones():
    world = World(committed=True)
    pid = world.plane.producer_id()
    produce = {"producer_id": pid, "epoch": 0, "attributes": 16}
    world.plane.produce(batch(b"a"))
    world.plane.produce(batch(b"b", sequence=0, **produce), transactional_id="x", version=11)
    assert world.fetch() == [(0, [(0, 0, 1)])]
    _, answers = world.later(wait_ms=60_000)
    assert not answers
    world.plane.end(commit=False, producer_id=pid)
    assert shown(answers[0]) == [(0, [(2, 2, 1)])]
    world.plane.produce(batch(b"c", sequence=1, **produce), transactional_id="x", version=11)
    world.plane.end(commit=True, producer_id=pid)
    assert world.fetch() == [(0, [(3, 4, 1)])]


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_the_end_of_a_session_gives_back_what_its_member_has(world):
    world.plane.produce(batch(b"a", b"b"))
    begin(world)
    begin(world, member="other")
    world.fetch()
    world.ack(0, 0, ACCEPT)
    world.manager.end_session(SessionKey("g", "m"))
    world.run()
    assert world.fetch(member="other") == [(0, [(1, 1, 2)])]
    with pytest.raises(KafkaError):
        world.manager.sessions.find(SessionKey("g", "m"))


def test_the_last_session_of_a_group_takes_its_share_partitions_along(world):
    """An administrator may then set another start, of which no broker knows until it reads the state again."""
    world.plane.produce(batch(b"a", b"b"))
    begin(world)
    world.fetch()
    assert world.manager.leaders
    world.manager.end_session(SessionKey("g", "m"))
    assert not world.manager.leaders


def test_the_end_of_a_connection_ends_its_sessions_and_the_last_one_of_a_group_its_share_partitions(world):
    world.plane.produce(batch(b"a", b"b"))
    earlier = []
    world.connection.on_lost = lambda: earlier.append("ended")
    begin(world)
    begin(world, "other", Connection())
    world.fetch()
    world.connection.on_lost()
    world.run()
    assert earlier == ["ended"]
    assert world.fetch(member="other") == [(0, [(0, 1, 2)])]
    world.manager.sessions.find(SessionKey("g", "other")).connection.on_lost()
    assert not world.manager.leaders
    assert len(world.manager.sessions) == 0


def test_a_member_that_begins_again_has_one_session(world):
    begin(world)
    session = begin(world)
    assert len(world.manager.sessions) == 1
    assert world.manager.sessions.resume(session.key, 1) is session
    with pytest.raises(KafkaError) as raised:
        world.manager.sessions.resume(session.key, 1)
    assert raised.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_there_is_a_limit_of_sessions():
    world = World(sessions=1)
    begin(world)
    with pytest.raises(KafkaError) as raised:
        begin(world, "other")
    assert raised.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    begin(world)


# --- outcomes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def reports(world):
    found = []
    world.manager.outcomes.report = found.append
    return found


def shown_report(report):
    return report.outcome, report.member_id, report.cause, report.records, [tuple(each)[:3] for each in report.ranges]


def test_a_lock_that_ends_is_reported_with_its_member_and_delivery_count(world, reports):
    world.plane.produce(batch(b"a", b"b", b"c"))
    world.fetch()
    world.ack(1, 1, ACCEPT)
    assert reports == []
    world.plane.advance(LIMITS.lock_ms)
    world.run()
    assert list(map(shown_report, reports)) == [("lock_expired", "m", "", 2, [(0, 0, 1), (2, 2, 1)])]
    assert reports[0].place.key == SharePartition("g", *world.key())
    outcomes = world.manager.outcomes
    assert (outcomes.acquired, outcomes.locks_expired, outcomes.acknowledged["accept"]) == (3, 2, 1)


def test_acquisitions_and_acknowledgements_are_reported_to_who_wants_them_in_the_order_of_the_decisions(world, reports):
    world.manager.outcomes.reports_all = True
    world.plane.produce(batch(b"a", b"b", b"c"))
    world.fetch()
    acknowledgement = Acknowledgement(0, 2, [ACCEPT, RELEASE, REJECT])
    world.manager.acknowledge(SessionKey("g", "m"), {world.key(): [acknowledgement]}, lambda _: None)
    world.run()
    world.fetch()
    world.plane.advance(LIMITS.lock_ms)
    world.run()
    assert [(report.outcome, [tuple(each) for each in report.ranges]) for report in reports] == [
        ("acquired", [(0, 2, 1, -1)]),
        ("acknowledged", [(0, 0, 1, ACCEPT), (1, 1, 1, RELEASE), (2, 2, 1, REJECT)]),
        ("acquired", [(1, 1, 2, -1)]),
        ("lock_expired", [(1, 1, 2, -1)]),
    ]
    assert len({report.place for report in reports}) == 1


def test_each_load_of_a_share_partition_is_later_than_the_one_before(world, reports):
    """Also within a millisecond: an old lock does not outlive the load."""
    world.manager.outcomes.reports_all = True
    world.plane.produce(batch(b"a"))
    world.fetch()
    world.manager.forget(lambda key: True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    world.fetch()
    first, second = (report.place.loaded_ms for report in reports)
    assert first < second


def test_records_that_were_delivered_too_often_are_reported_as_archived(world, reports):
    world.settings = world.settings._replace(limits=LIMITS._replace(delivery_count=2))
    world.plane.produce(batch(b"a", b"b"))
    world.fetch()
    world.ack(0, 0, REJECT)
    world.ack(1, 1, RELEASE)
    world.fetch()
    assert reports == []
    world.ack(1, 1, RELEASE)
    assert list(map(shown_report, reports)) == [
        ("archived", "m", "the member released the last delivery", 1, [(1, 1, 2)])
    ]
    outcomes = world.manager.outcomes
    assert outcomes.archived == 1
    assert outcomes.acknowledged == {"gap": 0, "accept": 0, "release": 2, "reject": 1, "renew": 0}


def test_the_last_lock_reports_both_its_end_and_the_archived_records(world, reports):
    world.settings = world.settings._replace(limits=LIMITS._replace(delivery_count=1))
    world.plane.produce(batch(b"a"))
    world.fetch()
    world.plane.advance(LIMITS.lock_ms)
    world.run()
    assert [report.outcome for report in reports] == ["lock_expired", "archived"]


def test_what_a_session_gives_back_is_reported_when_it_is_durable(world, reports):
    world.plane.produce(batch(b"a", b"b"))
    begin(world)
    begin(world, "other", Connection())
    world.fetch()
    world.connection.on_lost()
    assert reports == []
    world.run()
    assert list(map(shown_report, reports)) == [
        ("released", "m", "the connection of the session ended", 2, [(0, 1, 1)])
    ]


def test_an_acknowledgement_that_is_not_durable_is_not_counted(world, reports):
    world.plane.produce(batch(b"a"))
    world.fetch()
    world.states.refuses = [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert world.ack(0, 0, ACCEPT) == "UNKNOWN_SERVER_ERROR"
    assert world.manager.outcomes.acknowledged["accept"] == 0


def test_a_lock_that_ends_during_a_failed_acknowledgement_is_reported(world, reports):
    world.plane.produce(batch(b"a"))
    world.fetch()
    world.plane.advance(LIMITS.lock_ms - 1)
    world.states.refuses = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * TRIES_MAX
    world.manager.acknowledge(SessionKey("g", "m"), {world.key(): [Acknowledgement(0, 0, [ACCEPT])]}, lambda _: None)
    for tries in range(TRIES_MAX):
        world.run()
        world.plane.advance(RETRY_MS << tries)
    assert [shown_report(report)[:2] for report in reports] == [("lock_expired", "m")]


def test_a_renewed_lock_is_counted(world, reports):
    world.plane.produce(batch(b"a", b"b", b"c"))
    world.fetch()
    acknowledgement = Acknowledgement(0, 2, [RENEW, ACCEPT, RENEW])
    world.manager.acknowledge(SessionKey("g", "m"), {world.key(): [acknowledgement]}, lambda _: None)
    world.run()
    assert world.manager.outcomes.acknowledged == {"gap": 0, "accept": 1, "release": 0, "reject": 0, "renew": 2}


def test_a_report_names_a_hundred_ranges_at_most(world, reports):
    world.plane.produce(batch(*[b"r"] * 300))
    world.settings = world.settings._replace(limits=LIMITS._replace(locks=300))
    world.fetch()
    for offset in range(0, 300, 2):
        world.ack(offset, offset, ACCEPT)
    world.plane.advance(LIMITS.lock_ms)
    world.run()
    assert [(report.records, len(report.ranges)) for report in reports] == [(RANGES_MAX, RANGES_MAX), (50, 50)]
