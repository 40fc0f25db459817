"""Measures engines: appends, claims, and the replay of a million records. Of the embedded journal it measures the replay.

    python -m coordinator_lab.measure engines embedded local      the journals of one machine
    python -m coordinator_lab.measure engines URL ...             PostgreSQL or Kafka; the cluster `measured` is made in it

Records have 150 bytes. One append is in progress at a time, as in a worker. A replay gets the batches; to apply them takes the
same time over every journal (`coordinator bench` measures it). `local` is the supervisor of `serve --workers`, in a process of
its own.
"""

import argparse
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import uvloop

from coordinator.cluster.engine.address import EngineAddress, engine_for
from coordinator.cluster.engine.engine import Claim, Engine, EngineSettings, Piece, Worker, claim_one
from coordinator.cluster.engine.local.engine import LocalEngine
from coordinator.cluster.engine.postgresql import sql
from coordinator.cluster.engine.postgresql.engine import PostgresqlEngine
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import LogSettings
from coordinator.world.disk import RealDisk
from coordinator_lab.measure.local_store import LocalStore

EMBEDDED, LOCAL, STORE = "embedded", "local", "--store"
WORKER = Worker("measured", 1, "localhost", 9092, "IN://localhost:9092")
LOGS = [f"__consumer_offsets-{number}" for number in range(50)]
REPLAYED_LOG = "__transaction_state-0"
SETTINGS = LogSettings(segment_bytes=100 << 20, segment_ms=None, retention_ms=None)
READ_BYTES = 4 << 20
RECORD = bytes(range(140))
"""With ten bytes that each record has of its own."""
SECONDS = 5
ROWS = [(1, 1), (1, 50), (50, 1), (50, 50)]
REPLAYED = 1_000_000
RECORDS_IN_PIECE = 50
PART_BYTES = 1024 * 1024
COMPARED = 500
ONE_LOG = """
WITH held AS MATERIALIZED (SELECT log FROM owner WHERE log = $1 AND epoch = $2 FOR SHARE)
INSERT INTO piece (log, sequence, epoch, data) SELECT log, $3, $2, $4 FROM held RETURNING sequence
"""


class Batches:
    """Batches of this many records, one behind the other."""

    def __init__(self, records: int) -> None:
        builder = BatchBuilder()
        for _ in range(records):
            builder.add(None, RECORD)
        self._batch = builder.build(0, 1_700_000_000_000)
        self.records = records

    def at(self, offset: int) -> bytes:
        """The batch with this base offset, which the checksum does not cover."""
        return offset.to_bytes(8) + self._batch[8:]


class Owned:
    """Claimed logs, and the sequences of their next pieces. `ends`: the offset of the next record of each log."""

    def __init__(self, engine: Engine, claims: list[Claim], ends: dict[str, int]) -> None:
        self.engine = engine
        self.claims = claims
        self.sequences = [claim.next_sequence for claim in claims]
        self.ends = ends

    async def append(self, batches: Batches, count: int = 1) -> None:
        """Appends this many pieces to each log."""
        pieces = []
        for number, claim in enumerate(self.claims):
            start, end = self.sequences[number], self.ends.get(claim.log, 0)
            pieces += [Piece(claim, start + more, batches.at(end + more * batches.records)) for more in range(count)]
            self.sequences[number] += count
            self.ends[claim.log] = end + count * batches.records
        assert await self.engine.append(pieces) == frozenset()


async def measure_appends(engine: Engine, logs: int, records: int, ends: dict[str, int]) -> None:
    owned = Owned(engine, [await claim_one(engine, log, WORKER) for log in LOGS[:logs]], ends)
    batches = Batches(records)
    times: list[float] = []
    warm, end = time.perf_counter() + 1, time.perf_counter() + 1 + SECONDS
    cpu = 0.0
    while (begun := time.perf_counter()) < end:
        await owned.append(batches)
        if begun >= warm:
            times.append(time.perf_counter() - begun)
        else:
            cpu = time.process_time()
    cpu = (time.process_time() - cpu) / len(times)
    percentiles = statistics.quantiles(times, n=100)
    print(
        f"| {logs} | {records} | {len(times) / SECONDS:,.0f} | {len(times) * logs * records / SECONDS:,.0f}"
        f" | {percentiles[49] * 1e3:.2f} | {percentiles[98] * 1e3:.2f} | {cpu * 1e6:,.0f} |"
    )


async def compare_with_one_log(engine: PostgresqlEngine) -> None:
    """The statement for any number of logs beside one that knows a single log, in turns."""
    claim = await claim_one(engine, LOGS[0], WORKER)
    connection = await engine._primary.connect(is_durable=True)  # noqa: SLF001 - its own connection, to compare with
    sequence, data = claim.next_sequence, Batches(RECORDS_IN_PIECE).at(0)
    times: dict[str, list[float]] = {"any number of logs": [], "one log": []}
    for _ in range(COMPARED):
        for name, taken in times.items():
            begun = time.perf_counter()
            if name == "one log":
                rows = await connection.fetch(ONE_LOG, claim.log, claim.epoch, sequence, data)
            else:
                rows = await connection.fetch(sql.APPEND, [claim.log], [claim.epoch], [sequence], [data])
            taken.append(time.perf_counter() - begun)
            assert len(rows) == 1
            sequence += 1
    await connection.close()
    for name, taken in times.items():
        print(f"| statement for {name}, median | {statistics.median(taken):.5f} |")


