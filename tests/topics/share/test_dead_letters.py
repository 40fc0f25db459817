"""Dead letters of a share partition on a simulated data plane: when they are written, and what if they cannot be."""

import pytest

from coordinator.log.batch import decode_records, split
from coordinator.protocol.errors import ErrorCode
from coordinator.share_state.share_state import Batch, SharePartition, ShareState
from coordinator.topics.share.dead_letters import FAILED, RECORDS_AT_ONCE, RETRY_MS, Queue
from coordinator.topics.share.in_flight import RecordState
from coordinator.topics.share.machine import REJECT
from coordinator.topics.share.outcomes import Outcome
from coordinator.topics.share.sessions import SessionKey
from coordinator.topics.topic_settings import GROUP_DEAD_LETTERS
from tests.topics.data_plane import NOW_MS, batch
from tests.topics.share.world import LIMITS, World, begin

QUEUE = "dlq.q"
ARCHIVING, ARCHIVED = RecordState.ARCHIVING.value, RecordState.ARCHIVED.value


def a_world(*, copies=False, locks=200, made=True, configs=(), **config):
    """A world whose group has a dead-letter queue, which exists if it is `made`."""
    world = World(limits=LIMITS._replace(has_dead_letters=True, locks=locks), queue=Queue(QUEUE, copies), config=config)
    if made:
        world.plane.create(QUEUE, 1, {GROUP_DEAD_LETTERS: "true", **dict(configs)})
    begin(world)
    return world


def letters(world):
    """For each batch of the queue: (offset of the original, key, value) of its records."""
    partition = world.plane.topics.partition(QUEUE, 0)
    if partition is None or partition.log is None:
        return []
    data = partition.log.read(0, 1 << 20)
    return [
        [
            (int(dict(record.headers)["__dlq.errors.offset"]), record.key, record.value)
            for record in decode_records(data, position, header)
        ]
        for position, header in split(data)
    ]


def test_a_rejected_record_is_archived_when_it_is_durable_in_the_queue():
    world = a_world()
    world.plane.produce(batch(b"a", b"b"))
    world.fetch()
    world.plane.late = True
    assert world.ack(1, 1, REJECT) is None
    assert world.states.writes == [(0, 0, [(1, 1, ARCHIVING, 1)])]
    world.plane.sync()
    assert letters(world) == [[(1, None, None)]]
    assert world.states.writes[1:] == [(0, 1, [(1, 1, ARCHIVED, 1)])]
    assert world.manager.outcomes.dead_letters == {"written": 1, "failed": 0}


def dead_letters_reported(world):
    """(first and last offset, cause, where they are) of each report from now on."""
    found = []

    def report(said):
        if said.outcome is Outcome.DEAD_LETTERED:
            ((first, last, _, _),) = said.ranges
            found.append((first, last, said.cause, tuple(said.queue)))

    world.manager.outcomes.report = report
    return found


def test_it_is_reported_where_in_the_queue_the_records_are():
    world = a_world()
    said = dead_letters_reported(world)
    world.plane.produce(batch(b"a", b"b", b"c"))
    world.fetch()
    world.ack(0, 0, REJECT)
    world.ack(1, 2, REJECT)
    rejected = "Offset rejected by client."
    assert said == [(0, 0, rejected, (QUEUE, 0, 0, None)), (1, 2, rejected, (QUEUE, 0, 1, None))]


def test_it_is_reported_why_records_are_in_no_queue():
    world = a_world(made=False)
    said = dead_letters_reported(world)
    world.plane.produce(batch(b"a"))
    world.fetch()
    world.ack(0, 0, REJECT)
    ((first, last, _, (topic, partition, offset, reason)),) = said
    assert (first, last, topic, partition, offset) == (0, 0, QUEUE, -1, -1)
    assert "does not exist" in reason


def test_a_letter_has_the_time_and_place_of_the_rejection():
    world = a_world()
    world.plane.produce(batch(b"a", timestamp=NOW_MS - 5_000))
    world.fetch()
    world.ack(0, 0, REJECT)
    data = world.plane.topics.partition(QUEUE, 0).log.read(0, 1 << 20)
    ((position, header),) = split(data)
    (record,) = decode_records(data, position, header)
    assert record.timestamp == world.plane.clock.wall_ms()
    assert (header.producer_id, header.base_sequence) == (-1, -1)
    assert [(name.removeprefix("__dlq.errors."), value.decode()) for name, value in record.headers] == [
        ("topic", "t"),
        ("partition", "0"),
        ("offset", "0"),
        ("group", "g"),
        ("delivery.count", "1"),
        ("message", "Offset rejected by client."),
    ]


