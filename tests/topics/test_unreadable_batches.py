"""Produce refuses batches whose records cannot be read, as Kafka 4.4 does: its answers are in `kafka_4_4_produce.json`.

`pytest -m java tests/topics --rewrite` records the answers of a live Kafka.
"""

import gzip
import json
import time
import zlib
from pathlib import Path
from random import Random
from struct import pack

import cramjam
import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from coordinator.log.batch import CorruptBatch, decode_records, read_header
from coordinator.log.codecs import compress
from coordinator.log.record import varint
from coordinator.log.record_check import Disordered, check_encoding
from coordinator.operations import log_check
from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

ANSWERS = Path(__file__).with_name("kafka_4_4_produce.json")
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
BYTES_MAX = 1_000_000
TOPICS = {
    "plain": {"max.message.bytes": str(BYTES_MAX)},
    "compacted": {"max.message.bytes": str(BYTES_MAX), "cleanup.policy": "compact"},
    "append-time": {"max.message.bytes": str(BYTES_MAX), "message.timestamp.type": "LogAppendTime"},
}
NOW_MS = int(time.time() * 1000)
GARBAGE = Random(7).randbytes(90)


def record(body=None, *, size=None, key=b"k", value=b"v", headers=b"\0", delta=0, time_delta=0, attributes=0):
    """One record; `body` and `size` in the place of what would be right."""
    if body is None:
        body = bytes([attributes]) + varint(time_delta) + varint(delta)
        body += varint(-1) if key is None else varint(len(key)) + key
        body += varint(-1) if value is None else varint(len(value)) + value
        body += headers
    return varint(len(body) if size is None else size) + body


def records(count=3, value=b"v" * 20):
    return b"".join(record(delta=index, value=value) for index in range(count))


def batch(content, codec=0, count=3, *, newest=None, delta=None):
    """A batch with these bytes as its records and a right checksum."""
    newest = NOW_MS if newest is None else newest
    sealed = (
        pack(">hiqqqhii", codec, count - 1 if delta is None else delta, NOW_MS, newest, -1, -1, -1, count) + content
    )
    return pack(">qiibI", 0, len(sealed) + 9, -1, 2, crc32c(sealed)) + sealed


def lengthened(length, content=b"x"):
    """A raw varint, as snappy has it, before the content."""
    out = bytearray()
    while length > 127:
        out.append(length & 127 | 128)
        length >>= 7
    return bytes([*out, length]) + content


