"""`coordinator log dump` and `log check` on intact, torn and damaged logs, which they never change."""

import io
import json
from pathlib import Path

import pytest

from coordinator.log.batch import COMPRESSION_NAMES, HEADER_BYTES, TRANSACTIONAL, LogRecord, read_header
from coordinator.log.batch_builder import encode_batch, encode_records, seal
from coordinator.log.codecs import compress
from coordinator.log.end_transaction_marker import end_transaction  # fmt: skip
from coordinator.operations.progress import progress
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import (
    ClassicGroupGenerationKey,
    ClassicGroupGenerationValue,
    GroupMetadataKey,
    GroupMetadataValue,
    message_class,
)
from coordinator.protocol.subscription import Assignment, Subscription, encode_assignment, encode_subscription
from coordinator.runtime.result import Record
from coordinator.runtime.serde import Serde
from coordinator.topics import metadata_records
from coordinator.transactions.records import transaction_record
from coordinator.transactions.transaction import State, Transaction
from tests.operations.logs import NOW_MS, SERDE, checkpoint, commit, content, run, text, write
from tests.support.waiting import wait_until
from tests.support.wire import Connection


def checked(capsys: pytest.CaptureFixture[str], folder: Path) -> tuple[int, list[dict]]:
    before = content(folder)
    code, out, _ = run(capsys, "check", folder, "--json")
    assert content(folder) == before, "the command changed a file"
    return code, json.loads(out)["logs"]


