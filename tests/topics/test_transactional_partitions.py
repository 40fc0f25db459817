"""Transactions in a partition: what is accepted, what readers of committed records see, what survives a restart."""

from random import Random

import pytest

from coordinator.log.batch import key_values, split
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.topics import producer_walk
from tests.topics.data_plane import FOLDER, NOW_MS, DataPlane, batch

TRANSACTIONAL = 16
SMALL_SEGMENTS = {"segment.bytes": "1048576", "segment.ms": "5"}
COMMITTED = 1


@pytest.fixture
def plane():
    plane = DataPlane()
    plane.create("t", 3)
    return plane


def txn_batch(sequence=0, *values, producer_id=7, epoch=0, **options):
    return batch(
        *(values or (b"v",)), producer_id=producer_id, epoch=epoch, sequence=sequence,
        attributes=TRANSACTIONAL, **options,
    )  # fmt: skip


def send(plane, sequence=0, *values, version=11, partition=0, transactional_id="x", **options):
    """Error or base offset."""
    data = txn_batch(sequence, *values, **options)
    answer = plane.produce(data, partition=partition, version=version, transactional_id=transactional_id)
    return ErrorCode(answer.error_code).name if answer.error_code else answer.base_offset


def fetched(plane, offset=0, **options):
    """The responses to a reader of committed records that reads to the end."""
    while True:
        answer = plane.fetch(offset=offset, isolation_level=COMMITTED, **options)
        assert answer.error_code == 0
        if not answer.records:
            return
        yield answer
        offset = split(answer.records)[-1][1].next_offset


def aborted(plane, offset=0):
    """First offsets of the aborted transactions in the responses."""
    return sorted({one.first_offset for answer in fetched(plane, offset) for one in answer.aborted_transactions})


def committed(plane, offset=0, **options):
    """Offsets of the records that the reader regards as committed."""
    seen, aborting = [], set()
    for answer in fetched(plane, offset, **options):
        left_out = {}
        for one in answer.aborted_transactions:
            left_out.setdefault(one.producer_id, []).append(one.first_offset)
        for position, header in split(answer.records):
            for producer_id, firsts in left_out.items():
                while firsts and firsts[0] <= header.last_offset:
                    firsts.pop(0)
                    aborting.add(producer_id)
            if header.is_control:
                ((_, key, value),) = key_values(answer.records, position, header)
                if not read_end_transaction(key, value)[0]:
                    aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                seen += range(header.base_offset, header.next_offset)
        aborting.clear()
    return [at for at in seen if at >= offset]


# --- what is taken ----------------------------------------------------------------------------------------------------


def test_the_first_batch_is_verified_and_the_next_ones_are_not(plane):
    assert send(plane, 0) == 0
    assert send(plane, 1) == 1
    assert plane.coordinator.asked == [("x", (7, 0), {"t": [0]}, False)]
    assert plane.end() == "NONE"
    assert send(plane, 2) == 3
    assert len(plane.coordinator.asked) == 2, "another transaction"


def test_version_12_adds_the_partition(plane):
    assert send(plane, 0, version=12) == 0
    assert plane.coordinator.asked == [("x", (7, 0), {"t": [0]}, True)]


def test_all_partitions_of_a_request_are_verified_together(plane):
    send(plane, 0, partition=1)
    plane.coordinator.asked.clear()
    batches = {("t", index): txn_batch(1 if index == 1 else 0) for index in range(3)}
    ((_, failed),) = plane.produce_many(batches, version=11, transactional_id="x")
    assert not failed
    assert plane.coordinator.asked == [("x", (7, 0), {"t": [0, 2]}, False)]


def test_a_partition_that_is_refused_does_not_stop_the_others(plane):
    plane.coordinator.refuses = {("t", 1): ErrorCode.INVALID_TXN_STATE}
    batches = {("t", index): txn_batch() for index in range(3)}
    ((response, failed),) = plane.produce_many(batches, version=11, transactional_id="x")
    answers = response.responses[0].partition_responses
    assert failed
    assert [answer.error_code for answer in answers] == [0, ErrorCode.INVALID_TXN_STATE, 0]
    assert (answers[1].base_offset, answers[1].log_start_offset) == (-1, -1)
    assert [plane.topics.partition("t", index).next_offset for index in range(3)] == [1, 0, 1]


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        ("INVALID_TXN_STATE", 10, "INVALID_TXN_STATE"),
        ("TRANSACTION_ABORTABLE", 11, "TRANSACTION_ABORTABLE"),
        ("INVALID_PRODUCER_EPOCH", 11, "INVALID_PRODUCER_EPOCH"),
        ("INVALID_PRODUCER_ID_MAPPING", 11, "INVALID_PRODUCER_ID_MAPPING"),
        ("CONCURRENT_TRANSACTIONS", 11, "NOT_ENOUGH_REPLICAS"),
        ("CONCURRENT_TRANSACTIONS", 12, "CONCURRENT_TRANSACTIONS"),
        ("NOT_COORDINATOR", 12, "NOT_ENOUGH_REPLICAS"),
        ("COORDINATOR_LOAD_IN_PROGRESS", 11, "NOT_ENOUGH_REPLICAS"),
    ],
)
def test_errors_of_the_coordinator_are_translated_for_producers(plane, error, version, expected):
    plane.coordinator.refuses = {("t", 0): ErrorCode[error]}
    assert send(plane, version=version) == expected
    assert plane.topics.partition("t", 0).next_offset == 0


