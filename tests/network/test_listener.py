"""A listener accepts connections within its limits and closes idle and stalled ones."""

import asyncio
import socket
from types import SimpleNamespace

import pytest

from coordinator.network.connection import Closed, ConnectionLimits
from coordinator.network.dispatch import Dispatcher
from coordinator.network.listener import Listener
from coordinator.network.turn import Turn
from coordinator.protocol.codec import Codec
from coordinator.requests import api_versions
from coordinator.runtime.memory import Memory

HELLO = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\0\0"
"""ApiVersions v0, correlation id 7, empty client id."""


class Clock:
    now = 0


async def listening(clock, **changes):
    server = SimpleNamespace(cluster_id="c", node_id=1)
    limits = ConnectionLimits(
        frame_bytes_max=1_000,
        produce_bytes_max=1_000,
        requests_in_flight_max=5,
        write_buffer_bytes_max=1 << 16,
        idle_ms_max=1_000,
        frame_ms_max=500,
        drain_ms_max=500,
    )
    listener = Listener(
        Dispatcher(server, {18: api_versions.API}, Codec.of(None)),
        limits,
        Memory(1 << 20, asyncio.get_running_loop().call_soon),
        Turn(asyncio.get_running_loop().call_soon, lambda: clock.now, lambda: 0, lambda turn_ms, cpu_ns: None),
        **{
            "advertised": ("localhost", 0),
            "connections_max": 10,
            "connections_per_ip_max": 10,
            "connections_per_second_max": 100,
            "now_ms": lambda: clock.now,
            "wall_ms": lambda: clock.now,
        }
        | changes,
    )
    await listener.start("127.0.0.1", 0)
    await listener.open()
    return listener


class Client:
    """A socket on the test's own loop."""

    def __init__(self, listener):
        self.address = ("127.0.0.1", listener.advertised[1])
        self.loop = asyncio.get_running_loop()
        self.socket = socket.socket()
        self.socket.setblocking(False)

    async def __aenter__(self):
        await self.loop.sock_connect(self.socket, self.address)
        return self

    async def __aexit__(self, *_):
        self.socket.close()

    async def send(self, data):
        await self.loop.sock_sendall(self.socket, data)

    async def receive(self):
        """Bytes, or nothing when the server closed."""
        try:
            return await self.loop.sock_recv(self.socket, 65_536)
        except ConnectionError:
            return b""

    async def is_served(self):
        try:
            await self.send(HELLO)
        except ConnectionError:
            return False
        return await self.receive() != b""


async def turns(condition):
    """Runs the loop until the condition holds (or pytest's timeout ends the test)."""
    while not condition():  # noqa: ASYNC110 - the condition is the server's state; it has no event for a test
        await asyncio.sleep(0)


async def turns_of(count):
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("limit", ["connections_max", "connections_per_ip_max"])
async def test_connections_beyond_the_limit_are_closed_and_those_within_are_served(limit):
    listener = await listening(Clock(), **{limit: 2})
    async with Client(listener) as first, Client(listener) as second:
        assert await first.is_served()
        assert await second.is_served()
        async with Client(listener) as third:
            assert not await third.is_served()
    assert listener.refused_count == 1
    await turns(lambda: not listener.connections)
    async with Client(listener) as fourth:
        assert await fourth.is_served()
    await listener.stop(0)


async def test_the_limit_of_connections_per_second_renews_every_second():
    clock = Clock()
    listener = await listening(clock, connections_per_second_max=2)
    for clock.now in (1_999, 2_000):
        for is_served in (True, True, False):
            async with Client(listener) as client:
                assert await client.is_served() is is_served
    assert listener.refused_count == 2
    await listener.stop(0)


@pytest.mark.parametrize(("sent", "waited_ms"), [(b"", 1_001), (HELLO[:6], 501)])
async def test_idle_and_stalled_connections_are_closed_in_time(sent, waited_ms):
    clock = Clock()
    listener = await listening(clock)
    async with Client(listener) as client:
        await turns(lambda: listener.connections)
        connection = next(iter(listener.connections))
        if sent:
            await client.send(sent)
            await turns(lambda: connection._splitter.rest)
        listener.sweep()
        clock.now = waited_ms - 1
        listener.sweep()
        assert listener.connections
        clock.now = waited_ms
        listener.sweep()
        assert await client.receive() == b""
    await listener.stop(0)


@pytest.mark.parametrize("closes", [False, True])
async def test_unread_responses_are_dropped_in_time_also_while_closing(closes):
    clock = Clock()
    listener = await listening(clock)
    async with Client(listener):
        await turns(lambda: listener.connections)
        connection = next(iter(listener.connections))
        connection._transport.write(bytes(32 << 20))
        if closes:
            connection.close(Closed.REQUEST)
        clock.now = 500
        listener.sweep()
        await turns_of(5)
        assert listener.connections
        clock.now = 501
        listener.sweep()
        await turns(lambda: not listener.connections)
        assert listener.closed[Closed.REQUEST if closes else Closed.UNREAD] == 1
    await listener.stop(0)


async def test_a_stop_closes_connections_without_open_requests_at_once():
    listener = await listening(Clock())
    async with Client(listener) as client:
        assert await client.is_served()
        await listener.stop(60_000)
        assert await client.receive() == b""
