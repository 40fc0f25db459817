"""A whole server in this process, with real sockets and a folder of its own, whose rules a test sets without HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from coordinator.client.conversation import Conversation, Splitter
from coordinator.config.load import load
from coordinator.config.paths import CONFIGS
from coordinator.protocol import messages
from coordinator.protocol.messages import FetchRequest, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest
from coordinator.rules.faults import Fault
from coordinator.rules.interceptor import Interceptor
from coordinator.rules.model import Entry, RecordingRequest, Rule
from coordinator.rules.recordings import Recording
from coordinator.server.composition import Server
from coordinator.world.clock import RealClock
from coordinator.world.disk import RealDisk
from coordinator.world.entropy import RealEntropy
from coordinator.world.threads import ThreadPool
from tests.support.server_process import TOPICS
from tests.topics.data_plane import batch

WITHIN_S = 30.0


class Closed(Exception):
    """The server closed the connection."""


class Client:
    """One connection, which sends messages one at a time or many at once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._conversation: Conversation[None] = Conversation(client_id)
        self._splitter = Splitter()
        self._responses: list[bytes] = []
        self.last = 0
        """The correlation id of the last request."""

    def send(self, api: str, version: int, request: Any = None, /, **fields: Any) -> None:
        message = request if request is not None else getattr(messages, f"{api}Request")(**fields)
        self.last += 1
        answered = getattr(message, "acks", None) != 0
        conversation = self._conversation if answered else Conversation[None](self._client_id)
        self._writer.write(conversation.request(message, version, None))

    async def receive(self) -> Any:
        """The answer to the oldest request without one. Raises Closed."""
        while not self._responses:
            try:
                async with asyncio.timeout(WITHIN_S):
                    data = await self._reader.read(1 << 16)
            except ConnectionError as error:
                raise Closed from error
            if not data:
                raise Closed
            self._responses += map(b"".join, self._splitter.split(data))
        answer = self._conversation.response(self._responses.pop(0))
        assert not answer.extra_bytes
        return answer.message

    async def call(self, api: str, version: int, request: Any = None, /, **fields: Any) -> Any:
        self.send(api, version, request, **fields)
        return await self.receive()

    async def closed(self) -> None:
        """Returns when the server has closed the connection; nothing more may arrive before."""
        async with asyncio.timeout(WITHIN_S):
            assert await self._reader.read() == b"" == b"".join(self._responses)

    async def silent(self) -> None:
        """Returns when other connections had several turns, and nothing has arrived here."""
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not self._responses and not self._reader._buffer  # type: ignore[attr-defined]

    def close(self) -> None:
        self._writer.close()


class World:
    """A running server."""

    def __init__(self, server: Server, bootstrap: str) -> None:
        self.server = server
        self.bootstrap = bootstrap
        self._clients: list[Client] = []

    @property
    def interceptor(self) -> Interceptor:
        return self.server.interceptor

    async def client(self, client_id: str = "test", listener: int = 0) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.listeners[listener].bound[1])
        client = Client(reader, writer, client_id)
        self._clients.append(client)
        return client

    def fault(self, match: dict[str, Any], action: dict[str, Any], **extent: Any) -> Fault:
        scope = extent.pop("scope", None)
        rule = {"match": match, "action": action, "extent": extent, "scope": scope}
        return self.interceptor.faults.add(msgspec.convert(rule, Rule))

    def record(self, match: dict[str, Any], **fields: Any) -> Recording:
        return self.interceptor.recordings.add(msgspec.convert({"match": match, **fields}, RecordingRequest))

    def clear(self) -> None:
        self.interceptor.faults.clear(list(self.interceptor.faults.by_id.values()))

    async def join(self, client: Client, group: str, **fields: Any) -> tuple[str, int]:
        """Makes the client the only member of a Stable classic group; returns member id and generation."""
        joining = joining_fields(group, **fields)
        joined = await client.call("JoinGroup", 7, **joining)
        if joined.error_code:
            joined = await client.call("JoinGroup", 7, **joining | {"member_id": joined.member_id})
        assert joined.error_code == 0
        synced = await client.call(
            "SyncGroup", 5, group_id=group, generation_id=joined.generation_id, member_id=joined.member_id,
            protocol_type="consumer", protocol_name="range",
            assignments=[messages.SyncGroupRequest.SyncGroupRequestAssignment(joined.member_id, b"")],
        )  # fmt: skip
        assert synced.error_code == 0
        return joined.member_id, joined.generation_id

    async def stop(self) -> None:
        for client in self._clients:
            client.close()
        await self.server.stop()


def joining_fields(group: str, **fields: Any) -> dict[str, Any]:
    protocol = messages.JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
    return {
        "group_id": group,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": [protocol],
        **fields,
    }


@asynccontextmanager
async def running(folder: Path, settings: Sequence[str] = ()) -> AsyncIterator[World]:
    config = load(
        CONFIGS / "test.yaml",
        [*settings, f"topics={json.dumps(TOPICS)}", "durability=write"],
        {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "data_dir": str(folder)},
        {},
    )
    loop = asyncio.get_running_loop()
    server = Server(config, loop, RealClock(), RealDisk(), RealEntropy(), ThreadPool(loop, 2))
    bootstrap, _ = await server.start()
    world = World(server, bootstrap)
    try:
        yield world
    finally:
        await world.stop()


_ENTRY = msgspec.json.Decoder(Entry)


def entries(recording, after=0):
    found, _ = recording.page(after, 1_000)
    return [_ENTRY.decode(each) for each in found]


def last(recording):
    return entries(recording)[-1]


_Commit = OffsetCommitRequest


_Produce = ProduceRequest


def commit(offset, group="g", topic="orders", partitions=(0,)):
    """An OffsetCommit of a consumer without a group's membership."""
    partitions = [_Commit.OffsetCommitRequestPartition(index, offset) for index in partitions]
    return _Commit(group_id=group, topics=[_Commit.OffsetCommitRequestTopic(topic, partitions=partitions)])


async def committed(client, group="g", topic="orders", partition=0):
    asked = [OffsetFetchRequest.OffsetFetchRequestTopic(topic, [partition])]
    response = await client.call("OffsetFetch", 5, group_id=group, topics=asked)
    return response.topics[0].partitions[0].committed_offset


def produce(topics, acks=-1):
    """`topics`: (topic, partitions)."""
    data = [
        _Produce.TopicProduceData(
            name, bytes(16), [_Produce.PartitionProduceData(each, batch(b"v")) for each in partitions]
        )
        for name, partitions in topics
    ]
    return _Produce(acks=acks, timeout_ms=1_000, topic_data=data)


def fetch(partitions, **fields):
    """`partitions`: (topic, partition, offset)."""
    asked = FetchRequest.FetchPartition
    topics = [
        FetchRequest.FetchTopic(topic=topic, partitions=[asked(index, fetch_offset=offset, partition_max_bytes=10**6)])
        for topic, index, offset in partitions
    ]
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=10**6, session_epoch=-1, topics=topics, **fields)
