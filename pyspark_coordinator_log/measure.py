"""Measures the speed of the source on this machine: `python -m pyspark_coordinator_log.measure`.

    read      commits read from four shards through Spark and discarded, per core-second: with all columns, with those of
              the commit alone, and with five (Spark's own share grows with the columns, most of all with text)
    decode    the same bytes through the decoder alone, without Spark
    plan      seconds to plan a log of 114 GB: 50 shards of 20 segments (sparse files with real indexes)
    memory    the largest resident size of a Python worker while it reads

A core-second is one second of CPU time of any process involved: this one, the JVM, Spark's Python daemon and its workers.
Wall time depends on the number of cores and on other load; CPU time hardly does. Each figure is the best of several runs,
after one that warms up the JVM. Linux only: it reads /proc.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct

from coordinator.log.batch import HEADER, restamp
from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import OffsetCommitKey, OffsetCommitValue
from pyspark_coordinator_log import planning
from pyspark_coordinator_log.columns import COMMITS, SCHEMAS
from pyspark_coordinator_log.folders import STATE_TOPIC
from pyspark_coordinator_log.options import parse
from pyspark_coordinator_log.reading import read

RECORDS = 5_000_000
RECORDS_IN_A_BATCH = 20
SHARDS = 4
RUNS = 4
_DIFFERENT_BATCHES = 2000
_INDEX_ENTRY = Struct(">ii")
_INDEX_INTERVAL_BYTES = 4096
_PLANNED_SHARDS, _PLANNED_SEGMENTS, _PLANNED_SEGMENT_BYTES = 50, 20, 114 * 1024 * 1024
_PLANNED_SPLIT_BYTES = 32 * 1024 * 1024


def make_log(data: Path, records: int, records_in_a_batch: int) -> int:
    """Writes commits of many groups into a data folder; returns their size. `records_in_a_batch` is an average."""
    (data / "meta.properties").write_text("version=1\ncluster.id=measured\n")
    templates = list(_batches(records_in_a_batch))
    size = 0
    for shard in range(SHARDS):
        folder = data / f"{STATE_TOPIC}-{shard}"
        folder.mkdir()
        offset, number = 0, 0
        with (folder / f"{0:020d}.log").open("wb") as file:
            while offset < records // SHARDS:
                count, content = templates[number % len(templates)]
                size += file.write(restamp(content, offset, 0))
                offset += count
                number += 1
    return size


def _batches(records_in_a_batch: int) -> Iterator[tuple[int, bytes]]:
    chance = random.Random(0)  # noqa: S311 - reproducible on purpose
    encode_key, encode_value = Codec.of().encoder("OffsetCommitKey", 0), Codec.of().encoder("OffsetCommitValue", 4)
    topic_ids = [chance.randbytes(16) for _ in range(50)]
    for _ in range(_DIFFERENT_BATCHES):
        batch = BatchBuilder()
        now_ms = 1_700_000_000_000 + chance.randrange(10**9)
        for _ in range(max(1, min(1000, round(chance.expovariate(1 / records_in_a_batch))))):
            topic = chance.randrange(50)
            key = OffsetCommitKey(f"group-{chance.randrange(2000)}", f"topic-{topic}", chance.randrange(64))
            value = OffsetCommitValue(
                offset=chance.randrange(10**9), commit_timestamp=now_ms, topic_id=topic_ids[topic], metadata=""
            )
            dead = chance.random() < 0.01
            batch.add(b"\0\1" + encode_key(key), None if dead else b"\0\4" + encode_value(value))
        yield batch.count, batch.build(0, now_ms)


def make_sparse_log(data: Path) -> None:
    """Writes a log of 114 GB that occupies a few megabytes: complete indexes, and the headers that planning reads."""
    entries = range(_INDEX_INTERVAL_BYTES, _PLANNED_SEGMENT_BYTES, _INDEX_INTERVAL_BYTES)
    index = b"".join(_INDEX_ENTRY.pack(at // 100, at) for at in entries)
    shared = data / "index"
    shared.write_bytes(index)
    parts = -(-_PLANNED_SEGMENT_BYTES // _PLANNED_SPLIT_BYTES)
    for shard in range(_PLANNED_SHARDS):
        folder = data / f"{STATE_TOPIC}-{shard}"
        folder.mkdir()
        for segment in range(_PLANNED_SEGMENTS):
            base = segment * (_PLANNED_SEGMENT_BYTES // 100 + 1)
            with (folder / f"{base:020d}.log").open("wb") as file:
                file.truncate(_PLANNED_SEGMENT_BYTES)
                for part in range(1, parts):
                    at = _PLANNED_SEGMENT_BYTES * part // parts // _INDEX_INTERVAL_BYTES * _INDEX_INTERVAL_BYTES
                    file.seek(at)
                    file.write(HEADER.pack(base + at // 100, 4084, 0, 2, 0, 0, 40, 0, 0, -1, -1, 0, 41))
            (folder / f"{base:020d}.index").hardlink_to(shared)


def processes() -> list[int]:
    """This process and all its descendants."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int(_stat(int(entry.name))[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sorted(mine)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the process name, which may contain anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_seconds() -> float:
    """Total CPU time of these processes and of their children that have ended."""
    ticks = 0
    for pid in processes():
        try:
            ticks += sum(int(field) for field in _stat(pid)[11:15])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def worker_bytes_max() -> int:
    """The peak resident size of the Spark Python workers."""
    found = 0
    for pid in processes():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"pyspark_coordinator_log.jobs.daemon" in command.split(b"\0"):
            lines = dict(line.partition(":")[::2] for line in status.splitlines())
            found = max(found, int(lines.get("VmHWM", "0 kB").split()[0]) * 1024)
    return found