def test_a_transaction_needs_its_id(plane):
    for acks in (1, 0):
        with pytest.raises(KafkaError) as error:
            plane.produce(txn_batch(), version=11, acks=acks)
        assert error.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_two_producers_in_one_request_are_a_mistake(plane):
    batches = {("t", 0): txn_batch(), ("t", 1): txn_batch(producer_id=8)}
    with pytest.raises(KafkaError) as error:
        plane.produce_many(batches, version=11, transactional_id="x")
    assert error.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert plane.topics.partition("t", 0).next_offset == 0


def test_plain_batches_of_a_transactional_producer(plane):
    plain = batch(producer_id=7, epoch=0, sequence=0)
    assert plane.produce(plain, version=11, transactional_id="x").base_offset == 0
    assert send(plane, 1) == 1
    plain = batch(producer_id=7, epoch=0, sequence=2)
    assert plane.produce(plain, version=11).error_code == ErrorCode.INVALID_TXN_STATE


def test_an_old_epoch_is_refused_without_asking_the_coordinator(plane):
    send(plane, 0, epoch=3)
    plane.end(epoch=3)
    plane.coordinator.asked.clear()
    assert send(plane, 0, epoch=2) == "INVALID_PRODUCER_EPOCH"
    assert plane.coordinator.asked == []


def test_a_retry_in_an_open_transaction_is_answered_as_the_first_attempt(plane):
    assert [send(plane, 0), send(plane, 0), send(plane, 1)] == [0, 0, 1]


def test_a_retry_after_the_end_is_verified_first(plane):
    send(plane, 0)
    plane.end()
    plane.coordinator.refuses = {("t", 0): ErrorCode.INVALID_TXN_STATE}
    assert send(plane, 0) == "INVALID_TXN_STATE"
    plane.coordinator.refuses = {}
    assert send(plane, 0) == 0


def test_sequences_continue_in_the_next_transaction_of_the_same_epoch(plane):
    send(plane, 0, b"a", b"b")
    plane.end()
    assert send(plane, 3) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(plane, 2) == 3


def test_a_new_epoch_begins_at_0(plane):
    send(plane, 0, version=12)
    plane.end(epoch=1, version=2)
    assert send(plane, 1, epoch=1, version=12) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(plane, 0, epoch=1, version=12) == 2


def test_under_version_2_an_unknown_producer_must_begin_with_sequence_0(plane):
    assert send(plane, 5, version=12) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(plane, 0, version=12, producer_id=8) == 0
    assert send(plane, 5, version=11, producer_id=9) == 1