async def parts() -> AsyncIterator[bytes]:
    batches, gathered = Batches(RECORDS_IN_PIECE), bytearray()
    for offset in range(0, REPLAYED, RECORDS_IN_PIECE):
        gathered += batches.at(offset)
        if len(gathered) >= PART_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


async def measure_replay(engine: Engine) -> None:
    batches = Batches(RECORDS_IN_PIECE)
    owned = Owned(engine, [await claim_one(engine, REPLAYED_LOG, WORKER)], {})
    for _ in range(REPLAYED // RECORDS_IN_PIECE // 100):
        await owned.append(batches, 100)
    await timed_replay(engine, f"{REPLAYED:,} records as pieces of {RECORDS_IN_PIECE}")
    if isinstance(engine, LocalEngine):
        return  # the supervisor compacts its logs itself
    claim = await claim_one(engine, REPLAYED_LOG, WORKER)
    begun = time.perf_counter()
    await engine.snapshot(claim, claim.next_sequence, parts())
    print(f"| snapshot of as many, with the removal of the pieces | {time.perf_counter() - begun:.2f} |")
    await timed_replay(engine, f"{REPLAYED:,} records as a snapshot")


async def timed_replay(engine: Engine, name: str) -> None:
    begun = time.perf_counter()
    claim = await claim_one(engine, REPLAYED_LOG, WORKER)
    claimed_at = time.perf_counter()
    found = 0
    async for _, data in engine.read(claim.log, claim):
        found += len(data)
    print(f"| claim | {claimed_at - begun:.4f} |")
    print_replay(name, found, time.perf_counter() - claimed_at)


def print_replay(name: str, size_bytes: int, seconds: float) -> None:
    print(f"| replay of {name} ({size_bytes / 1e6:.0f} MB) | {seconds:.2f} |")


async def measure(engine: Engine, name: str) -> None:
    await engine.open()
    print(f"\n{name}\n")
    print("| logs per append | records per log | appends/s | records/s | p50 ms | p99 ms | client CPU us |")
    print("|---|---|---|---|---|---|---|")
    ends: dict[str, int] = {}
    for logs, records in ROWS:
        await measure_appends(engine, logs, records, ends)
    print("\n| | seconds |\n|---|---|")
    if isinstance(engine, PostgresqlEngine):
        await compare_with_one_log(engine)
    await measure_replay(engine)
    await engine.close()


async def measure_url(url: str, replication: str) -> None:
    settings = EngineSettings(cluster="measured", replication=replication, append_timeout_ms=60_000)
    await measure(engine_for(EngineAddress(url), settings), EngineAddress(url).scheme)


def measure_embedded(folder: str) -> None:
    """What a start reads from its data folder, which is in the page cache."""
    batches, path = Batches(RECORDS_IN_PIECE), f"{folder}/{REPLAYED_LOG}"
    log = JournaledLog.open(RealDisk(), path, SETTINGS)
    for offset in range(0, REPLAYED, RECORDS_IN_PIECE):
        log.append_replayed(batches.at(offset))
        if log.wants_segment:
            log.begin_segment()
    log.sync()
    log.close()
    begun, size_bytes = time.perf_counter(), 0
    log = JournaledLog.open(RealDisk(), path, SETTINGS)
    offset = 0
    while offset < log.end_offset:
        read = log.read(offset, READ_BYTES)
        size_bytes += len(read)
        offset += len(read) // len(batches.at(0)) * RECORDS_IN_PIECE
    print(f"\n{EMBEDDED}\n\n| | seconds |\n|---|---|")
    print_replay(f"{REPLAYED:,} records in batches of {RECORDS_IN_PIECE}", size_bytes, time.perf_counter() - begun)
    log.close()


def measure_local(folder: str) -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "coordinator_lab.measure", "engines", STORE, folder, str(theirs.fileno())]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()]) as store:  # noqa: S603
        theirs.close()
        try:
            uvloop.run(measure(LocalEngine(ours, EngineSettings(append_timeout_ms=60_000)), LOCAL))
        finally:
            store.kill()


async def serve_store(folder: Path, descriptor: int) -> None:
    """A supervisor's part, for one worker."""
    store = LocalStore(folder, logs=[*LOGS, REPLAYED_LOG], settings=SETTINGS)
    session = await store.serve(socket.socket(fileno=descriptor))
    await session.closed.wait()


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == [STORE]:
        uvloop.run(serve_store(Path(arguments[1]), int(arguments[2])))
        return
    parser = argparse.ArgumentParser(prog="python -m coordinator_lab.measure engines")
    parser.add_argument("engines", nargs="*", default=[EMBEDDED, LOCAL], metavar=f"{EMBEDDED}|{LOCAL}|URL")
    parser.add_argument("--replication", choices=["required", "optional"], default="required")
    options = parser.parse_args(arguments)
    for name in options.engines:
        with tempfile.TemporaryDirectory() as folder:
            if name == EMBEDDED:
                measure_embedded(folder)
            elif name == LOCAL:
                measure_local(folder)
            else:
                uvloop.run(measure_url(name, options.replication))