def cases():
    """Name -> batch."""
    made = {"good": batch(records())}
    for name, codec in CODECS.items():
        whole = compress(codec, records())
        made |= {
            f"{name}": batch(whole, codec),
            f"{name} garbage": batch(GARBAGE, codec),
            f"{name} cut in half": batch(whole[: len(whole) // 2], codec),
            f"{name} without its last byte": batch(whole[:-1], codec),
            f"{name} without its last 5 bytes": batch(whole[:-5], codec),
            f"{name} and garbage": batch(whole + GARBAGE, codec),
            f"{name} and zeros": batch(whole + bytes(9), codec),
            f"{name} twice": batch(compress(codec, records(1)) + compress(codec, record(delta=1)), codec, 2),
            f"{name} of garbage": batch(compress(codec, GARBAGE), codec),
            f"{name} of nothing": batch(compress(codec, b""), codec, 1),
            f"{name} empty": batch(b"", codec, 1),
            f"{name} of a record too many": batch(compress(codec, records(4)), codec),
            f"{name} of a record too few": batch(compress(codec, records(2)), codec),
            f"{name} of one record that counts a million": batch(compress(codec, records(1)), codec, 1_000_000),
            f"{name} with a last byte too many": batch(compress(codec, records() + b"x"), codec),
            f"{name} of a cut record": batch(compress(codec, records()[:-3]), codec),
            f"{name} with a changed byte": batch(whole[:-9] + bytes([whole[-9] ^ 0x55]) + whole[-8:], codec),
        }
    plain = zlib.compressobj()
    made |= {
        "gzip with a wrong checksum": batch(compress(GZIP, records())[:-8] + bytes(8), GZIP),
        "gzip: zlib": batch(plain.compress(records()) + plain.flush(), GZIP),
        "gzip with a name": batch(gzip.compress(records()), GZIP),
        "snappy raw": batch(bytes(cramjam.snappy.compress_raw(records())), SNAPPY),
        "snappy raw claims 4 GB": batch(lengthened((1 << 32) - 1), SNAPPY),
        "snappy raw claims 1 GB": batch(lengthened(1 << 30), SNAPPY),
        "snappy block claims 4 GB": batch(
            compress(SNAPPY, b"")[:16] + pack(">i", 6) + lengthened((1 << 32) - 1), SNAPPY
        ),
        "snappy block of a negative size": batch(compress(SNAPPY, b"")[:16] + pack(">i", -6) + b"x", SNAPPY),
        "snappy framed": batch(bytes(cramjam.snappy.compress(records())), SNAPPY),
        "lz4 with linked blocks": batch(bytes(cramjam.lz4.compress(records())), LZ4),
        "zstd claims 2^60": batch(b"\x28\xb5\x2f\xfd\xe0" + pack("<Q", 1 << 60) + b"\x01\x00\x00", ZSTD),
        "zstd with a window of 2^41": batch(b"\x28\xb5\x2f\xfd\x00\xf8" + b"\x01\x00\x00", ZSTD),
        "zstd skippable frame first": batch(b"\x50\x2a\x4d\x18\x02\0\0\0ab" + compress(ZSTD, records()), ZSTD),
        "codec 5": batch(records(), 5),
        "codec 7": batch(records(), 7),
        "garbage": batch(GARBAGE),
        "no records": batch(b""),
        "a count of a million": batch(records(1), count=1_000_000),
        "a count of 0": batch(records(1), count=0),
        "a record too many": batch(records(4)),
        "a record too few": batch(records(2)),
        "a last byte too many": batch(records() + b"x"),
        "a cut record": batch(records()[:-3]),
        "too long for the topic": batch(records(1, bytes(BYTES_MAX)), count=1),
        "too long and garbage": batch(bytes(BYTES_MAX), count=1),
        "gzip of 70 MB": batch(compress(GZIP, record(value=bytes(70 << 20))), GZIP, 1),
        "zstd of 70 MB": batch(compress(ZSTD, record(value=bytes(70 << 20))), ZSTD, 1),
        "a wrong newest timestamp": batch(records(), newest=NOW_MS - 5_000),
        "timestamps far away and garbage": batch(GARBAGE, newest=NOW_MS + 10**10),
        "a record of year 2200 in a batch of today": batch(record(time_delta=5 * 10**12), count=1),
    }
    odd = {
        "size 0": b"\0",
        "a negative size": record(size=-1),
        "a size beyond the batch": record(size=500),
        "a size of one less": record(size=6),
        "a size of one more": record(size=8) + b"x",
        "a size of six bytes": b"\x90\x80\x80\x80\x80\0" + record()[1:],
        "a size of five bytes": b"\x90\x80\x80\x80\0" + record()[1:],
        "an attribute": record(attributes=0x7F),
        "no key": record(key=None),
        "no value": record(value=None),
        "a key of length -2": record(b"\0\0\0" + varint(-2) + varint(1) + b"v" + varint(0)),
        "a value of length -2": record(b"\0\0\0" + varint(1) + b"k" + varint(-2) + varint(0)),
        "a key beyond the record": record(b"\0\0\0" + varint(50) + b"k" + varint(0) + varint(0)),
        "a key beyond the batch": record(b"\0\0\0" + varint(5_000_000) + b"k" + varint(0) + varint(0)),
        "a value beyond the record": record(b"\0\0\0" + varint(1) + b"k" + varint(50) + varint(0)),
        "a timestamp of eleven bytes": record(b"\0" + b"\x80" * 10 + b"\0\0" + varint(1) + b"k" + varint(1) + b"v\0"),
        "an offset of six bytes": record(b"\0\0" + b"\x80" * 5 + b"\0" + varint(1) + b"k" + varint(1) + b"v\0"),
        "an offset of another record": record(delta=5),
        "a negative offset": record(delta=-5),
        "a header": record(headers=varint(1) + varint(1) + b"h" + varint(1) + b"v"),
        "a header without a value": record(headers=varint(1) + varint(1) + b"h" + varint(-1)),
        "a header without a name": record(headers=varint(1) + varint(-1) + varint(1) + b"v"),
        "a header whose name is not UTF-8": record(headers=varint(1) + varint(1) + b"\xff" + varint(1) + b"v"),
        "a header's value of length -2": record(headers=varint(1) + varint(1) + b"h" + varint(-2)),
        "a header beyond the record": record(headers=varint(1) + varint(9) + b"h" + varint(1) + b"v"),
        "a header too few": record(headers=varint(2) + varint(1) + b"h" + varint(1) + b"v"),
        "a header too many": record(headers=varint(0) + varint(1) + b"h" + varint(1) + b"v"),
        "-1 headers": record(headers=varint(-1)),
        "a million headers": record(headers=varint(1_000_000)),
    }
    for name, content in odd.items():
        made[f"one record with {name}"] = batch(content, count=1)
        made[f"gzip of one record with {name}"] = batch(compress(GZIP, content), GZIP, 1)
    return made


CASES = cases()
HEADER = varint(1) + varint(1) + b"h" + varint(1) + b"v"
TOO_LARGE, INVALID, UNKNOWN = 10, 87, -1
DIFFERENT = {
    # More than is looked into. Producers split a batch that is too large, so they get it through.
    "gzip of 70 MB": TOO_LARGE,
    "zstd of 70 MB": TOO_LARGE,
    **{f"{codec} of one record that counts a million": TOO_LARGE for codec in CODECS},
    # Kafka accepts compressed records with a wrong size of their own, and its consumers cannot read them.
    "gzip of one record with a size beyond the batch": INVALID,
    "gzip of one record with a size of one less": INVALID,
    # Both refuse it, for another of two reasons.
    "gzip with a changed byte": UNKNOWN,
    "one record with a size of six bytes": INVALID,
    # Up to version 6 a Kafka broker refuses the whole request.
    "codec 5": UNKNOWN,
    "codec 7": UNKNOWN,
}
"""The error of batches that are not answered as by Kafka."""
VERSIONS = (3, 7, 8, 12)


def create_topics(link):
    wanted = [
        {
            "name": name,
            "num_partitions": 2,
            "replication_factor": 1,
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        for name, configs in TOPICS.items()
    ]
    answer = link.call("CreateTopics", 5, topics=wanted, timeout_ms=30_000)
    assert {topic["error_code"] for topic in answer["topics"]} == {0}
    wait_until(lambda: sent(link, "plain", CASES["good"], 12)[1]["error_code"] == 0, "the topics")


def sent(link, topic, data, version):
    """The answers for partition 0, which gets the batch, and for partition 1, which gets a good one."""
    parts = [{"index": 0, "records": data}, {"index": 1, "records": CASES["good"]}]
    request = {"transactional_id": None, "acks": -1, "timeout_ms": 10_000}
    answer = link.call("Produce", version, **request, topic_data=[{"name": topic, "partition_data": parts}])
    return sorted(answer["responses"][0]["partition_responses"], key=lambda part: part["index"])


def answers(link, topic, version):
    """Case -> what the batch got; `other`: the error of the good batch in the same request."""
    found = {}
    for name, data in CASES.items():
        bad, good = sent(link, topic, data, version)
        answered = {"error": bad["error_code"], "is_appended": bad["base_offset"] >= 0}
        if bad.get("error_message"):
            answered["message"] = bad["error_message"]
        if bad.get("record_errors"):
            answered["records"] = [each["batch_index"] for each in bad["record_errors"]]
        if version >= 5 and bad["error_code"]:
            answered["start"] = bad["log_start_offset"]
        if good["error_code"]:
            answered["other"] = good["error_code"]
        found[name] = answered
    return found


def all_answers(link):
    asked = [("plain", version) for version in VERSIONS] + [("compacted", 12), ("append-time", 12)]
    return {f"{topic} v{version}": answers(link, topic, version) for topic, version in asked}


def recorded():
    return json.loads(ANSWERS.read_text())


def test_batches_are_accepted_and_refused_as_by_kafka_and_what_was_accepted_is_readable(tmp_path, capsys):
    with ServerProcess(tmp_path) as server:
        with Connection(server.bootstrap) as link:
            create_topics(link)
            found = all_answers(link)
        data_dir = server.data_dir
    for topic, expected in recorded().items():
        for name, answered in expected.items():
            ours = found[topic][name]
            if name in DIFFERENT:
                assert ours["error"] == DIFFERENT[name] or ours == answered, (topic, name)
            else:
                assert ours == answered, (topic, name)
    assert log_check.run(Path(data_dir), as_json=False) == 0, capsys.readouterr().out


def test_offsets_of_compressed_records_are_consecutive():
    with pytest.raises(Disordered):
        check_encoding(record(delta=0) + record(delta=2), 2, ordered=True)
    assert check_encoding(record(delta=0) + record(delta=2), 2, ordered=False) == (0, 0)


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**40), 2**40),
            st.none() | st.binary(max_size=200),
            st.none() | st.binary(max_size=20_000),
            st.booleans(),
        ),
        min_size=1,
        max_size=5,
    ),
    st.data(),
)
def test_a_batch_passes_if_and_only_if_its_records_can_be_decoded(drawn, data):
    content = b"".join(
        record(key=key, value=value, time_delta=time_delta, delta=index, headers=HEADER if has_header else b"\0")
        for index, (time_delta, key, value, has_header) in enumerate(drawn)
    )
    deltas = [each[0] for each in drawn if not -8_192 <= each[0] < 8_192]
    earliest, latest = check_encoding(content, len(drawn), ordered=True)
    assert earliest <= min(deltas, default=0) <= max(deltas, default=0) <= latest
    broken = bytearray(content)
    broken[data.draw(st.integers(0, min(len(broken), 40) - 1))] = data.draw(st.integers(0, 255))
    whole = batch(bytes(broken), count=len(drawn))
    try:
        check_encoding(bytes(broken), len(drawn), ordered=False)
    except CorruptBatch:
        return
    decode_records(whole, 0, read_header(whole))


@pytest.mark.thorough
@pytest.mark.java
def test_kafka_refuses_these_batches_so(tmp_path, request):
    broker = KafkaBroker(tmp_path)
    broker.start()
    try:
        with Connection(broker.bootstrap) as link:
            create_topics(link)
            found = all_answers(link)
    finally:
        broker.stop()
    if request.config.getoption("--rewrite"):
        ANSWERS.write_text(as_lines(found))
    assert found == recorded()


def as_lines(answers):
    """JSON with a line for each case."""
    rounds = []
    for name, cases in sorted(answers.items()):
        lines = (
            f"  {json.dumps(case)}: {json.dumps(answer, sort_keys=True)}" for case, answer in sorted(cases.items())
        )
        rounds.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(rounds) + "\n}\n"