def test_the_lowest_verified_sequence_must_be_written_first(plane):
    plane.coordinator.refuses = {("t", 0): ErrorCode.NOT_COORDINATOR}
    assert send(plane, 0) == "NOT_ENOUGH_REPLICAS"
    plane.coordinator.refuses = {}
    assert send(plane, 1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert [send(plane, 0), send(plane, 1)] == [0, 1]


def test_an_answer_from_before_a_marker_is_void(plane):
    """Otherwise a delayed batch would open a transaction that nobody ends."""
    plane.coordinator.waits = True
    answers = plane.produce_many({("t", 0): txn_batch()}, version=11, transactional_id="x")
    assert plane.end(commit=False) == "NONE"
    plane.coordinator.answer()
    assert answers[0][0].responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TXN_STATE
    assert plane.fetch().last_stable_offset == 1


def test_under_version_2_the_marker_of_the_last_transaction_does_not_end_the_next(plane):
    send(plane, 0, version=12)
    plane.coordinator.waits = True
    answers = plane.produce_many({("t", 0): txn_batch(epoch=1)}, version=12, transactional_id="x")
    assert plane.end(epoch=1, version=2) == "NONE"
    plane.coordinator.answer()
    assert answers[0][0].responses[0].partition_responses[0].base_offset == 2


def test_the_response_waits_for_the_coordinator(plane):
    plane.coordinator.waits = True
    answers = plane.produce_many({("t", 0): txn_batch(), ("t", 1): batch()}, version=11, transactional_id="x")
    assert answers == []
    plane.coordinator.answer()
    assert [part.error_code for part in answers[0][0].responses[0].partition_responses] == [0, 0]


def test_only_a_produce_request_that_needs_verification_holds_its_connection(plane, monkeypatch):
    """Otherwise the next batch of the connection could overtake it; other requests are not held up."""
    plane.coordinator.waits = True
    plane.produce_many({("t", 0): txn_batch(0)}, version=11, transactional_id="x")
    assert plane.waits
    plane.coordinator.answer()
    plane.late = True
    plane.produce_many({("t", 0): txn_batch(1)}, version=11, transactional_id="x")
    assert not plane.waits, "the transaction is open there"
    plane.produce_many({("t", 1): batch(producer_id=8, epoch=0, sequence=0)}, version=11)
    assert not plane.waits
    plane.killed()
    monkeypatch.setattr(producer_walk, "WALK_BYTES", -1)
    plane.produce_many({("t", 0): txn_batch(2)}, version=11, transactional_id="x")
    assert plane.waits, "nobody knows yet what is open"


def test_without_acks_the_connection_still_learns_of_a_refusal(plane):
    plane.coordinator.refuses = {("t", 0): ErrorCode.INVALID_TXN_STATE}
    ((_, failed),) = plane.produce_many({("t", 0): txn_batch()}, version=11, transactional_id="x", acks=0)
    assert failed


# --- markers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_a_control_batch_of_its_producer(plane, commit):
    send(plane, 0)
    plane.end(commit=commit, coordinator_epoch=5, epoch=1)
    records = plane.fetch(offset=1).records
    ((position, header),) = split(records)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, -1)
    ((offset, key, value),) = key_values(records, position, header)
    assert (offset, key, value) == (1, bytes((0, 0, 0, commit)), bytes((0, 0, 0, 0, 0, 5)))


def test_a_repeated_marker_does_no_harm(plane):
    send(plane, 0)
    assert [plane.end(), plane.end(), plane.end(commit=False)] == ["NONE"] * 3
    assert committed(plane) == [0]


def test_a_marker_for_an_unknown_producer(plane):
    assert plane.end(producer_id=99, commit=False) == "NONE"
    assert plane.fetch().last_stable_offset == 1
    assert plane.end(partition=5) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert plane.end(topic="nope") == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize(
    ("version", "epoch", "error"),
    [
        (1, 2, "INVALID_PRODUCER_EPOCH"),
        (1, 3, "NONE"),
        (1, 4, "NONE"),
        (2, 2, "INVALID_PRODUCER_EPOCH"),
        (2, 3, "INVALID_PRODUCER_EPOCH"),
        (2, 4, "NONE"),
    ],
)
def test_the_epoch_of_a_marker(plane, version, epoch, error):
    send(plane, 0, epoch=3)
    assert plane.end(epoch=epoch, version=version) == error


def test_under_version_2_a_marker_may_be_repeated_without_an_open_transaction(plane):
    send(plane, 0)
    assert [plane.end(epoch=1, version=2), plane.end(epoch=1, version=2)] == ["NONE", "NONE"]
    send(plane, 0, epoch=1)
    assert plane.end(epoch=1, version=2) == "INVALID_PRODUCER_EPOCH"


def test_a_coordinator_of_the_past_is_fenced(plane):
    send(plane, 0)
    assert plane.end(coordinator_epoch=4) == "NONE"
    assert plane.end(coordinator_epoch=3) == "TRANSACTION_COORDINATOR_FENCED"
    assert plane.end(coordinator_epoch=4) == "NONE"


