"""What the PostgreSQL engine does when servers, connections and settings fail under it."""

import asyncio
import contextlib

import pytest

from coordinator.cluster.engine.engine import EngineRefused, EngineUnavailable, OutcomeUnknown, claim_one
from tests.cluster.engine.contract import pieces, replayed, worker
from tests.cluster.engine.history import Appender, Record

LOGS = ["__consumer_offsets-0", "__consumer_offsets-1"]
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


async def until(is_so) -> None:
    """Waits for other processes."""
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(is_so):  # noqa: ASYNC110 - nobody in this process could set an event
            await asyncio.sleep(0.02)


@contextlib.contextmanager
def paused(nodes):
    for node in nodes:
        node.pause()
    try:
        yield
    finally:
        for node in nodes:
            node.resume()


async def append_for_ever(appender: Appender) -> None:
    """Appends, and takes its logs again when it loses them."""
    while True:
        for log in LOGS:
            if log not in appender.claims:
                await appender.take(log)
        await appender.append_once()


async def appended(record: Record, count: int) -> None:
    """Waits until this many more pieces were acknowledged."""
    before = sum(map(len, record.acknowledged.values()))
    async with asyncio.timeout(60):
        while sum(map(len, record.acknowledged.values())) < before + count:  # noqa: ASYNC110 - see `until`
            await asyncio.sleep(0.01)


async def test_nothing_is_acknowledged_while_no_standby_confirms(connect_postgresql, postgresql_cluster):
    engine = await connect_postgresql()
    claim = await claim_one(engine, LOGS[0], worker(1))
    with paused(postgresql_cluster.standbys):
        append = asyncio.create_task(engine.append(pieces(claim, b"waits")))
        await until(lambda: postgresql_cluster.primary.sql(WAITING) == "1")
        assert not append.done()
    assert await append == frozenset()
    assert await replayed(engine, await claim_one(engine, LOGS[0], worker(1))) == [b"waits"]


async def test_an_append_without_an_answer_in_time_ends_its_claims(connect_postgresql, postgresql_cluster):
    engine, other = await connect_postgresql(append_timeout_ms=300), await connect_postgresql()
    claim = await claim_one(engine, LOGS[0], worker(1))
    with paused(postgresql_cluster.standbys):
        with pytest.raises(OutcomeUnknown):
            await engine.append(pieces(claim, b"unknown"))
        assert await engine.append(pieces(claim, b"behind it", first=1)) == {LOGS[0]}
        with pytest.raises(EngineUnavailable):
            await claim_one(engine, LOGS[0], worker(1))
    # The statement was waiting for a standby, so it is there in the end; nothing stands behind it.
    assert await replayed(other, await claim_one(other, LOGS[0], worker(2))) == [b"unknown"]


async def test_a_cancelled_wait_for_the_standbys_is_not_a_success(connect_postgresql, postgresql_cluster):
    """PostgreSQL reports such a commit as done, with a warning that it is local."""
    engine = await connect_postgresql()
    claim = await claim_one(engine, LOGS[0], worker(1))
    cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with paused(postgresql_cluster.standbys):
        append = asyncio.create_task(engine.append(pieces(claim, b"local")))
        await until(lambda: postgresql_cluster.primary.sql(WAITING) == "1")
        postgresql_cluster.primary.sql(cancel)
        with pytest.raises(OutcomeUnknown, match="canceling wait for synchronous replication"):
            await append
    assert await replayed(engine, await claim_one(engine, LOGS[0], worker(1))) == [b"local"]


async def test_a_terminated_connection_ends_the_claims_and_is_made_again(connect_postgresql, postgresql_cluster):
    engine = await connect_postgresql()
    claim = await claim_one(engine, LOGS[0], worker(1))
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'coordinator'"
    postgresql_cluster.primary.sql(end)
    with pytest.raises(OutcomeUnknown):
        await engine.append(pieces(claim, b"lost"))
    appender = Appender(engine, worker(1), Record())
    assert await appender.take(LOGS[0]) == []
    await appender.append_once()
    assert len(appender.record.acknowledged[LOGS[0]]) == 1
    await until_answered(engine)


async def until_answered(engine) -> None:
    """Waits until beats are answered and owners are seen again."""
    async with asyncio.timeout(30):
        while True:
            try:
                await engine.beat(worker(1))
                assert await engine.workers() == [worker(1)]
                assert LOGS[0] in await engine.owners()
            except EngineUnavailable:
                continue
            return