def dumped(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> list[dict]:
    _, out, _ = run(capsys, "dump", folder, "--json", *options)
    return [json.loads(line) for line in out.splitlines()]


# --- check ------------------------------------------------------------------------------------------------------------


def test_check_finds_an_intact_data_folder_good_and_counts_its_records(tmp_path, capsys):
    write(tmp_path / "__consumer_offsets-0", encode_batch([commit(0), commit(1)]), encode_batch([commit(2)]))
    write(tmp_path / "orders-10", encode_batch([text(5)]), base_offset=5)
    write(tmp_path / "orders-9")
    code, logs = checked(capsys, tmp_path)
    assert code == 0
    found = {Path(log["folder"]).name: log for log in logs}
    assert list(found) == ["__consumer_offsets-0", "orders-9", "orders-10"]
    offsets = found["__consumer_offsets-0"]
    assert (offsets["verdict"], offsets["batches"], offsets["records"], offsets["next_offset"]) == ("good", 2, 3, 3)
    assert (found["orders-10"]["first_offset"], found["orders-10"]["next_offset"]) == (5, 6)


def test_the_table_of_check_ends_with_a_summary(tmp_path, capsys):
    write(tmp_path / "orders-0", encode_batch([text(0)]))
    code, out, err = run(capsys, "check", tmp_path)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "1 logs (0 empty), 1 records: no problems"


def test_check_reports_a_torn_tail_with_file_position_and_last_good_offset(tmp_path, capsys):
    intact = encode_batch([commit(0), commit(1)])
    path = write(tmp_path / "__consumer_offsets-0", intact, encode_batch([commit(2)])[:-3])
    code, [log] = checked(capsys, tmp_path)
    assert (code, log["verdict"]) == (1, "torn tail")
    [problem] = log["problems"]
    assert problem["file"] == str(path)
    assert (problem["position"], problem["last_good_offset"]) == (len(intact), 1)


def test_check_reports_damage_before_the_checkpoint_and_continues_with_the_next_file(tmp_path, capsys):
    folder = tmp_path / "__consumer_offsets-0"
    first = bytearray(encode_batch([commit(0)]) + encode_batch([commit(1)]))
    first[len(first) // 2 + HEADER_BYTES + 5] ^= 1
    write(folder, bytes(first))
    write(folder, encode_batch([commit(2)]), base_offset=2)
    checkpoint(folder, 3)
    code, [log] = checked(capsys, folder)
    assert (code, log["verdict"], log["batches"]) == (1, "damage", 2)
    [problem] = log["problems"]
    assert (problem["last_good_offset"], problem["position"]) == (0, len(first) // 2)
    assert "checksum" in problem["reason"]


def test_a_missing_segment_is_damage_with_a_checkpoint_and_normal_in_kafkas_logs(tmp_path, capsys):
    folder = tmp_path / "__consumer_offsets-0"
    write(folder, encode_batch([commit(0)]))
    write(folder, encode_batch([commit(9)]), base_offset=9)
    assert checked(capsys, folder)[0] == 0
    checkpoint(folder, 10)
    code, [log] = checked(capsys, folder)
    assert code == 1
    assert log["problems"][0]["reason"] == "the file starts at offset 9 instead of 1"


def test_a_log_that_ends_before_its_checkpoint_is_damaged(tmp_path, capsys):
    folder = tmp_path / "__consumer_offsets-0"
    write(folder, encode_batch([commit(0)]))
    checkpoint(folder, 2)
    code, [log] = checked(capsys, folder)
    assert (code, log["verdict"], log["problems"][0]["last_good_offset"]) == (1, "damage", 0)


def test_check_finds_undecodable_records_although_the_checksum_is_correct(tmp_path, capsys):
    broken = commit(1)._replace(value=b"\0\3\0")
    write(tmp_path / "__consumer_offsets-0", encode_batch([commit(0), broken]))
    code, [log] = checked(capsys, tmp_path)
    assert (code, log["verdict"]) == (1, "unreadable record")
    assert log["problems"][0]["last_good_offset"] == 0


def test_check_counts_records_of_unknown_types_and_versions_without_an_error(tmp_path, capsys):
    newer = commit(1)._replace(value=b"\0\x63rest")
    alien = LogRecord(0, NOW_MS, b"\x03\xe7key", b"value")
    write(tmp_path / "__consumer_offsets-0", encode_batch([alien, newer]))
    code, [log] = checked(capsys, tmp_path)
    assert (code, log["records_of_unknown_type"]) == (0, 2)


def test_check_names_the_files_of_an_unfinished_compaction(tmp_path, capsys):
    folder = tmp_path / "__consumer_offsets-0"
    write(folder, encode_batch([commit(0)]))
    (folder / "00000000000000000000.log.cleaned").write_bytes(b"")
    code, [log] = checked(capsys, folder)
    assert (code, log["unfinished_files"]) == (0, ["00000000000000000000.log.cleaned"])


@pytest.mark.parametrize("command", ["check", "dump"])
def test_a_path_without_logs_is_refused_with_exit_code_2(tmp_path, capsys, command):
    for folder in (tmp_path, tmp_path / "missing"):
        code, out, err = run(capsys, command, folder)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert str(folder) in err


# --- dump -------------------------------------------------------------------------------------------------------------


def test_dump_shows_commits_as_messages_and_tombstones_as_null(tmp_path, capsys):
    write(tmp_path / "__consumer_offsets-7", encode_batch([commit(0), commit(1, value=None)]))
    kept, gone = dumped(capsys, tmp_path)
    assert kept["type"] == "OffsetCommit"
    assert kept["key"] == {"group": "g", "topic": "t", "partition": 0}
    assert (kept["value"]["version"], kept["value"]["offset"], kept["value"]["metadata"]) == (3, 42, "m")
    assert gone["value"] is None
    assert (gone["log"], gone["offset"], gone["batch"]["base_offset"]) == ("__consumer_offsets-7", 1, 0)


def test_dump_shows_topics_and_partitions_of_consumers(tmp_path, capsys):
    member = GroupMetadataValue.MemberMetadata(
        member_id="m-1",
        subscription=encode_subscription(Subscription(("t",), None, {}, -1, None, 0)),
        assignment=encode_assignment(Assignment({"t": (0, 2)}, None, 0)),
    )
    group = GroupMetadataValue(protocol_type="consumer", generation=1, members=[member])
    key, value = SERDE.encode(Record(GroupMetadataKey(group="g"), group, 3))
    write(tmp_path / "__consumer_offsets-0", encode_batch([LogRecord(0, NOW_MS, key, value)]))
    [row] = dumped(capsys, tmp_path)
    [shown] = row["value"]["members"]
    assert (shown["subscribed_topics"], shown["assigned_partitions"]) == (["t"], {"t": [0, 2]})


def test_dump_shows_the_topics_of_a_generation_without_an_assignment(tmp_path, capsys):
    member = ClassicGroupGenerationValue.MemberMetadata(
        member_id="m-1", subscription=encode_subscription(Subscription(("t",), None, {}, -1, None, 0))
    )
    value = ClassicGroupGenerationValue(protocol_type="consumer", generation=2, members=[member])
    pair = SERDE.encode(Record(ClassicGroupGenerationKey("g"), value))
    write(tmp_path / "__consumer_offsets-0", encode_batch([LogRecord(0, NOW_MS, *pair)]))
    [row] = dumped(capsys, tmp_path)
    [shown] = row["value"]["members"]
    assert (row["type"], row["value"]["generation"]) == ("ClassicGroupGeneration", 2)
    assert shown["subscribed_topics"] == ["t"]
    assert "assigned_partitions" not in shown


def test_dump_shows_records_of_users_as_text_or_base64(tmp_path, capsys):
    write(tmp_path / "orders-0", encode_batch([text(0), LogRecord(1, NOW_MS, None, b"\xff")]))
    first, second = dumped(capsys, tmp_path)
    assert (first["key"], first["value"], first["headers"]) == (
        "k",
        "v",
        [{"name": "h", "value": {"base64": "/w=="}}],
    )
    assert (second["key"], second["value"]) == (None, {"base64": "/w=="})


SHARE_GROUP = (
    (
        "000a0007776f726b6572730016717872585263787654646d443366685a5a44464c3441"
        ":00000013636f6e73756d65722d776f726b6572732d310b2f3132372e302e302e310206717565756500"
    ),
    "000b0007776f726b657273:000000000002c5fe671e45e3db3000",
    (
        "000d0007776f726b6572730016717872585263787654646d443366685a5a44464c3441"
        ":0000029399619208404ea0bf2d671959e938f40300000000000000010000"
    ),
    "000c0007776f726b657273:000000000002010008000001a219ee5645",
    (
        "000e0007776f726b6572730016717872585263787654646d443366685a5a44464c3441"
        ":0000000000030000000200029399619208404ea0bf2d671959e938f40300000000000000010000"
    ),
    "000f0007776f726b657273:0000029399619208404ea0bf2d671959e938f406717565756503000000000000000100010100",
)
"""Records of a share group in `__consumer_offsets` of Kafka 4.4.0: key and value."""
SHARE_STATE = (
    (
        "00000007776f726b6572739399619208404ea0bf2d671959e938f400000000"
        ":0000000000000000000200000000ffffffffffffffff000001a219ee68da000001a219ee68da0100"
    ),
    (
        "00010007776f726b6572739399619208404ea0bf2d671959e938f400000000:"
        "00000000000000000000000000000000000005000000000000000000000000000000000200010000000000000000010000000000"
        "00000100000100000000000000000200000000000000020400010000000000000000030000000000000003020001000100040000"
        "0003"
    ),
)
"""Records of its partition in `__share_group_state`: made, then two records accepted, one released and one rejected."""


def kafka_batch(records: tuple[str, ...]) -> bytes:
    """These records, each as hexadecimal digits of its key and value."""
    pairs = [[bytes.fromhex(digits) for digits in record.split(":")] for record in records]
    return encode_batch([LogRecord(offset, NOW_MS, key, value) for offset, (key, value) in enumerate(pairs)])


def test_dump_shows_share_groups_of_kafka_as_messages(tmp_path, capsys):
    write(tmp_path / "__consumer_offsets-0", kafka_batch(SHARE_GROUP))
    member, group, part, target, current, state = dumped(capsys, tmp_path)
    assert (member["type"], member["value"]["subscribed_topic_names"]) == ("ShareGroupMemberMetadata", ["queue"])
    assert (group["type"], group["value"]["epoch"]) == ("ShareGroupMetadata", 2)
    assert (part["type"], part["value"]["topic_partitions"][0]["partitions"]) == (
        "ShareGroupTargetAssignmentMember",
        [0, 1],
    )
    assert target["value"] == {"version": 0, "assignment_epoch": 2, "assignment_timestamp": 1_795_731_379_781}
    assert (current["type"], current["value"]["member_epoch"]) == ("ShareGroupCurrentMemberAssignment", 3)
    assert state["value"]["initializing_topics"][0]["topic_name"] == "queue"
    assert checked(capsys, tmp_path)[1][0]["records_of_unknown_type"] == 0


def test_dump_shows_the_share_state_of_kafka_as_messages(tmp_path, capsys):
    write(tmp_path / "__share_group_state-2", kafka_batch(SHARE_STATE))
    snapshot, update = dumped(capsys, tmp_path)
    assert snapshot["type"] == "ShareSnapshot"
    assert (snapshot["key"]["group_id"], snapshot["key"]["partition"]) == ("workers", 0)
    assert (snapshot["value"]["state_epoch"], snapshot["value"]["start_offset"]) == (2, -1)
    assert update["type"] == "ShareUpdate"
    assert update["value"]["delivery_complete_count"] == 3
    assert [(each["first_offset"], each["delivery_state"]) for each in update["value"]["state_batches"]] == [
        (0, 2),
        (1, 0),
        (2, 4),
        (3, 2),
    ]
    write(tmp_path / "copy", kafka_batch(SHARE_STATE))
    assert dumped(capsys, tmp_path / "copy", "--as", "share-state")[0]["type"] == "ShareSnapshot"


def test_dump_decodes_a_folder_of_another_name_as_specified(tmp_path, capsys):
    write(tmp_path / "copy", encode_batch([commit(0)]))
    assert dumped(capsys, tmp_path / "copy")[0]["type"] == ""
    assert dumped(capsys, tmp_path / "copy", "--as", "offsets")[0]["type"] == "OffsetCommit"


def test_dump_shows_compressed_batches_and_names_an_unknown_compression(tmp_path, capsys):
    plain = encode_batch([text(0)])
    header = read_header(plain)
    records = b"".join(encode_records([text(0)], 0, header.base_timestamp))

    def compressed(codec: int, data: bytes, offset: int) -> bytes:
        body = bytearray(plain[21:HEADER_BYTES])
        body[1] |= codec
        return seal(offset, 0, bytes(body), [data])

    write(
        tmp_path / "orders-0", *(compressed(n, compress(n, records), n) for n in range(1, 5)), compressed(5, b"..", 5)
    )
    *shown, named = dumped(capsys, tmp_path)
    assert [(row["value"], row["batch"]["compression"]) for row in shown] == [
        ("v", name) for name in COMPRESSION_NAMES[1:]
    ]
    assert "compressed with 5" in named["type"]
    assert run(capsys, "check", tmp_path)[0] == 0


def test_dump_knows_every_kind_of_record_that_the_metadata_log_has(tmp_path, capsys):
    records = [
        LogRecord(offset, NOW_MS, None, metadata_records.encode(message_class(name)()))
        for offset, name in enumerate(metadata_records.NAMES.values())
    ]
    write(tmp_path / "__cluster_metadata-0", encode_batch(records))
    types = [each["type"] for each in dumped(capsys, tmp_path)]
    assert types == [name.removesuffix("Record") for name in metadata_records.NAMES.values()]


def test_dump_names_markers(tmp_path, capsys):
    marker = LogRecord(0, NOW_MS, b"\0\0\0\1", b"\0\0\0\0\0\0")
    write(tmp_path / "orders-0", encode_batch([marker], attributes=0x30))
    assert dumped(capsys, tmp_path)[0]["type"] == "control: commit"


def test_dump_shows_the_producer_of_transactional_offsets_and_of_their_marker(tmp_path, capsys):
    mine = {"producer_id": 7, "producer_epoch": 3}
    pending = encode_batch([commit(0)], **mine, attributes=TRANSACTIONAL)
    end = end_transaction(1, NOW_MS, **mine, commit=False, coordinator_epoch=5)
    write(tmp_path / "__consumer_offsets-0", pending, end)
    shown, ended = dumped(capsys, tmp_path)
    assert (shown["type"], shown["batch"]["transactional"], shown["batch"]["producer_id"]) == ("OffsetCommit", True, 7)
    assert (ended["type"], ended["value"]) == ("control: abort", {"coordinator_epoch": 5})
    _, out, _ = run(capsys, "dump", tmp_path)
    assert out.splitlines()[0].split()[3:5] == ["OffsetCommit", "producer=7/3"]
    assert out.splitlines()[1].endswith(' control:-abort producer=7/3 key=null value={"coordinator_epoch":5}')
    assert run(capsys, "check", tmp_path)[0] == 0


def test_check_reports_an_incomplete_marker(tmp_path, capsys):
    write(tmp_path / "__consumer_offsets-0", encode_batch([LogRecord(0, NOW_MS, b"\0\0\0\1", b"\0")], attributes=0x30))
    code, [log] = checked(capsys, tmp_path)
    assert code == 1
    assert "coordinator's epoch" in log["problems"][0]["reason"]


def test_a_line_of_dump_has_log_offset_time_type_key_and_value(tmp_path, capsys):
    write(tmp_path / "__consumer_offsets-0", encode_batch([commit(0, value=None)]))
    _, out, _ = run(capsys, "dump", tmp_path)
    assert out == (
        "__consumer_offsets-0 0 2023-11-14T22:13:20.000Z OffsetCommit "
        'key={"group":"g","topic":"t","partition":0} tombstone\n'
    )


def test_dump_reports_problems_on_stderr_and_returns_1(tmp_path, capsys):
    write(tmp_path / "__consumer_offsets-0", encode_batch([commit(0)]), b"\1" * 10)
    code, out, err = run(capsys, "dump", tmp_path)
    assert code == 1
    assert out.count("\n") == 1
    assert "torn tail at position" in err


# --- a real folder ----------------------------------------------------------------------------------------------------


def test_the_folder_of_a_running_server_can_be_dumped_and_checked(coordinator_process, capsys):
    server = coordinator_process()
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    with Connection(server.bootstrap) as connection:
        answer = connection.call(
            "OffsetCommit", 8, group_id="g", topics=[{"name": "orders", "partitions": [partition]}]
        )
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0
    assert run(capsys, "check", server.data_dir)[0] == 0

    def committed():
        """Segments follow the journal within a tenth of a second."""
        rows = dumped(capsys, server.data_dir)
        return rows if any(row["type"] == "OffsetCommit" for row in rows) else None

    rows = wait_until(committed, "the commit to be in the segment")
    assert [row["value"]["offset"] for row in rows if row["type"] == "OffsetCommit"] == [7]
    assert "orders" in [row["value"]["name"] for row in rows if row["type"] == "Topic"]


# --- progress ---------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "shown"), [(Terminal, True), (io.StringIO, False)])
def test_there_is_a_progress_bar_only_on_a_terminal(monkeypatch, stream, shown):
    error = stream()
    monkeypatch.setattr("sys.stderr", error)
    monkeypatch.setattr("coordinator.operations.progress.SHOWN_AFTER_S", 0)
    with progress("checking", 100) as advance:
        advance(100)
    assert ("checking" in error.getvalue()) is shown


def test_dump_shows_the_name_of_the_state_of_a_transaction(tmp_path, capsys):
    serde = Serde(Codec.of(), ("TransactionLogKey",))
    partitions = frozenset({("t", 1)})
    open_one = Transaction("tx", 7, 7, -1, 3, 60_000, State.ONGOING, partitions, NOW_MS, NOW_MS, 2)
    key, value = serde.encode(transaction_record(open_one, 2))
    write(tmp_path / "__transaction_state-0", encode_batch([LogRecord(0, NOW_MS, key, value)]))
    (shown,) = dumped(capsys, tmp_path)
    assert (shown["type"], shown["key"]) == ("TransactionLog", {"transactional_id": "tx"})
    assert (shown["value"]["state"], shown["value"]["producer_epoch"]) == ("Ongoing", 3)