def test_an_old_epoch_is_refused_after_the_marker_of_a_new_one(plane):
    send(plane, 0)
    plane.end(epoch=1, commit=False)
    assert send(plane, 1) == "INVALID_PRODUCER_EPOCH"
    assert plane.produce(batch(producer_id=7, epoch=0, sequence=1)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_has_the_append_time_in_a_topic_with_log_append_time():
    plane = DataPlane()
    plane.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    send(plane, 0)
    plane.end()
    assert [header.attributes & 8 for _, header in split(plane.fetch().records)] == [8, 8]


# --- what readers see -------------------------------------------------------------------------------------------------


def test_the_last_stable_offset_stays_at_the_first_open_transaction(plane):
    plane.produce(batch())
    send(plane, 0)
    plane.produce(batch())
    answer = plane.fetch(isolation_level=COMMITTED)
    assert (answer.high_watermark, answer.last_stable_offset) == (3, 1)
    assert [header.base_offset for _, header in split(answer.records)] == [0]
    assert (plane.offset_at(-1).offset, plane.offset_at(-1, isolation=COMMITTED).offset) == (3, 1)
    uncommitted = plane.fetch()
    assert (uncommitted.last_stable_offset, uncommitted.aborted_transactions) == (1, None)
    assert len(split(uncommitted.records)) == 3
    plane.end()
    assert committed(plane) == [0, 1, 2]
    assert plane.fetch().last_stable_offset == 4
    assert plane.offset_at(-1, isolation=COMMITTED).offset == 4


def test_a_fetch_beyond_the_last_stable_offset_is_empty_without_an_error(plane):
    send(plane, 0)
    plane.produce(batch())
    answer = plane.fetch(offset=1, isolation_level=COMMITTED)
    assert (answer.error_code, answer.records, answer.aborted_transactions) == (0, b"", [])
    assert plane.fetch(offset=3, isolation_level=COMMITTED).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_aborted_records_are_returned_with_the_list_of_aborted_transactions(plane):
    send(plane, 0)
    send(plane, 0, producer_id=8)
    send(plane, 1)
    plane.end(commit=False)
    plane.end(producer_id=8)
    answer = plane.fetch(isolation_level=COMMITTED)
    assert [(one.producer_id, one.first_offset) for one in answer.aborted_transactions] == [(7, 0)]
    assert committed(plane) == [1]
    assert plane.fetch(offset=4, isolation_level=COMMITTED).aborted_transactions == []


def test_a_transaction_that_ends_while_another_is_open(plane):
    send(plane, 0)
    send(plane, 0, producer_id=8)
    plane.end(producer_id=8, commit=False)
    assert committed(plane) == []
    plane.end()
    assert committed(plane) == [0]


def test_times_beyond_the_last_stable_offset_are_not_found(plane):
    plane.produce(batch(timestamp=NOW_MS))
    send(plane, 0, timestamp=NOW_MS + 5)
    assert plane.offset_at(NOW_MS + 1).offset == 1
    assert plane.offset_at(NOW_MS + 1, isolation=COMMITTED).offset == -1
    assert plane.offset_at(-3, isolation=COMMITTED).offset == -1
    assert plane.offset_at(NOW_MS, isolation=COMMITTED).offset == 0
    plane.end()
    assert plane.offset_at(NOW_MS + 1, isolation=COMMITTED).offset == 1


def test_a_marker_wakes_readers_of_committed_records(plane):
    send(plane, 0)
    plane.produce(batch())
    _, answers = plane.fetch_later([("t", 0, 0)], isolation_level=COMMITTED)
    plane.produce(batch())
    assert answers == []
    plane.end()
    assert len(split(answers[0].responses[0].partitions[0].records)) == 4
    assert not plane.topics.partition("t", 0).stable_readers


def test_only_stable_bytes_count_for_min_bytes(plane):
    size = len(batch())
    send(plane, 0, producer_id=8)
    send(plane, 0)
    plane.produce(batch())
    _, answers = plane.fetch_later([("t", 0, 0)], isolation_level=COMMITTED, min_bytes=size + 1)
    plane.end()
    assert answers == [], "the first transaction is open"
    plane.end(producer_id=8)
    assert answers
    send(plane, 1, producer_id=8)
    send(plane, 1)
    offset = plane.topics.partition("t", 0).next_offset - 2
    _, answers = plane.fetch_later([("t", 0, offset)], isolation_level=COMMITTED, min_bytes=size + 1)
    plane.end(producer_id=8)
    assert answers == [], "one batch became stable"
    plane.end()
    assert answers


def test_a_marker_counts_when_it_is_durable():
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    plane.produce_many({("t", 0): txn_batch()}, version=11, transactional_id="x")
    plane.sync()
    plane.end()
    assert plane.fetch().last_stable_offset == 0
    assert committed(plane) == []
    plane.sync()
    assert plane.fetch().last_stable_offset == 2
    assert committed(plane) == [0]


def test_with_durability_write_a_transaction_is_invisible_until_it_ends(plane):
    plane = DataPlane(durability="write")
    plane.create("t")
    _, answers = plane.fetch_later([("t", 0, 0)], isolation_level=COMMITTED)
    send(plane, 0)
    assert answers == []
    plane.end()
    assert len(split(answers[0].responses[0].partitions[0].records)) == 2


def test_deleting_records_moves_the_last_stable_offset(plane):
    send(plane, 0)
    send(plane, 1)
    partition = plane.topics.partition("t", 0)
    partition.delete_before(1)
    assert plane.fetch(offset=1).last_stable_offset == 1
    plane.end(commit=False)
    assert committed(plane, offset=1) == []
    assert plane.fetch(offset=1).last_stable_offset == 3


# --- over a restart ---------------------------------------------------------------------------------------------------


def restarted(plane, end, seed=0):
    if end == "closed":
        plane.topics.close()
    return plane.crashed(seed) if end == "crashed" else plane.killed()


@pytest.mark.parametrize("end", ["closed", "killed", "crashed"])
@pytest.mark.parametrize("segments", ["one", "many"])
def test_a_restart_restores_open_and_aborted_transactions(end, segments):
    plane = DataPlane()
    plane.create("t", configs=SMALL_SEGMENTS if segments == "many" else {})
    for at in range(4):
        send(plane, at, timestamp=NOW_MS + at * 10)
        plane.end(commit=at % 2 == 0, coordinator_epoch=at)
    send(plane, 0, producer_id=8, timestamp=NOW_MS + 100)
    restarted(plane, end)
    assert plane.fetch(isolation_level=COMMITTED).last_stable_offset == 8
    assert aborted(plane) == [2, 6]
    assert committed(plane) == [0, 4]
    assert plane.end(coordinator_epoch=2) == "TRANSACTION_COORDINATOR_FENCED"
    assert send(plane, 1, producer_id=8, timestamp=NOW_MS + 110) == 9
    assert plane.coordinator.asked[-1][1].id == 8
    assert len(plane.coordinator.asked) == 5, "it is known that the transaction is open"
    plane.end(producer_id=8)
    assert committed(plane) == [0, 4, 8, 9]


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_list_of_aborted_transactions_is_rebuilt_from_the_log(seed):
    plane = DataPlane()
    plane.create("t", configs=SMALL_SEGMENTS)
    random = Random(seed)
    for at in range(6):
        send(plane, at, timestamp=NOW_MS + at * 10)
        plane.end(commit=False)
    plane.disk.remove(f"{FOLDER}/t-0/producer-snapshot")
    for name in plane.disk.list(f"{FOLDER}/t-0"):
        if name.endswith(".txnindex"):
            path = f"{FOLDER}/t-0/{name}"
            if random.random() < 0.5:
                plane.disk.remove(path)
            else:
                plane.disk.open(path).truncate(9)
    plane.killed()
    assert aborted(plane) == [0, 2, 4, 6, 8, 10]
    plane.topics.close()
    plane.killed()
    assert aborted(plane) == [0, 2, 4, 6, 8, 10]


def test_deleted_segments_take_their_lists_of_aborted_transactions_with_them():
    plane = DataPlane()
    plane.create("t", configs=SMALL_SEGMENTS)
    for at in range(6):
        send(plane, at, timestamp=NOW_MS + at * 10)
        plane.end(commit=False)
    plane.topics.partition("t", 0).delete_before(11)
    lists = [name for name in plane.disk.list(f"{FOLDER}/t-0") if name.endswith(".txnindex")]
    assert lists == [f"{10:020d}.txnindex"]
    answer = plane.fetch(offset=11, isolation_level=COMMITTED)
    assert [one.first_offset for one in answer.aborted_transactions] == [10]


def test_a_reader_waits_until_the_open_transactions_are_known(plane, monkeypatch):
    send(plane, 0)
    plane.killed()
    monkeypatch.setattr(producer_walk, "WALK_BYTES", -1)
    plane.late = True
    _, committed_answers = plane.fetch_later([("t", 0, 0)], isolation_level=COMMITTED, max_wait_ms=0)
    _, answers = plane.fetch_later([("t", 0, 0)], max_wait_ms=0)
    assert len(answers[0].responses[0].partitions[0].records) > 0
    assert committed_answers == []
    plane.sync()
    assert committed_answers[0].responses[0].partitions[0].last_stable_offset == 0


def test_a_producer_whose_transaction_is_open_is_not_forgotten():
    plane = DataPlane(producer_id_expiration_ms=1000)
    plane.create("t")
    send(plane, 0)
    send(plane, 0, producer_id=8)
    plane.end(producer_id=8)
    plane.clock.advance(5000)
    partition = plane.topics.partition("t", 0)
    partition.producers.expire(plane.clock.wall_ms())
    assert [producer.producer_id for producer in partition.producers] == [7]
    assert plane.fetch().last_stable_offset == 0
    plane.end()
    plane.clock.advance(5000)
    partition.producers.expire(plane.clock.wall_ms())
    assert len(partition.producers) == 0
