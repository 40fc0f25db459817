"""The source inside Spark: found by name, batch and stream, restarts, and error messages."""

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline import foreign_logs as made
from tests.pipeline.foreign_logs import Commit, write_log

LINES = 3
STARTS = 4


def commits(first: int, last: int) -> list[bytes]:
    return [
        made.commits(offset, [Commit(f"g{(offset + n) % 5}", "t", n, offset + n) for n in range(LINES)])
        for offset in range(first, last, LINES)
    ]


def load(spark: Any, data: Path, **options: Any) -> Any:
    reader = spark.read.format("coordinator_log")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(data))


def test_spark_finds_the_source_by_name_and_reads_every_record(spark, tmp_path):
    write_log(tmp_path, [commits(0, 300), commits(300, 330)], index_every=500)
    write_log(tmp_path, [commits(0, 30)], shard=1)
    table = load(spark, tmp_path, splitBytes=4096)
    assert table.rdd.getNumPartitions() > 2
    found = {(row.shard, row.offset): (row.group, row.committed_offset) for row in table.collect()}
    expected = {(0, offset): (f"g{offset % 5}", offset) for offset in range(330)}
    expected |= {(1, offset): (f"g{offset % 5}", offset) for offset in range(30)}
    assert found == expected


def test_two_filters_on_one_table_are_independent(spark, tmp_path):
    """Filter pushdown would break this, because Spark keeps one reader for both."""
    write_log(tmp_path, [commits(0, 30)])
    table = load(spark, tmp_path)
    both = table.where("group = 'g1'").union(table.where("group = 'g2'"))
    assert sorted(row.offset for row in both.collect()) == sorted([*range(1, 30, 5), *range(2, 30, 5)])
    assert table.count() == 30


def test_a_schema_with_fewer_columns_reads_only_those(spark, tmp_path):
    write_log(tmp_path, [commits(0, 30)])
    table = spark.read.format("coordinator_log").schema("`group` STRING, `offset` BIGINT").load(str(tmp_path))
    assert table.columns == ["group", "offset"]
    assert sorted(row.offset for row in table.collect()) == list(range(30))


@pytest.mark.parametrize("view", ["raw", "state", "events", "history"])
def test_every_view_reaches_spark_complete(spark, tmp_path, view):
    from coordinator.protocol import messages

    value = messages.RebalanceCompletedValue(
        state_offset=1,
        epoch=3,
        cause="join",
        waited_for=[messages.RebalanceCompletedValue.Wait(member_id="m", waited_ms=5)],
    )
    key = made.encoded(messages.RebalanceCompletedKey("g"), 0)
    write_log(tmp_path, [[made.batch(0, [(b"\0\2\0\1g", None)])]])
    write_log(tmp_path, [[made.batch(0, [(key, made.encoded(value, 0))])]], topic="__coordinator_events")
    rows = load(spark, tmp_path, view=view).collect()
    assert len(rows) == (2 if view == "history" else 1)
    if view in {"events", "history"}:
        [completed] = [row for row in rows if row.type == "RebalanceCompleted"]
        assert (completed.epoch, completed.cause, completed.waited_for[0].waited_ms) == (3, "join", 5)


def test_errors_are_one_informative_line(spark, tmp_path):
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=r"NoLog: .*nowhere is not a folder"):
        load(spark, tmp_path / "nowhere").collect()
    with pytest.raises(PySparkException, match="BadOption: option verifyCrc='maybe': must be true or false"):
        load(spark, tmp_path, verifyCrc="maybe").collect()
    damaged = commits(0, 30)
    damaged[4] = damaged[4][:-1] + b"\xff"
    folder = write_log(tmp_path, [damaged])
    position = sum(map(len, damaged[:4]))
    with pytest.raises(
        PySparkException, match=rf"{folder}/0+\.log is damaged at position {position} \(wrong checksum\)"
    ):
        load(spark, tmp_path).collect()


def run(spark: Any, data: Path, out: Path, **options: Any) -> None:
    """Runs one query to the end of the log. Retries if Spark times out: it gives a Python worker ten seconds to start."""
    from pyspark.errors import StreamingQueryException

    reader = spark.readStream.format("coordinator_log").options(**options).load(str(data))
    for left in reversed(range(STARTS)):
        query = (
            reader.writeStream.format("parquet")
            .option("checkpointLocation", str(out / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(out / "table"))
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if not left or "Timed out while waiting for the Python worker" not in str(error):
                raise
        else:
            return


def written(spark: Any, out: Path) -> list[int]:
    return sorted(row.offset for row in spark.read.parquet(str(out / "table")).select("offset").collect())


def test_a_stream_resumes_and_refuses_another_log(spark, tmp_path):
    from pyspark.errors import StreamingQueryException

    data, out = tmp_path / "data", tmp_path / "out"
    folder = write_log(data, [commits(0, 60)])
    run(spark, data, out, maxBytesPerTrigger=1500)
    assert written(spark, out) == list(range(60))
    with (folder / f"{0:020d}.log").open("ab") as file:
        file.write(b"".join(commits(60, 90)))
    run(spark, data, out)
    assert written(spark, out) == list(range(90))
    other = [made.commits(offset, [Commit("other", "t", 0, offset)]) for offset in range(81, 120)]
    (folder / f"{0:020d}.log").write_bytes(b"".join([*commits(0, 81), *other]))
    with pytest.raises(StreamingQueryException, match="has diverged"):
        run(spark, data, out)
    assert written(spark, out) == list(range(90))