@pytest.mark.parametrize(
    ("name", "value"),
    [("synchronous_standby_names", ""), ("synchronous_commit", "local"), ("default_transaction_read_only", "on")],
)
async def test_a_setting_that_is_lost_while_it_runs_ends_the_claims(
    connect_postgresql, postgresql_cluster, name, value
):
    appender, primary = Appender(await connect_postgresql(), worker(1), Record()), postgresql_cluster.primary
    await appender.take(LOGS[0])
    await appender.append_once()
    before = primary.sql(f"SHOW {name}")
    primary.set(name, value)
    try:
        # A server takes a moment until all of its connections have read the new configuration.
        await asyncio.wait_for(appender.append_until_fenced(), 30)
        assert appender.record.unknown == 1
        with pytest.raises(EngineUnavailable):
            await claim_one(appender.engine, LOGS[0], worker(1))
        with pytest.raises((EngineUnavailable, EngineRefused)):
            await connect_postgresql()
    finally:
        primary.set(name, before)
    await appender.take(LOGS[0])
    await appender.append_once()
    assert appender.claims.keys() == {LOGS[0]}


class Wire:
    """A way to a server that can go silent: connections stay open, and nothing arrives any more."""

    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self.is_silent = False
        self._tasks = set()

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_error) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader, writer) -> None:
        self._tasks.add(asyncio.current_task())
        upstream_reader, upstream_writer = await asyncio.open_connection(self._host, int(self._port))
        try:
            await asyncio.gather(self._pass(reader, upstream_writer), self._pass(upstream_reader, writer))
        finally:
            writer.transport.abort()
            upstream_writer.transport.abort()

    async def _pass(self, reader, writer) -> None:
        while data := await reader.read(65_536):
            if not self.is_silent:
                writer.write(data)
        writer.close()


async def test_a_worker_behind_a_silent_network_gives_up_and_comes_back(connect_postgresql, postgresql_cluster):
    record, wire = Record(), Wire(postgresql_cluster.primary.address)
    async with wire as address:
        url = postgresql_cluster.url().replace(",".join(node.address for node in postgresql_cluster.nodes), address)
        cut = Appender(
            await connect_postgresql(url=url, append_timeout_ms=500, connect_timeout_ms=500), worker(1), record
        )
        await cut.take(LOGS[0])
        await cut.append_once()
        wire.is_silent = True
        await cut.append_once()
        assert (cut.claims, record.unknown) == ({}, 1)
        with pytest.raises(EngineUnavailable, match="no answer in time"):
            await cut.engine.beat(worker(1))
        other = Appender(await connect_postgresql(), worker(2), record)
        await other.take(LOGS[0])
        await other.append_once()
        wire.is_silent = False
        await cut.take(LOGS[0])
        await cut.append_once()
        assert cut.claims.keys() == {LOGS[0]}
        await cut.engine.close()


async def test_a_killed_primary_is_replaced_and_nothing_acknowledged_is_lost(own_cluster):
    cluster, connect = own_cluster
    record = Record()
    appenders = [Appender(await connect(append_timeout_ms=1_000), worker(1), record)]
    appending = asyncio.create_task(append_for_ever(appenders[0]))
    await appended(record, 200)
    cluster.primary.kill()
    await asyncio.to_thread(cluster.fail_over)
    await appended(record, 50)
    appending.cancel()
    await asyncio.wait([appending])
    assert record.unknown > 0
    other = Appender(await connect(), worker(2), record)
    for log in LOGS:
        await other.take(log)


async def test_a_paused_primary_that_was_replaced_acknowledges_nothing_that_is_lost(own_cluster):
    """The standbys leave the old primary before one of them is promoted; without that nobody can promise this."""
    cluster, connect = own_cluster
    old_primary, record, late = cluster.primary, Record(), Record()
    stays = Appender(await connect(url=cluster.url(old_primary), append_timeout_ms=3_000), worker(1), record)
    for log in LOGS:
        await stays.take(log)
    appending = asyncio.create_task(stays.append_until_fenced())
    await appended(record, 100)
    old_primary.pause()
    await asyncio.to_thread(cluster.fail_over)
    follows = Appender(await connect(append_timeout_ms=2_000), worker(2), record)
    for log in LOGS:
        await follows.take(log)
    stays.record = late
    for _ in range(20):
        await follows.append_once()
    old_primary.resume()
    await appending
    assert stays.claims == {}
    assert record.unknown + late.unknown == 1
    # A standby may have confirmed the append that was under way; then the new primary has it, in front of the claim.
    assert all(len(acknowledged) == 1 for acknowledged in late.acknowledged.values())
    for log, acknowledged in late.acknowledged.items():
        record.acknowledged[log] += acknowledged
    with pytest.raises(EngineUnavailable):
        await claim_one(stays.engine, LOGS[0], worker(1))
    # Both accept writes now. A new connection, of this worker or of another, goes to the one of the higher timeline.
    cluster.primary.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'coordinator'")
    for appender in (follows, Appender(await connect(append_timeout_ms=2_000), worker(3), record)):
        for log in LOGS:
            await appender.take(log)
        before = sum(map(len, record.acknowledged.values()))
        await appender.append_once()
        assert sum(map(len, record.acknowledged.values())) == before + len(LOGS)
