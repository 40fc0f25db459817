"""Requests of one worker to another."""

import asyncio
from contextlib import asynccontextmanager

from coordinator.cluster.engine.engine import Owner, Worker
from coordinator.cluster.workers import peers as peers_of_workers
from coordinator.cluster.workers.cluster import Workers
from coordinator.cluster.workers.peers import Peers
from coordinator.protocol.errors import ErrorCode
from coordinator.runtime.result import Marker
from coordinator.topics.names import CONSUMER_OFFSETS

MARKER = Marker(7, 3, commit=True, coordinator_epoch=1, transaction_version=2)


@asynccontextmanager
async def stopped_worker(answer=b""):
    """Yields a cluster with a worker that answers every request with these bytes, and a queue of its connections."""
    connections: asyncio.Queue[asyncio.BaseTransport] = asyncio.Queue()

    class Silent(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport
            connections.put_nowait(transport)

        def data_received(self, data):
            self.transport.write(answer)

    server = await asyncio.get_running_loop().create_server(Silent, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    cluster = Workers()
    cluster.living = [Worker("other", 2, "127.0.0.1", port)]
    cluster.owners = {f"{CONSUMER_OFFSETS}-0": Owner(1, cluster.living[0])}
    yield cluster, connections
    server.close()


async def test_what_waits_behind_a_request_to_a_stopped_worker_fails_with_it(monkeypatch):
    """Each would wait for as long again, one after another, and with it what its client may do next."""
    monkeypatch.setattr(peers_of_workers, "ANSWER_S", 0.2)
    async with stopped_worker() as (cluster, connections):
        peers, outcomes = Peers(cluster), asyncio.Queue()
        for _ in range(5):
            peers.write_marker(MARKER, CONSUMER_OFFSETS, 0, outcomes.put_nowait)
        assert [await outcomes.get() for _ in range(5)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 5
        assert connections.qsize() == 1
        peers.write_marker(MARKER, CONSUMER_OFFSETS, 0, outcomes.put_nowait)
        assert await outcomes.get() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert connections.qsize() == 2, "the next one tries again"
        await peers.stop()


async def test_requests_to_a_worker_fail_as_soon_as_it_is_dead(monkeypatch):
    """They need not wait until their time is over: another worker takes the shard at this moment."""
    monkeypatch.setattr(peers_of_workers, "ANSWER_S", 3600.0)
    async with stopped_worker() as (cluster, connections):
        peers, outcomes = Peers(cluster), asyncio.Queue()
        for _ in range(2):
            peers.write_marker(MARKER, CONSUMER_OFFSETS, 0, outcomes.put_nowait)
        await connections.get()
        assert outcomes.empty()
        cluster.update([], [])
        assert [await outcomes.get() for _ in range(2)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
        await peers.stop()


async def test_an_answer_larger_than_any_response_to_a_worker_is_not_read(monkeypatch):
    """The size is what the other side says: a worker would wait for all of it, and keep it in memory."""
    monkeypatch.setattr(peers_of_workers, "ANSWER_S", 3600.0)
    async with stopped_worker((1 << 30).to_bytes(4)) as (cluster, _):
        peers, outcomes = Peers(cluster), asyncio.Queue()
        peers.write_marker(MARKER, CONSUMER_OFFSETS, 0, outcomes.put_nowait)
        assert await outcomes.get() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await peers.stop()
