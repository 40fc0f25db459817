"""The readers of the source, without a JVM: planning and reading folders, complete, split, growing, rewritten and damaged."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from coordinator.log.recovery import DamagedLog
from pyspark_coordinator_log import planning
from pyspark_coordinator_log.columns import SCHEMAS
from pyspark_coordinator_log.folders import NoLog
from pyspark_coordinator_log.options import BadOption, parse, shard_of
from pyspark_coordinator_log.reading import DataLoss, read
from pyspark_coordinator_log.source import LogReader, LogStreamReader
from tests.pipeline import foreign_logs as made
from tests.pipeline.foreign_logs import Commit, write_log


def commit(offset: int, group: str = "g") -> bytes:
    return made.commits(offset, [Commit(group, "t", 0, offset)], timestamp_ms=made.NOW_MS + offset)


def three_each(first: int, last: int) -> list[bytes]:
    """Batches of three commits from offset `first` to before `last`."""
    return [
        made.commits(offset, [Commit(f"g{(offset + n) % 5}", "t", 0, offset + n) for n in range(3)])
        for offset in range(first, last, 3)
    ]


def batch_reader(data: Path, **options: Any) -> LogReader:
    given = {"path": str(data)} | {name: str(value) for name, value in options.items()}
    parsed = parse(given)
    return LogReader(parsed, SCHEMAS[parsed.view].names)


def rows(reader: LogReader | LogStreamReader, partitions: Any) -> list[dict[str, Any]]:
    return [row for partition in partitions for table in reader.read(partition) for row in table.to_pylist()]


def batch(data: Path, **options: Any) -> list[dict[str, Any]]:
    reader = batch_reader(data, **options)
    return rows(reader, reader.partitions())


def offsets(found: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in found]


# --- batch reads ------------------------------------------------------------------------------------------------------


def test_every_record_of_every_shard_is_read_once(tmp_path):
    write_log(tmp_path, [three_each(0, 30), three_each(30, 60)], shard=0)
    write_log(tmp_path, [three_each(0, 9)], shard=1)
    found = batch(tmp_path)
    assert [(row["shard"], row["offset"]) for row in found] == [(0, n) for n in range(60)] + [(1, n) for n in range(9)]
    assert {row["log_id"] for row in found} == {"test-cluster"}


@pytest.mark.parametrize("every", [0, 100, 1000])
def test_splits_are_at_batches_and_cover_everything(tmp_path, every, monkeypatch):
    monkeypatch.setattr("pyspark_coordinator_log.options.SPLIT_BYTES_MIN", 1)
    write_log(tmp_path, [three_each(0, 300), three_each(300, 600), three_each(600, 609)], index_every=every)
    reader = batch_reader(tmp_path, splitBytes=2000)
    parts = reader.partitions()
    assert offsets(rows(reader, parts)) == list(range(609))
    assert len(parts) > 10


def test_a_large_log_without_indexes_is_split_only_at_segments(tmp_path, monkeypatch):
    monkeypatch.setattr("pyspark_coordinator_log.options.SPLIT_BYTES_MIN", 1)
    monkeypatch.setattr("pyspark_coordinator_log.planning.WALKED_BYTES_MAX", 30_000)
    write_log(tmp_path, [three_each(0, 300), three_each(300, 600), three_each(600, 609)])
    reader = batch_reader(tmp_path, splitBytes=2000)
    parts = reader.partitions()
    assert offsets(rows(reader, parts)) == list(range(609))
    assert len(parts) == 3


def test_batches_larger_than_the_planning_window_are_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr("pyspark_coordinator_log.options.SPLIT_BYTES_MIN", 1)
    monkeypatch.setattr("pyspark_coordinator_log.folders._WINDOW_BYTES", 100)
    write_log(tmp_path, [three_each(0, 300)])
    reader = batch_reader(tmp_path, splitBytes=2000)
    parts = reader.partitions()
    assert offsets(rows(reader, parts)) == list(range(300))
    assert len(parts) == 10


def test_a_segment_is_not_split_at_a_batch_inside_commit_metadata(tmp_path, monkeypatch):
    """It has magic, offsets and checksum like any batch; only a walk from the beginning shows that it is not one."""
    monkeypatch.setattr("pyspark_coordinator_log.options.SPLIT_BYTES_MIN", 1)
    forged = commit(1, "forged").decode("latin-1")
    text = made.commits(1, [Commit("g", "t", 0, 1, metadata="m" * len(forged))])
    poisoned = made.resealed(text.replace(b"m" * len(forged), forged.encode("latin-1")))
    write_log(tmp_path, [[commit(0), poisoned, commit(2)]])
    for split in range(100, 400, 7):
        assert {row["group"] for row in batch(tmp_path, splitBytes=split)} == {"g"}


def test_nothing_is_split_after_damage_and_the_reader_reports_it(tmp_path, monkeypatch):
    monkeypatch.setattr("pyspark_coordinator_log.options.SPLIT_BYTES_MIN", 1)
    batches = three_each(0, 300)
    batches[50] = batches[50][:16] + b"\7" + batches[50][17:]
    write_log(tmp_path, [batches, three_each(300, 303)])
    with pytest.raises(DamagedLog) as refused:
        batch(tmp_path, splitBytes=2000)
    assert refused.value.position == sum(map(len, batches[:50]))


def test_an_index_that_does_not_match_its_segment_is_ignored(tmp_path, monkeypatch):
    monkeypatch.setattr("pyspark_coordinator_log.options.SPLIT_BYTES_MIN", 1)
    folder = write_log(tmp_path, [three_each(0, 300)], index_every=100)
    index = folder / f"{0:020d}.index"
    content = index.read_bytes()
    shifted = [made.INDEX.unpack_from(content, at) for at in range(0, len(content) - 80, 8)]
    index.write_bytes(b"".join(made.INDEX.pack(offset, position + 5) for offset, position in shifted))
    assert offsets(batch(tmp_path, splitBytes=2000)) == list(range(300))


def test_small_shards_share_a_task(tmp_path):
    for shard in range(20):
        write_log(tmp_path, [three_each(0, 9)], shard=shard)
    assert len(batch_reader(tmp_path).partitions()) == 1


def test_options_select_shards_and_groups(tmp_path):
    for shard in range(4):
        write_log(tmp_path, [[commit(0, "a"), commit(1, "b")]], shard=shard)
    assert {row["shard"] for row in batch(tmp_path, shards="0,2-3")} == {0, 2, 3}
    assert {row["group"] for row in batch(tmp_path, groups="b")} == {"b"}
    only = batch(tmp_path, groups='["a"]', shardCount=4)
    assert [(row["shard"], row["group"]) for row in only] == [(shard_of("a", 4), "a")]


def test_since_and_until_are_half_open(tmp_path):
    write_log(tmp_path, [[commit(offset) for offset in range(10)]])
    assert offsets(batch(tmp_path, since=made.NOW_MS + 3, until=made.NOW_MS + 6)) == [3, 4, 5]
    assert offsets(batch(tmp_path, since="2023-11-14T22:13:20.008Z")) == [8, 9]


def test_key_types_exclude_all_other_records(tmp_path):
    write_log(tmp_path, [[commit(0), made.batch(1, [(b"\0\2\0\1g", None)]), commit(2)]])
    assert offsets(batch(tmp_path, view="raw", keyTypes="0-1")) == [0, 2]
    assert offsets(batch(tmp_path, view="state", keyTypes="2")) == [1]
    assert offsets(batch(tmp_path, view="state", keyTypes="3-8")) == []


def test_only_requested_columns_are_decoded(tmp_path):
    write_log(tmp_path, [three_each(0, 9)])
    reader = LogReader(parse({"path": str(tmp_path)}), ["group", "offset"])
    [table] = [table for part in reader.partitions() for table in reader.read(part)]
    assert table.schema.names == ["group", "offset"]


def test_the_folder_of_one_shard_may_be_given(tmp_path):
    folder = write_log(tmp_path, [three_each(0, 9)], shard=7)
    assert {(row["shard"], row["log_id"]) for row in batch(folder)} == {(7, "test-cluster")}


def test_the_log_id_contains_the_topic_id_if_kafka_wrote_one(tmp_path):
    folder = write_log(tmp_path, [three_each(0, 9)])
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: abc\n")
    write_log(tmp_path, [[made.batch(0, [(b"\x03\xe8", None)])]], topic="__coordinator_events")
    assert batch(tmp_path)[0]["log_id"] == "test-cluster/abc"
    assert batch(tmp_path, view="events")[0]["log_id"] == "test-cluster/abc"
    assert batch(tmp_path, logId="other")[0]["log_id"] == "other"


def test_a_torn_tail_is_not_read_and_not_an_error(tmp_path):
    batches = three_each(0, 30)
    write_log(tmp_path, [batches[:5], [*batches[5:9], batches[9][:40]]])
    assert offsets(batch(tmp_path)) == list(range(27))


def test_zeros_after_the_last_batch_are_not_read(tmp_path):
    write_log(tmp_path, [[*three_each(0, 9), bytes(4096)]])
    assert offsets(batch(tmp_path)) == list(range(9))


def test_a_torn_batch_in_a_closed_segment_is_damage(tmp_path):
    batches = three_each(0, 30)
    folder = write_log(tmp_path, [[*batches[:4], batches[4][:40]], batches[5:]])
    with pytest.raises(DamagedLog) as refused:
        batch(tmp_path)
    assert refused.value.file == str(folder / f"{0:020d}.log")
    assert refused.value.position == sum(map(len, batches[:4]))
    assert refused.value.last_good_offset == 11


@pytest.mark.parametrize("which", [0, 4, 8])
def test_a_damaged_batch_is_reported_with_file_and_position(tmp_path, which):
    batches = three_each(0, 30)
    before = sum(map(len, batches[:which]))
    batches[which] = batches[which][:80] + b"\xff" + batches[which][81:]
    folder = write_log(tmp_path, [batches])
    with pytest.raises(DamagedLog, match="wrong checksum") as refused:
        batch(tmp_path)
    assert (refused.value.file, refused.value.position) == (str(folder / f"{0:020d}.log"), before)
    assert batch(tmp_path, verifyCrc="false")


def test_offsets_that_go_back_are_damage(tmp_path):
    write_log(tmp_path, [[commit(0), commit(1), commit(1), commit(2)]])
    with pytest.raises(DamagedLog, match="offset 1 where at least 2 was expected"):
        batch(tmp_path)


def test_a_batch_larger_than_a_chunk_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("pyspark_coordinator_log.reading.CHUNK_BYTES", 256)
    large = made.commits(3, [Commit("g", "t", 0, 3, metadata="m" * 3000)])
    write_log(tmp_path, [[*three_each(0, 3), large, *three_each(4, 10)]])
    reader = batch_reader(tmp_path)
    how = reader.how
    small = type(how)(wanted=how.wanted, verify_checksums=True, fail_on_data_loss=True, chunk_bytes=256)
    [ranges] = planning.tasks(reader.options)
    found = [row for part in ranges for table in read(part, small) for row in table.to_pylist()]
    assert offsets(found) == list(range(10))


def test_a_segment_rewritten_after_planning_is_read_by_its_offsets(tmp_path, monkeypatch):
    monkeypatch.setattr("pyspark_coordinator_log.options.SPLIT_BYTES_MIN", 1)
    folder = write_log(tmp_path, [three_each(0, 300), three_each(300, 330)], index_every=100)
    reader = batch_reader(tmp_path, splitBytes=4000)
    planned = reader.partitions()
    path = folder / f"{0:020d}.log"
    path.unlink()
    path.write_bytes(b"".join(three_each(0, 90) + three_each(150, 300)))
    assert offsets(rows(reader, planned)) == [*range(90), *range(150, 330)]


def test_a_segment_deleted_after_planning_is_data_loss(tmp_path):
    folder = write_log(tmp_path, [three_each(0, 30), three_each(30, 60)])
    reader = batch_reader(tmp_path)
    planned = reader.partitions()
    (folder / f"{0:020d}.log").unlink()
    with pytest.raises(DataLoss, match="now begins at offset 30"):
        rows(reader, planned)
    going_on = batch_reader(tmp_path, failOnDataLoss="false")
    assert offsets(rows(going_on, planned)) == list(range(30, 60))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"view": "commit"}, "option view='commit': must be one of raw, commits, state, events, history"),
        ({"shards": "a"}, "option shards='a': must be numbers and ranges"),
        ({"shards": "9-3"}, "not a range of shards"),
        ({"since": "yesterday"}, "ISO 8601"),
        ({"since": "10", "until": "5"}, "is before since"),
        ({"splitBytes": "0"}, "must be a number of bytes"),
        ({"splitBytes": "5"}, "must be at least 4096"),
        ({"verifyCrc": "yes"}, "must be true or false"),
        ({"startingOffsets": "now"}, "must be one of earliest, latest"),
        ({"shardCount": "0", "groups": "g"}, "a positive number"),
        ({"groups": "[1"}, "option groups"),
        ({"topic": "t"}, "only the view raw"),
        ({"keyTypes": "70000"}, "not a range of types"),
        ({"keyType": "1"}, "unknown option keytype"),
    ],
)
def test_an_invalid_option_is_refused_with_the_allowed_values(options, said):
    with pytest.raises(BadOption) as refused:
        parse({"path": "x"} | options)
    assert said in str(refused.value)


def test_a_column_that_the_view_lacks_is_refused():
    with pytest.raises(BadOption, match="the view commits has no column nonsense"):
        LogReader(parse({"path": "x"}), ["nonsense"])


def test_a_folder_without_a_log_is_reported_in_one_line(tmp_path):
    with pytest.raises(NoLog, match="is not a folder"):
        batch(tmp_path / "nowhere")
    with pytest.raises(NoLog, match="has no folder __consumer_offsets-N"):
        batch(tmp_path)
    write_log(tmp_path, [three_each(0, 3)])
    with pytest.raises(NoLog, match="the server writes no events"):
        batch(tmp_path, view="events")
    with pytest.raises(BadOption, match="has none of the shards 5"):
        batch(tmp_path, shards="5")
    with pytest.raises(NoLog, match="is a log of other, not of __consumer_offsets"):
        batch(write_log(tmp_path, [three_each(0, 3)], topic="other"))


# --- streams ----------------------------------------------------------------------------------------------------------


class Stream:
    """Drives a stream reader as Spark does, micro-batch by micro-batch."""

    def __init__(self, data: Path, **options: Any) -> None:
        given = {"path": str(data)} | {name: str(value) for name, value in options.items()}
        parsed = parse(given)
        self.reader = LogStreamReader(parsed, SCHEMAS[parsed.view].names)
        self.offset = self.reader.initialOffset()

    def step(self, limit: Any = None) -> list[int]:
        """Runs one micro-batch; returns its offsets."""
        return offsets(self.rows(limit))

    def rows(self, limit: Any = None) -> list[dict[str, Any]]:
        end = self.reader.latestOffset(self.offset, limit or ReadAllAvailable())
        found = rows(self.reader, self.reader.partitions(self.offset, end))
        self.offset = end
        return found


def append(folder: Path, *batches: bytes, base: int = 0) -> None:
    with (folder / f"{base:020d}.log").open("ab") as file:
        file.write(b"".join(batches))


def test_a_stream_reads_new_records_exactly_once(tmp_path):
    folder = write_log(tmp_path, [three_each(0, 9)])
    stream = Stream(tmp_path)
    assert stream.step() == list(range(9))
    assert stream.step() == []
    append(folder, *three_each(9, 15))
    assert stream.step() == list(range(9, 15))
    write_log(tmp_path, [three_each(15, 18)])
    assert stream.step() == list(range(15, 18))


def test_a_half_written_batch_is_read_when_complete(tmp_path):
    first, second = three_each(0, 6)
    folder = write_log(tmp_path, [[first, second[:50]]])
    stream = Stream(tmp_path)
    assert stream.step() == [0, 1, 2]
    append(folder, second[50:])
    assert stream.step() == [3, 4, 5]


def test_a_new_shard_is_read_from_its_beginning(tmp_path):
    write_log(tmp_path, [three_each(0, 3)])
    stream = Stream(tmp_path)
    stream.step()
    write_log(tmp_path, [three_each(0, 3)], shard=1)
    assert [(row["shard"], row["offset"]) for row in stream.rows()] == [(1, 0), (1, 1), (1, 2)]


def test_a_shard_that_was_never_written_to_is_read_once_it_is(tmp_path):
    """A server makes the folders of all its shards when it starts, and a segment with the first record."""
    write_log(tmp_path, [three_each(0, 3)])
    (tmp_path / "__consumer_offsets-1").mkdir()
    stream = Stream(tmp_path)
    stream.reader.prepareForTriggerAvailableNow()
    assert stream.step() == [0, 1, 2]
    assert stream.step() == []
    write_log(tmp_path, [three_each(0, 3)], shard=1)
    stream.reader.prepareForTriggerAvailableNow()
    assert [(row["shard"], row["offset"]) for row in stream.rows()] == [(1, 0), (1, 1), (1, 2)]


def test_a_shard_that_lost_all_its_segments_is_refused(tmp_path):
    folder = write_log(tmp_path, [three_each(0, 9)])
    stream = Stream(tmp_path)
    stream.step()
    (folder / f"{0:020d}.log").unlink()
    with pytest.raises(DataLoss, match="is empty, but was read up to offset 9"):
        stream.step()


def test_a_byte_limit_gives_small_steps_that_end_at_batches(tmp_path):
    write_log(tmp_path, [three_each(0, 30), three_each(30, 60)])
    stream = Stream(tmp_path)
    limit = ReadMaxBytes(max_bytes=3 * len(three_each(0, 3)[0]))
    steps = []
    while step := stream.step(limit):
        steps.append(step)
    assert [each for step in steps for each in step] == list(range(60))
    assert max(map(len, steps)) <= 12
    assert all(len(step) % 3 == 0 for step in steps)


def test_available_now_reads_up_to_the_end_at_its_start(tmp_path):
    folder = write_log(tmp_path, [three_each(0, 9)])
    stream = Stream(tmp_path)
    stream.reader.prepareForTriggerAvailableNow()
    append(folder, *three_each(9, 12))
    assert stream.step() == list(range(9))
    assert stream.step() == []


def test_latest_skips_existing_records(tmp_path):
    folder = write_log(tmp_path, [three_each(0, 9)])
    stream = Stream(tmp_path, startingOffsets="latest")
    assert stream.step() == []
    append(folder, *three_each(9, 12))
    assert stream.step() == [9, 10, 11]


def test_retention_of_records_that_were_read_is_no_loss(tmp_path):
    folder = write_log(tmp_path, [three_each(0, 9)])
    stream = Stream(tmp_path)
    stream.step()
    write_log(tmp_path, [three_each(9, 12)])
    (folder / f"{0:020d}.log").unlink()
    assert stream.step() == [9, 10, 11]


def test_retention_of_unread_records_is_refused(tmp_path):
    folder = write_log(tmp_path, [three_each(0, 9)])
    stream = Stream(tmp_path)
    stream.step()
    write_log(tmp_path, [three_each(12, 15)])
    (folder / f"{0:020d}.log").unlink()
    with pytest.raises(DataLoss, match="begins at offset 12; the records from offset 9 on were deleted"):
        stream.step()


def test_a_truncated_log_is_refused(tmp_path):
    folder = write_log(tmp_path, [three_each(0, 9)])
    stream = Stream(tmp_path)
    stream.step()
    (folder / f"{0:020d}.log").write_bytes(b"".join(three_each(0, 6)))
    with pytest.raises(DataLoss, match="ends at offset 6, but was read up to 9"):
        stream.step()


@pytest.mark.parametrize("length", [9, 30])
def test_a_log_truncated_and_rewritten_with_other_records_is_refused(tmp_path, length):
    folder = write_log(tmp_path, [three_each(0, 9)])
    stream = Stream(tmp_path)
    stream.step()
    other = [commit(offset, "other") for offset in range(6, length)]
    (folder / f"{0:020d}.log").write_bytes(b"".join([*three_each(0, 6), *other]))
    with pytest.raises(DataLoss, match="has diverged"):
        stream.step()


def test_the_same_bytes_in_another_leader_epoch_are_a_different_log(tmp_path):
    folder = write_log(tmp_path, [three_each(0, 9)])
    stream = Stream(tmp_path)
    stream.step()
    path = folder / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[-len(three_each(0, 3)[0]) + 12 + 3] = 9  # the checksum does not cover the epoch
    path.write_bytes(content)
    with pytest.raises(DataLoss, match="has diverged"):
        stream.step()


def test_kafkas_leader_epoch_checkpoint_is_used(tmp_path):
    folder = write_log(tmp_path, [three_each(0, 9)])
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    stream = Stream(tmp_path)
    stream.step()
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 7\n")
    with pytest.raises(DataLoss, match="was read in leader epoch 0 and now has epoch 3"):
        stream.step()


@pytest.mark.parametrize("whose", ["kafka", "ours"])
def test_a_stream_continues_after_compaction_of_what_was_read(tmp_path, whose):
    from coordinator.log.checkpoint import Offsets

    folder = write_log(tmp_path, [three_each(0, 9)])
    stream = Stream(tmp_path)
    stream.step()
    cleaned = [commit(0), made.batch(6, [made.key_value(Commit("g", "t", 0, 6))], last_offset=8)]
    (folder / f"{0:020d}.log").write_bytes(b"".join([*cleaned, *three_each(9, 15)]))
    with pytest.raises(DataLoss, match="has diverged"):
        stream.step()
    if whose == "kafka":
        (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 9\n")
    else:
        (folder / "log-checkpoint").write_bytes(Offsets(clean_offset=9).line())
    assert stream.step() == list(range(9, 15))


def test_another_log_in_the_same_folder_is_refused_or_read_from_its_start(tmp_path):
    write_log(tmp_path, [three_each(0, 9)])
    stream, forgiving = Stream(tmp_path), Stream(tmp_path, failOnDataLoss="false")
    stream.step(), forgiving.step()
    write_log(tmp_path, [three_each(0, 30)], cluster="another")
    with pytest.raises(DataLoss, match="is the log another, but the checkpoint belongs to the log test-cluster"):
        stream.step()
    found = forgiving.rows()
    assert offsets(found) == list(range(30))
    assert {row["log_id"] for row in found} == {"another"}


def test_a_lost_shard_is_refused(tmp_path):
    import shutil

    for shard in range(2):
        write_log(tmp_path, [three_each(0, 3)], shard=shard)
    stream = Stream(tmp_path)
    stream.step()
    shutil.rmtree(tmp_path / "__consumer_offsets-1")
    with pytest.raises(DataLoss, match="__consumer_offsets-1 was read before and is missing"):
        stream.step()


def test_damage_after_the_position_stops_a_stream(tmp_path):
    folder = write_log(tmp_path, [three_each(0, 9)])
    stream = Stream(tmp_path)
    stream.step()
    append(folder, b"\xff" * 100, *three_each(9, 30))
    with pytest.raises(DamagedLog, match="no whole batch where one must begin"):
        stream.step()


def test_a_checkpoint_of_another_version_is_refused(tmp_path):
    write_log(tmp_path, [three_each(0, 9)])
    stream = Stream(tmp_path)
    stream.offset = {"version": 99}
    with pytest.raises(DataLoss, match="has version 99"):
        stream.step()


def test_a_replanned_micro_batch_survives_restart_and_compaction(tmp_path):
    """Spark repeats the last micro-batch from its write-ahead log: same start and end, new process."""
    from coordinator.log.checkpoint import Offsets

    folder = write_log(tmp_path, [three_each(0, 9), three_each(9, 30)])
    stream = Stream(tmp_path)
    start, end = stream.offset, stream.reader.latestOffset(stream.offset, ReadAllAvailable())
    merged = folder / f"{0:020d}.log"
    merged.unlink()
    merged.write_bytes(b"".join(three_each(0, 3) + three_each(6, 30)))
    (folder / f"{9:020d}.log").unlink()
    (folder / "log-checkpoint").write_bytes(Offsets(clean_offset=30).line())
    write_log(tmp_path, [three_each(30, 33)])
    again = Stream(tmp_path).reader
    assert offsets(rows(again, again.partitions(start, end))) == [*range(3), *range(6, 30)]


# --- state and events in one view ---------------------------------------------------------------------------------------


def event(offset: int, state_offset: int) -> bytes:
    """A RebalanceStarted event, decided when the state log had `state_offset` records."""
    from coordinator.protocol import messages

    value = messages.RebalanceStartedValue(state_offset=state_offset, time_ms=made.NOW_MS, epoch=1, cause="join")
    key = messages.RebalanceStartedKey("g")
    return made.batch(offset, [(made.encoded(key, 0), made.encoded(value, 0))])


def test_state_and_events_have_one_order(tmp_path):
    write_log(tmp_path, [[made.batch(n, [(b"\0\2\0\1g", None)]) for n in range(3)]])
    write_log(tmp_path, [[event(0, 1), event(1, 1), event(2, 3)]], topic="__coordinator_events")
    found = batch(tmp_path, view="history")
    found.sort(key=lambda row: (row["log_id"], row["shard"], row["state_offset"], row["is_state"], row["offset"]))
    order = [("state" if row["is_state"] else "event", row["offset"]) for row in found]
    assert order == [("state", 0), ("event", 0), ("event", 1), ("state", 1), ("state", 2), ("event", 2)]


def test_no_event_is_streamed_before_its_state(tmp_path):
    state = write_log(tmp_path, [[made.batch(n, [(b"\0\2\0\1g", None)]) for n in range(3)]])
    write_log(tmp_path, [[event(0, 1), event(1, 3), event(2, 4), event(3, 5)]], topic="__coordinator_events")
    stream = Stream(tmp_path, view="history")
    assert [(row["is_state"], row["offset"]) for row in stream.rows()] == [
        (True, 0),
        (True, 1),
        (True, 2),
        (False, 0),
        (False, 1),
    ]
    append(state, made.batch(3, [(b"\0\2\0\1g", None)]))
    assert [(row["is_state"], row["offset"]) for row in stream.rows()] == [(True, 3), (False, 2)]


def test_the_history_of_a_shard_that_was_never_written_to_is_empty(tmp_path):
    write_log(tmp_path, [[event(0, 0)]], topic="__coordinator_events")
    (tmp_path / "__consumer_offsets-0").mkdir()
    for topic in ("__consumer_offsets", "__coordinator_events"):
        (tmp_path / f"{topic}-1").mkdir()
    stream = Stream(tmp_path, view="history")
    assert stream.step() == [0]
    assert stream.step() == []
    write_log(tmp_path, [[event(0, 0)]], shard=1, topic="__coordinator_events")
    assert [(row["shard"], row["offset"]) for row in stream.rows()] == [(1, 0)]


def test_without_an_event_log_the_history_is_the_state(tmp_path):
    write_log(tmp_path, [[made.batch(0, [(b"\0\2\0\1g", None)])]])
    assert [row["is_state"] for row in batch(tmp_path, view="history")] == [True]


def test_events_are_decoded_to_columns(tmp_path):
    write_log(tmp_path, [[made.batch(0, [(b"\0\2\0\1g", None)])]])
    write_log(tmp_path, [[event(0, 1)]], topic="__coordinator_events")
    [row] = batch(tmp_path, view="events")
    shown = {
        name: row[name]
        for name in ("type", "group", "state_offset", "time_ms", "epoch", "cause", "reason", "group_kind")
    }
    assert shown == {
        "type": "RebalanceStarted",
        "group": "g",
        "state_offset": 1,
        "time_ms": made.NOW_MS,
        "epoch": 1,
        "cause": "join",
        "reason": None,
        "group_kind": "classic",
    }
