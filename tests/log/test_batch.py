"""Record batches are byte for byte Kafka's, and every decoder reads the same records from them."""

import gzip
import warnings

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.log.batch import (
    CorruptBatch,
    UnsupportedCompression,
    check_batch,
    decode_records,
    key_values,
    read_header,
    restamp,
    split,
    with_log_append_time,
)
from coordinator.log.batch_builder import BatchBuilder, encode_batch, reduce_batch
from coordinator.log.codecs import compress
from coordinator.log.record import LogRecord, raw_varint, unzigzag, varint

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in an outdated way on import
    from kafka.record import MemoryRecords

# The first batch that a Kafka 4.4.0 wrote to __consumer_offsets: a group whose first member got MEMBER_ID_REQUIRED.
KAFKA_ONE_RECORD = bytes.fromhex(
    "00000000000000000000005f000000000261da092f000000000000000001a1fe399da1000001a1fe399da1ffffffffffffffffffff0000000000"
    "0000015a0000001e0002000b6137643534612d736f6c65300003000000000000ffffffff000001a1fe399d9a0000000000"
)
# The same broker expiring eight groups at once: one batch of eight tombstones.
KAFKA_TOMBSTONES = bytes.fromhex(
    "0000000000000013000000e200000000023b278631000000000007000001a1fe3f02b7000001a1fe3f02b7ffffffffffffffffffff000000"
    "00000000082a0000001e0002000b6137643534612d7072657001002a0000021e0002000b6137643534612d736f6c650100260000041a0002"
    "00096137643534612d706901002c000006200002000c6137643534612d736f6c65320100260000081a000200096137643534612d70700100"
    "2e00000a220002000d6137643534612d7061726b656401002800000c1c0002000a6137643534612d64757001003000000e240002000e6137"
    "643534612d726566757365640100"
)

fields = st.none() | st.binary(max_size=20) | st.integers(60, 70).map(bytes) | st.integers(4090, 4100).map(bytes)
offsets = st.integers(0, 2**62)
timestamps = st.integers(-1, 2**50)


def batch_of(pairs, base_offset=0, timestamp=1000, **more):
    builder = BatchBuilder()
    for key, value in pairs:
        builder.add(key, value)
    return builder.build(base_offset, timestamp, **more)


def test_a_batch_has_the_same_bytes_as_kafkas():
    for golden in (KAFKA_ONE_RECORD, KAFKA_TOMBSTONES):
        header = check_batch(golden)
        pairs = [(key, value) for _, key, value in key_values(golden, 0, header)]
        assert batch_of(pairs, header.base_offset, header.base_timestamp) == golden


def test_a_batch_of_kafka_is_decoded_correctly():
    header = check_batch(KAFKA_TOMBSTONES)
    assert (header.record_count, header.base_offset, header.next_offset) == (8, 19, 27)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, 0)
    assert not header.is_transactional
    assert not header.is_control
    assert header.delete_horizon_ms is None
    first = decode_records(KAFKA_TOMBSTONES, 0, header)[0]
    assert first == LogRecord(19, 1795266904759, b"\0\2\0\x0ba7d54a-prep", None)


@settings(max_examples=60)
@given(st.lists(st.tuples(fields, fields), min_size=1, max_size=20), offsets, timestamps)
def test_batches_are_decoded_by_this_server_and_two_other_decoders(pairs, base_offset, timestamp):
    batch = batch_of(pairs, base_offset, timestamp)
    header = check_batch(batch)
    expected = [(base_offset + i, key, value) for i, (key, value) in enumerate(pairs)]
    assert key_values(batch, 0, header) == expected
    assert [r[:4] for r in decode_records(batch, 0, header)] == [(o, timestamp, k, v) for o, k, v in expected]
    for theirs in (MemoryRecords(batch).next_batch(), AiokafkaBatch(batch)):
        assert theirs.validate_crc()
        assert [(r.offset, r.key, r.value) for r in theirs] == expected


headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)