def _decode_seconds(data: Path) -> float:
    options = parse({"path": str(data)})
    how = options.reading(SCHEMAS[COMMITS].names)
    cpu_start = time.process_time()
    for task in planning.tasks(options):
        for part in task:
            for _ in read(part, how):
                pass
    return time.process_time() - cpu_start


def _read_seconds(data: Path, cores: int) -> dict[str, tuple[float, float]]:
    """CPU and wall time of the best run through Spark, by the columns read."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - only this figure needs Spark
    from pyspark.sql.types import StructType  # noqa: PLC0415 - as above

    from pyspark_coordinator_log.jobs.session import session  # noqa: PLC0415 - as above
    from pyspark_coordinator_log.source import FORMAT, DefaultSource  # noqa: PLC0415 - as above

    spark = session(f"local[{cores}]", {})
    out: dict[str, tuple[float, float]] = {}
    whole = from_arrow_schema(SCHEMAS[COMMITS])
    try:
        spark.dataSource.register(DefaultSource)
        for run in range(RUNS + 1):
            for what, names in _READ.items():
                table = spark.read.format(FORMAT).schema(StructType([whole[name] for name in names])).load(str(data))
                cpu_start, wall_start = cpu_seconds(), time.monotonic()
                table.write.format("noop").mode("overwrite").save()
                taken = cpu_seconds() - cpu_start, time.monotonic() - wall_start
                if run:
                    out[what] = min(out.get(what, taken), taken)
        print(f"memory  {worker_bytes_max() / 1e6:.0f} MB in the largest Python worker")
    finally:
        spark.stop()
    return out


_ABOUT_THE_LOG = {"log_id", "value_version", "problem"}
_READ = {
    "all columns": SCHEMAS[COMMITS].names,
    "16 columns": [name for name in SCHEMAS[COMMITS].names if name not in _ABOUT_THE_LOG],
    "5 columns": ["shard", "offset", "group", "topic", "committed_offset"],
}


def main(arguments: Sequence[str]) -> int:
    """Prints the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m pyspark_coordinator_log.measure", description=__doc__, add_help=True
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--records", type=int, default=RECORDS, help=f"commits in the log ({RECORDS})")
    parser.add_argument(
        "--batch", type=int, default=RECORDS_IN_A_BATCH, help=f"records in a batch ({RECORDS_IN_A_BATCH})"
    )
    parser.add_argument("--cores", type=int, default=2, help="Spark's local cores (2)")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        sparse = Path(folder, "sparse")
        sparse.mkdir()
        make_sparse_log(sparse)
        options = parse({"path": str(sparse), "splitBytes": str(_PLANNED_SPLIT_BYTES)})
        cpu_start = time.monotonic()
        tasks = len(planning.tasks(options))
        print(f"plan    {time.monotonic() - cpu_start:.2f} s for {tasks} tasks of a log of 114 GB")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        size = make_log(data, given.records, given.batch)
        print(f"log     {given.records:,} commits, {size / 1e6:.0f} MB, {given.batch} in a batch")
        best = min(_decode_seconds(data) for _ in range(RUNS))
        print(f"decode  {given.records / best / 1e6:.2f} M commits per core-second without Spark")
        for what, (cpu, wall) in _read_seconds(data, given.cores).items():
            speed = given.records / cpu / 1e6
            print(f"read    {speed:.2f} M commits per core-second, {what} ({cpu:.1f} CPU-s, {wall:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
