"""Reads the cluster: the partitions of its internal topics into shards, its topics into the registry, and where its logs end.

    look up     every few seconds, and when a leader has moved: brokers, leaders, topics
    fetch       one connection to each broker, for all partitions that it leads
    ends        every few seconds: the end offsets of partitions that groups have committed, for their lag

Whatever fails is tried again. Meanwhile views show what was read last, and `problem` says what is wrong.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from coordinator.client.asynchronous import Client
from coordinator.client.conversation import LinkFailed
from coordinator.client.reading import EARLIEST, FETCH_BY_NAME, LATEST, fetch_request, offsets_request
from coordinator.log.batch import CorruptBatch, UnsupportedCompression
from coordinator.overlay.brokers import Brokers
from coordinator.overlay.topics import TopicFollower
from coordinator.protocol.codec import DecodeError
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import MetadataRequest, MetadataResponse
from coordinator.runtime.serde import UnknownRecordVersion
from coordinator.runtime.shard import Status
from coordinator.topics.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.watch.shard import WatchedShard

_log = logging.getLogger(__name__)

LOOK_UP_S = 1.0
LOOK_UP_LARGE_S = 10.0
"""With more than `LARGE` topics, whose list is large."""
LARGE = 1_000
RETRY_S = 0.5
ENDS_S = 5.0
FETCH_BYTES = 1 << 20
"""Of one response: they are replayed in one turn for each partition, a few tens of milliseconds at most."""
_WAIT_MS = 500
_BY_NAME = 12
_PARTITIONS_MAX = 5_000
"""Of one question for end offsets."""
_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
Partition = tuple[str, int]


class NoRight(Exception):
    """The cluster does not let this account read a topic."""


def no_right(topic: str) -> str:
    """What an administrator has to do."""
    return f"the account of the watcher may not read {topic}: it needs READ and DESCRIBE on this topic"


async def partitions_of(brokers: Brokers, topic: str) -> Mapping[int, int]:
    """The partitions of an internal topic with their leaders; empty if there is no such topic yet.

    Raises LinkFailed and NoRight.
    """
    wanted = [MetadataRequest.MetadataRequestTopic(name=topic)]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    response = await brokers.ask_any(request, version_max=_BY_NAME)
    [found] = response.topics
    if found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise NoRight(no_right(topic))
    leaders = {each.partition_index: each.leader_id for each in found.partitions}
    if leaders:
        index, leader = next(iter(leaders.items()))
        fetched = await brokers.ask(
            leader, fetch_request([(topic, index, 0)], 0, FETCH_BYTES), version_max=FETCH_BY_NAME
        )
        codes = {each.error_code for entry in fetched.responses for each in entry.partitions}
        if ErrorCode.TOPIC_AUTHORIZATION_FAILED in codes:
            raise NoRight(no_right(topic))
    return leaders


class Source:
    """The cluster, for the shards of one watcher."""

    def __init__(
        self,
        brokers: Brokers,
        shards: Mapping[Partition, WatchedShard[Any]],
        follower: TopicFollower,
        wall_ms: Callable[[], int],
        *,
        history_ms: int,
    ) -> None:
        """`history_ms`: how far back events go when the event log is empty."""
        self._brokers = brokers
        self._shards = shards
        self._follower = follower
        self._wall_ms = wall_ms
        self._history_ms = history_ms
        self._problems: dict[str, str] = {}
        """What is wrong, by what it is about."""
        self._leaders: dict[Partition, int] = {}
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._clients: dict[int, Client] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._wake = asyncio.Event()
        self.ends: dict[Partition, int] = {}
        """The end offsets of partitions of topics, as they were asked for last."""

    @property
    def problem(self) -> str:
        """Why views may be out of date; empty if they are not."""
        return "; ".join(dict.fromkeys(self._problems.values()))

    # --- the life of it -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._again("cluster", self._look_up)),
            loop.create_task(self._again("end offsets", self._ask_ends)),
        ]

    async def stop(self) -> None:
        tasks = [*self._tasks, *self._readers.values()]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        for client in self._clients.values():
            client.close()
        self._brokers.disconnect()

    async def _again(self, what: str, step: Callable[[], Awaitable[float]]) -> None:
        """Runs a step again and again; it returns how long to wait. A failure is noted, and it is tried again sooner."""
        while True:
            wait_s = RETRY_S
            try:
                wait_s = await step()
                self._note(what, "")
            except LinkFailed as error:
                self._note(what, f"the cluster cannot be read: {error}")
            except Exception as error:  # noqa: BLE001 - a bug in one step must not end the watching
                self._note_bug(what, error)
                wait_s = LOOK_UP_LARGE_S
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
                await asyncio.sleep(RETRY_S)
            self._wake.clear()

    def _note(self, what: str, problem: str) -> None:
        if not problem:
            if self._problems.pop(what, None) is not None:
                _log.info("event=cluster_read_again what=%s", what.replace(" ", "_"))
            return
        self._problems[what] = problem
        _log.warning("event=cluster_not_read reason=%s", problem)

    def _note_bug(self, what: str, error: Exception) -> None:
        self._problems[what] = f"a bug, see the log: {type(error).__name__}: {error}"
        _log.exception("event=watch_step_failed step=%s", what.replace(" ", "_"))

    # --- look-ups -----------------------------------------------------------------------------------------------------

    async def _look_up(self) -> float:
        response = await self._brokers.look_up()
        self._leaders = {
            (topic.name, each.partition_index): each.leader_id
            for topic in response.topics
            if topic.name is not None and not topic.error_code
            for each in topic.partitions
            if each.leader_id >= 0
        }
        without = [each for each in self._shards if each not in self._leaders]
        missing = "" if not without else f"{'-'.join(map(str, without[0]))} has no leader, or may not be read"
        self._note("leaders", missing)
        for leader in {self._leaders[each] for each in self._shards if each in self._leaders}:
            task = self._readers.get(leader)
            if task is None or task.done():
                self._readers[leader] = asyncio.get_running_loop().create_task(self._read(leader))
        await self._follow_topics(response)
        return LOOK_UP_S if len(response.topics) <= LARGE else LOOK_UP_LARGE_S

    async def _follow_topics(self, response: MetadataResponse) -> None:
        unlisted = self._follower.unlisted(response)
        unknown = await self._brokers.unknown(unlisted) if unlisted else set()
        applied = asyncio.get_running_loop().create_future()
        self._follower.follow(response, unknown, lambda: applied.set_result(None))
        await applied

    # --- fetching -----------------------------------------------------------------------------------------------------

    async def _read(self, leader: int) -> None:
        """Reads the partitions that a broker leads, as long as it leads some."""
        what, turn = f"broker {leader}", 0
        while mine := [
            each
            for each, shard in self._shards.items()
            if self._leaders.get(each) == leader and shard.status is not Status.FAILED
        ]:
            turn += 1
            try:
                first = turn % len(mine)  # a full response has only the first of them
                await self._read_on(leader, mine[first:] + mine[:first])
                self._note(what, "")
            except LinkFailed as error:
                self._note(what, f"the cluster cannot be read: {error}")
                client = self._clients.pop(leader, None)
                if client is not None:
                    client.close()
                self._wake.set()
                await asyncio.sleep(RETRY_S)
            except Exception as error:  # noqa: BLE001 - as above
                self._note_bug(what, error)
                await asyncio.sleep(LOOK_UP_LARGE_S)
        self._note(what, "")

    async def _read_on(self, leader: int, mine: Sequence[Partition]) -> None:
        """Fetches once. Raises LinkFailed."""
        client = self._clients.get(leader)
        if client is None or client.is_lost:
            client = self._clients[leader] = await self._brokers.connect(leader)
        new = [each for each in mine if not self._shards[each].is_known]
        if new:
            await self._begin(client, new)
        wanted = [(*each, self._shards[each].next_offset) for each in mine if self._shards[each].is_known]
        if not wanted:
            raise LinkFailed(f"broker {leader} does not say where the logs begin")
        response = await client.ask(fetch_request(wanted, _WAIT_MS, FETCH_BYTES), version_max=FETCH_BY_NAME)
        if response.error_code:
            raise LinkFailed(f"Fetch: {ErrorCode(response.error_code).name}")
        has_moved = False
        for topic in response.responses:
            for found in topic.partitions:
                partition = topic.topic, found.partition_index
                shard, name = self._shards[partition], f"{topic.topic}-{found.partition_index}"
                if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    # The cluster has lost its end, or the topic was created again.
                    _log.warning("event=position_out_of_range log=%s position=%d", name, shard.next_offset)
                    shard.is_known = False
                elif found.error_code in _MOVED:
                    has_moved = True
                elif found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    raise LinkFailed(no_right(topic.topic))
                elif found.error_code:
                    raise LinkFailed(f"{name}: {ErrorCode(found.error_code).name}")
                else:
                    self._take(shard, name, found.records or b"", found.high_watermark)
                    await asyncio.sleep(0)
        if has_moved:
            self._wake.set()
            await asyncio.sleep(RETRY_S)

    def _take(self, shard: WatchedShard[Any], name: str, records: bytes, high_watermark: int) -> None:
        try:
            shard.feed(records)
        except (CorruptBatch, DecodeError, UnknownRecordVersion, UnsupportedCompression) as error:
            _log.exception("event=log_not_understood log=%s offset=%d", name, shard.next_offset)
            shard.fail(f"the batch at offset {shard.next_offset} of the cluster's log cannot be read: {error}")
            return
        if shard.next_offset >= high_watermark:
            shard.caught_up()

    async def _begin(self, client: Client, new: Sequence[Partition]) -> None:
        """Finds out where logs begin, and from where on events are derived."""
        starts, ends = await _offsets(client, new, EARLIEST), await _offsets(client, new, LATEST)
        covered = {each: self._shards[each].covered_offset() for each in new}
        fresh = [each for each in new if covered[each] < 0]
        recent = await _offsets(client, fresh, self._wall_ms() - self._history_ms) if fresh else {}
        for each in starts.keys() & ends.keys():
            since = recent.get(each, -1) if covered[each] < 0 else covered[each]
            # The log may end earlier than it did: an unclean election, or a topic that was created again.
            self._shards[each].begin(starts[each], ends[each] if since < 0 else min(since, ends[each]))

    # --- the ends of logs ---------------------------------------------------------------------------------------------

    async def _ask_ends(self) -> float:
        wanted = {
            partition
            for shard in self._shards.values()
            if hasattr(shard.state, "offsets")
            for offsets in shard.state.offsets.by_group.values()
            for partition in offsets
        }
        by_leader: dict[int, list[Partition]] = {}
        for partition in wanted:
            leader = self._leaders.get(partition)
            if leader is not None:
                by_leader.setdefault(leader, []).append(partition)
        found: dict[Partition, int] = {}
        try:
            for leader, partitions in by_leader.items():
                client = await self._brokers.client(leader)
                for first in range(0, len(partitions), _PARTITIONS_MAX):
                    found |= await _offsets(client, partitions[first : first + _PARTITIONS_MAX], LATEST)
        finally:
            self.ends = found
        return ENDS_S


async def _offsets(client: Client, partitions: Iterable[Partition], timestamp: int) -> dict[Partition, int]:
    """The offset for a timestamp in each partition; those that the broker cannot say are left out. Raises LinkFailed."""
    response = await client.ask(offsets_request((*each, timestamp) for each in sorted(partitions)))
    return {
        (topic.name, each.partition_index): each.offset
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code
    }


def watched_partitions(groups: Sequence[Any], transactions: Sequence[Any]) -> dict[Partition, WatchedShard[Any]]:
    """The shards by the partitions of the cluster that they read."""
    return {(CONSUMER_OFFSETS, each.index): each for each in groups} | {
        (TRANSACTION_STATE, each.index): each for each in transactions
    }
