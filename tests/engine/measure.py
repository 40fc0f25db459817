"""Measures the PostgreSQL engine: appends, claims, and the replay of a million records.

    python -m tests.engine.measure                       its own primary with two synchronous standbys
    python -m tests.engine.measure postgresql://...      a server that exists; the schema `measured` is made in it

Records have 150 bytes. One append is in progress at a time, as in a worker.
"""

import statistics
import sys
import time
from collections.abc import AsyncIterator

import uvloop

from coordinator.engine import postgresql_sql as sql
from coordinator.engine.address import EngineAddress
from coordinator.engine.engine import Claim, Engine, EngineSettings, Piece
from coordinator.engine.postgresql import PostgresqlEngine
from tests.engine.contract import worker
from tests.support.postgresql import Cluster

RECORD = bytes(range(150))
SECONDS = 5
ROWS = [(1, 1), (1, 50), (50, 1), (50, 50)]
REPLAYED = 1_000_000
RECORDS_IN_PIECE = 50
PART_BYTES = 1024 * 1024
COMPARED = 1_500
ONE_LOG = """
WITH held AS MATERIALIZED (SELECT log FROM owner WHERE log = $1 AND epoch = $2 FOR SHARE)
INSERT INTO piece (log, sequence, epoch, data) SELECT log, $3, $2, $4 FROM held RETURNING sequence
"""


class Owned:
    """Claimed logs, and the sequences of their next pieces."""

    def __init__(self, engine: Engine, claims: list[Claim]) -> None:
        self.engine = engine
        self.claims = claims
        self.sequences = [claim.next_sequence for claim in claims]

    async def append(self, data: bytes, count: int = 1) -> None:
        """Appends this many pieces to each log."""
        pieces = []
        for number, claim in enumerate(self.claims):
            start = self.sequences[number]
            pieces += [Piece(claim, start + more, data) for more in range(count)]
            self.sequences[number] += count
        assert await self.engine.append(pieces) == frozenset()


async def claimed(engine: Engine, logs: int) -> Owned:
    return Owned(engine, [await engine.claim(f"measured-{number}", worker(1)) for number in range(logs)])


async def measure_appends(engine: Engine, logs: int, records: int) -> None:
    owned, data = await claimed(engine, logs), RECORD * records
    times: list[float] = []
    warm, end = time.perf_counter() + 1, time.perf_counter() + 1 + SECONDS
    cpu = 0.0
    while (begun := time.perf_counter()) < end:
        await owned.append(data)
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
    claim = await engine.claim("measured-0", worker(1))
    connection = await engine._primary.connect(is_durable=True)
    sequence, data = claim.next_sequence, RECORD * RECORDS_IN_PIECE
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
    records = PART_BYTES // len(RECORD)
    for _ in range(REPLAYED // records):
        yield RECORD * records


async def measure_replay(engine: Engine) -> None:
    log = "measured-replay"
    owned = Owned(engine, [await engine.claim(log, worker(1))])
    for _ in range(REPLAYED // RECORDS_IN_PIECE // 100):
        await owned.append(RECORD * RECORDS_IN_PIECE, 100)
    await timed_replay(engine, log, f"{REPLAYED:,} records as pieces of {RECORDS_IN_PIECE}")
    claim = await engine.claim(log, worker(1))
    begun = time.perf_counter()
    await engine.snapshot(claim, claim.next_sequence, parts())
    print(f"| snapshot of as many, with the removal of the pieces | {time.perf_counter() - begun:.2f} |")
    await timed_replay(engine, log, f"{REPLAYED:,} records as a snapshot")


async def timed_replay(engine: Engine, log: str, name: str) -> None:
    begun = time.perf_counter()
    claim = await engine.claim(log, worker(1))
    claimed_at = time.perf_counter()
    found = 0
    async for data in engine.replay(claim):
        found += len(data)
    print(f"| claim | {claimed_at - begun:.4f} |")
    print(f"| replay of {name} ({found / 1e6:.0f} MB) | {time.perf_counter() - claimed_at:.2f} |")


async def measure(url: str, replication: str) -> None:
    settings = EngineSettings(cluster="measured", replication=replication, append_timeout_ms=60_000)
    engine = PostgresqlEngine(EngineAddress(url), settings)
    await engine.open()
    print("| logs per append | records per log | appends/s | records/s | p50 ms | p99 ms | client CPU us |")
    print("|---|---|---|---|---|---|---|")
    for logs, records in ROWS:
        await measure_appends(engine, logs, records)
    print("\n| | seconds |\n|---|---|")
    await compare_with_one_log(engine)
    await measure_replay(engine)
    await engine.close()


def main() -> None:
    if len(sys.argv) > 1:
        uvloop.run(measure(sys.argv[1], "optional"))
        return
    cluster = Cluster()
    try:
        uvloop.run(measure(cluster.url(), "required"))
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