@pytest.mark.parametrize(
    ("count", "cause"), [(1, "Offset rejected by client."), (5, "Offset delivery count exceeded the threshold.")]
)
def test_the_next_leader_writes_what_the_last_one_did_not(count, cause):
    world = a_world()
    world.plane.produce(batch(b"a", b"b", b"c"))
    world.states.states[SharePartition("g", *world.key())] = ShareState(0, 0, 0, [Batch(0, 1, ARCHIVING, count)])
    assert world.fetch() == [(0, [(2, 2, 1)])]
    world.run()
    assert [offset for offset, _, _ in letters(world)[0]] == [0, 1]
    assert cause.encode() in world.plane.topics.partition(QUEUE, 0).log.read(0, 1 << 20)
    assert world.states.writes == [(0, 2, [(0, 1, ARCHIVED, count)])]


def test_a_share_partition_outlives_the_last_session_until_its_dead_letters_are_written():
    world = a_world()
    world.plane.produce(batch(b"a"))
    world.fetch()
    world.plane.late = True
    world.ack(0, 0, REJECT)
    world.manager.end_session(SessionKey("g", "m"))
    assert world.manager.leaders
    world.plane.sync()
    world.run()
    assert letters(world) == [[(0, None, None)]]
    assert world.states.writes[-1] == (0, 1, [(0, 0, ARCHIVED, 1)])
    assert not world.manager.leaders


def test_key_and_value_are_copied_if_the_group_says_so():
    world = a_world(copies=True)
    world.plane.produce(batch(b"a", b"b", key=b"x"))
    world.plane.produce(batch(b"c", key=None))
    world.fetch()
    world.ack(1, 2, REJECT)
    assert letters(world) == [[(1, b"x", b"b"), (2, None, b"c")]]


def test_letters_are_written_in_batches_that_the_queue_accepts():
    world = a_world(copies=True, configs={"max.message.bytes": "1000"})
    for value in (b"a" * 300, b"b" * 300, b"c" * 300):
        world.plane.produce(batch(value, key=None))
    world.plane.produce(batch(b"d" * 2_000, key=None))
    world.fetch()
    world.ack(0, 3, REJECT)
    assert [[(offset, value and value[:1]) for offset, _, value in each] for each in letters(world)] == [
        [(0, b"a")],
        [(1, b"b")],
        [(2, b"c")],
        [(3, None)],
    ], "what is too large is not copied"


def test_many_letters_do_not_keep_the_loop_busy():
    world = a_world(locks=2_000)
    world.plane.produce(batch(*[b"r"] * (RECORDS_AT_ONCE + 1)))
    world.fetch(records=2_000)
    world.ack(0, RECORDS_AT_ONCE, REJECT)
    assert [len(each) for each in letters(world)] == [RECORDS_AT_ONCE, 1]


def test_records_whose_originals_are_deleted_are_named_all_the_same():
    world = a_world(copies=True)
    world.plane.produce(batch(b"a", key=None))
    world.fetch()
    world.plane.topics.partition("t", 0).delete_before(1)
    world.ack(0, 0, REJECT)
    assert letters(world) == [[(0, None, None)]]


def test_a_queue_that_refuses_a_record_keeps_nobody_waiting():
    world = a_world(configs={"cleanup.policy": "compact"})
    world.plane.produce(batch(b"a"))
    world.fetch()
    world.ack(0, 0, REJECT)
    assert letters(world) == []
    assert world.states.writes[-1] == (0, 1, [(0, 0, ARCHIVED, 1)])
    (fact,) = [fact for fact in world.plane.facts if fact.name == FAILED]
    assert fact.fields == {
        "group": "g", "topic": "t", "partition": 0, "offsets": "0-0", "reason": ErrorCode.INVALID_RECORD.name,
    }  # fmt: skip
    assert world.manager.outcomes.dead_letters == {"written": 0, "failed": 1}


def test_a_queue_that_somebody_else_makes_now_is_waited_for():
    world = a_world(made=False, errors_deadletterqueue_auto_create_topics_enable=True)
    world.plane.produce(batch(b"a"))
    world.fetch()
    world.plane.late = True
    world.plane.create(QUEUE, 1, {GROUP_DEAD_LETTERS: "true"})
    world.ack(0, 0, REJECT)
    world.plane.late = False
    world.plane.sync()
    assert letters(world) == []
    world.plane.advance(RETRY_MS)
    world.run()
    assert letters(world) == [[(0, None, None)]]


def test_a_queue_that_cannot_be_made_is_given_up():
    world = a_world(made=False, errors_deadletterqueue_auto_create_topics_enable=True)
    world.plane.create("dlq_q", 1)
    world.plane.produce(batch(b"a"))
    world.fetch()
    world.ack(0, 0, REJECT)
    assert world.plane.facts[-1].fields["reason"].startswith("INVALID_TOPIC_EXCEPTION: ")
    assert world.states.writes[-1] == (0, 1, [(0, 0, ARCHIVED, 1)])