@settings(max_examples=60)
@given(st.lists(st.tuples(timestamps, fields, fields, headers), min_size=1, max_size=10), offsets)
def test_timestamps_and_headers_survive_too(rows, base_offset):
    records = [LogRecord(base_offset + i, *row) for i, row in enumerate(rows)]
    batch = encode_batch(records, producer_id=7, producer_epoch=3, base_sequence=11)
    header = check_batch(batch)
    assert decode_records(batch, 0, header) == records
    assert key_values(batch, 0, header) == [(r.offset, r.key, r.value) for r in records]
    theirs = list(MemoryRecords(batch).next_batch())
    assert [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == records


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_of_64_bits_round_trip(number):
    encoded = varint(number)
    raw, end = raw_varint(encoded + b"more", 0)
    assert (unzigzag(raw), end) == (number, len(encoded))


def test_a_restamped_batch_has_a_new_offset_and_the_old_checksum():
    batch = batch_of([(b"k", b"v")])
    moved = restamp(batch, 2**40, 9)
    header = check_batch(moved)
    assert (header.base_offset, header.leader_epoch, header.crc) == (2**40, 9, read_header(batch).crc)
    assert key_values(moved, 0, header) == [(2**40, b"k", b"v")]


def test_log_append_time_is_every_records_time():
    records = [LogRecord(0, 1000, b"a", None), LogRecord(1, 5000, b"b", None)]
    batch = with_log_append_time(encode_batch(records), 777_777)
    header = check_batch(batch)
    assert header.max_timestamp == 777_777
    assert [r.timestamp for r in decode_records(batch, 0, header)] == [777_777, 777_777]
    assert [r.timestamp for r in MemoryRecords(batch).next_batch()] == [777_777, 777_777]


def test_a_reduced_batch_keeps_its_offsets_and_its_place():
    records = [LogRecord(10 + i, 1000 + i, b"%d" % i, b"v") for i in range(5)]
    batch = encode_batch(records, base_sequence=4)
    header = check_batch(batch)
    reduced = reduce_batch(header, [records[1], records[3]], None)
    after = check_batch(reduced)
    assert (after.base_offset, after.next_offset, after.record_count, after.base_sequence) == (10, 15, 2, 4)
    assert after.max_timestamp == 1003
    assert decode_records(reduced, 0, after) == [records[1], records[3]]
    assert [r.offset for r in MemoryRecords(reduced).next_batch()] == [11, 13]


def test_a_delete_horizon_changes_no_timestamp():
    records = [LogRecord(0, 1000, b"a", None), LogRecord(1, 1001, b"b", None)]
    reduced = reduce_batch(check_batch(encode_batch(records)), records, 99_000)
    header = check_batch(reduced)
    assert header.delete_horizon_ms == 99_000
    assert decode_records(reduced, 0, header) == records
    assert [r.timestamp for r in MemoryRecords(reduced).next_batch()] == [1000, 1001]


@pytest.mark.parametrize("position", range(len(KAFKA_ONE_RECORD)))
def test_any_flipped_bit_that_matters_is_found(position):
    harmed = bytearray(KAFKA_ONE_RECORD)
    harmed[position] ^= 1
    if position < 8 or 12 <= position < 16:
        assert check_batch(bytes(harmed)).crc == check_batch(KAFKA_ONE_RECORD).crc, "offset and epoch are the server's"
    else:
        with pytest.raises(CorruptBatch):
            check_batch(bytes(harmed))


@pytest.mark.parametrize("length", range(len(KAFKA_ONE_RECORD)))
def test_a_batch_cut_anywhere_is_not_a_batch(length):
    with pytest.raises(CorruptBatch):
        check_batch(KAFKA_ONE_RECORD[:length])


def test_split_finds_every_batch_and_nothing_else():
    buffer = KAFKA_ONE_RECORD + KAFKA_TOMBSTONES
    assert [at for at, _ in split(buffer)] == [0, len(KAFKA_ONE_RECORD)]
    with pytest.raises(CorruptBatch):
        split(buffer + b"\0")


def compressed(kind, content, records):
    plain = encode_batch(records, attributes=kind)
    head = bytearray(plain[:61])
    return reseal(bytes(head), content)


def reseal(head, content):
    from google_crc32c import value

    body = head[21:61] + content
    return head[:8] + (len(body) + 9).to_bytes(4) + head[12:17] + value(body).to_bytes(4) + body


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_compressed_records_are_read_and_reduced_with_the_same_codec(kind):
    records = [LogRecord(offset, 1_000 + offset, b"k%d" % offset, b"v" * 100) for offset in range(3)]
    batch = compressed(kind, compress(kind, encode_batch(records)[61:]), records)
    assert decode_records(batch, 0, check_batch(batch)) == records
    reduced = reduce_batch(check_batch(batch), records[1:], None)
    header = check_batch(reduced)
    assert (header.compression, header.base_offset, header.next_offset, header.record_count) == (kind, 0, 3, 2)
    assert decode_records(reduced, 0, header) == records[1:]
    assert check_batch(reduce_batch(check_batch(batch), [], None)).compression == 0


def test_invalid_compressed_data_is_corrupt_and_an_unknown_codec_is_unsupported():
    records = [LogRecord(0, 1, b"k", b"v")]
    for kind, name in ((1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd")):
        batch = compressed(kind, b"...", records)
        with pytest.raises(CorruptBatch, match=name):
            key_values(batch, 0, check_batch(batch))
    batch = compressed(5, b"...", records)
    with pytest.raises(UnsupportedCompression, match="5"):
        key_values(batch, 0, check_batch(batch))


def test_a_decompression_bomb_is_rejected():
    records = [LogRecord(0, 1, b"k", b"v")]
    batch = compressed(1, gzip.compress(bytes(65 * 1024 * 1024), 1), records)
    with pytest.raises(CorruptBatch, match="too large"):
        key_values(batch, 0, check_batch(batch))


@settings(max_examples=200)
@given(st.binary(max_size=60), st.integers(0, 5))
def test_any_bytes_as_records_are_records_or_corrupt(content, count):
    head = encode_batch([LogRecord(0, 1, b"", b"")])[:61]
    batch = reseal(head[:57] + count.to_bytes(4), content)
    header = check_batch(batch)
    for read in (key_values, decode_records):
        try:
            found = read(batch, 0, header)
        except CorruptBatch:
            continue
        assert len(found) == count


FIELDS = st.none() | st.sampled_from([0, 1, 57, 58, 63, 64, 4_090, 4_095, 4_096, 8_191, 8_192, 20_000]).map(bytes)


@settings(max_examples=60)
@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=4), st.sampled_from([0, 62, 4_094, 8_190]))
def test_records_of_every_size_are_counted_and_read_back(records, before):
    """Sizes around those at which a length takes another byte, and beyond the tables. `before`: records added earlier."""
    builder = BatchBuilder()
    builder.add_all([(b"", b"")] * before)
    builder.add_all(records)
    batch = builder.build(5, 1_000)
    assert builder.size_bytes == len(batch)
    found = decode_records(batch, 0, check_batch(batch))
    assert [(record.key, record.value) for record in found[before:]] == records
    assert [record.offset for record in found] == list(range(5, 5 + builder.count))


@pytest.mark.parametrize("before", [0, 60, 4_090])
@pytest.mark.parametrize("size", [0, 1, 40, 63, 64, 4_070, 4_080, 4_090, 5_000])
def test_tombstones_have_the_bytes_of_single_records(before, size):
    together, one_by_one = BatchBuilder(before), BatchBuilder(before)
    keys = [b"k" * size] * 10
    together.add_tombstones(keys)
    one_by_one.add_all([(key, None) for key in keys])
    assert together.records() == one_by_one.records()
    assert (together.count, together.size_bytes) == (one_by_one.count, one_by_one.size_bytes)
