"""Before a server is made: may this worker join, what is the cluster's id, and what is in the metadata log."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from coordinator.cluster.engine.engine import Engine, Fenced, Piece, Worker, claim_one
from coordinator.log.batch import split
from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol.messages import Message
from coordinator.topics import metadata_records
from coordinator.topics.metadata_log import messages_in
from coordinator.topics.placements import on_one
from coordinator.topics.registry import Registry, internal_topic
from coordinator.topics.topics import METADATA_FOLDER

CLUSTER_LOG = "cluster-id"
"""Its only piece is the cluster's id."""
LOCAL_DATA_LOG = "local-data-plane"
"""Claimed by a worker that keeps the records of topics on its own disk: it must be the only one."""
WAIT_S = 0.25


class CannotJoin(Exception):
    """The text says what to change."""


class InternalTopic(NamedTuple):
    """A topic whose partitions are the logs of shards."""

    name: str
    partitions: int
    segment_bytes: int
    setting: str
    """The setting that has the number of partitions."""
    cleanup_policy: str = "compact"
    is_wanted: bool = True
    """Whether this worker adds the topic if there is none."""


class Joined(NamedTuple):
    """What a server begins with."""

    cluster_id: str
    metadata: Sequence[bytes]
    """The pieces of the metadata log, in order."""
    next_sequence: int
    """Of the first piece of the metadata log that is not in `metadata`."""


async def join(
    engine: Engine,
    worker: Worker,
    topics: Sequence[InternalTopic],
    *,
    has_local_data: bool,
    new_cluster_id: Callable[[], str],
    new_topic_id: Callable[[], bytes],
    now_ms: Callable[[], int],
    dead_after_ms: int,
) -> Joined:
    """Joins the workers of an engine, or begins a cluster. `dead_after_ms`: when a worker without beats is dead.

    Raises CannotJoin; EngineUnavailable, OutcomeUnknown.
    """
    await _check_node_id(engine, worker, dead_after_ms)
    await check_data_plane(engine, worker, has_local_data=has_local_data)
    cluster_id = await _cluster_id(engine, worker, new_cluster_id)
    pieces = await _metadata(engine, worker, topics, new_topic_id, now_ms)
    return Joined(cluster_id, [data for _, data in pieces], pieces[-1][0] + 1)


async def _check_node_id(engine: Engine, worker: Worker, dead_after_ms: int) -> None:
    """Waits for a worker of the same node id to be dead: it may be this one, before it was killed."""
    waited_s = 0.0
    while True:
        same = [each for each in await engine.workers() if each.node_id == worker.node_id and each.id != worker.id]
        if not same:
            return
        if waited_s * 1000 > 2 * dead_after_ms:
            raise CannotJoin(
                f"the worker at {same[0].host}:{same[0].port} has node.id={worker.node_id} too: give each its own node.id"
            )
        await asyncio.sleep(WAIT_S)
        waited_s += WAIT_S


async def check_data_plane(engine: Engine, worker: Worker, *, has_local_data: bool) -> None:
    """Raises CannotJoin if there are other workers, and one of them or this one has the records of topics."""
    living = {each.id: each for each in await engine.workers() if each.id != worker.id}
    owner = (await engine.owners()).get(LOCAL_DATA_LOG)
    local = living.get(owner.worker.id) if owner is not None and owner.worker is not None else None
    if local is not None:
        raise CannotJoin(
            f"the worker at {local.host}:{local.port} has data.plane=local, which is for one worker:"
            " restart it with data.plane=none"
        )
    if has_local_data and living:
        raise CannotJoin(
            f"there are {len(living)} other workers, and data.plane=local is for one worker: set data.plane=none"
        )
    if has_local_data and (owner is None or owner.worker is None or owner.worker.id != worker.id):
        try:
            await claim_one(engine, LOCAL_DATA_LOG, worker, seen=0 if owner is None else owner.epoch)
        except Fenced as error:
            raise CannotJoin("another worker with data.plane=local was quicker: set data.plane=none") from error


async def _cluster_id(engine: Engine, worker: Worker, new_id: Callable[[], str]) -> str:
    """The cluster's id; the first worker chooses it."""
    while True:
        pieces = await engine.tail(CLUSTER_LOG, 0)
        if pieces:
            return pieces[0][1].decode()
        with suppress(Fenced):  # another worker was quicker, so there is something to read
            claim = await claim_one(engine, CLUSTER_LOG, worker)
            await engine.append([Piece(claim, claim.next_sequence, new_id().encode())])


async def _metadata(
    engine: Engine,
    worker: Worker,
    topics: Sequence[InternalTopic],
    new_topic_id: Callable[[], bytes],
    now_ms: Callable[[], int],
) -> list[tuple[int, bytes]]:
    """The pieces of the metadata log, after the internal topics were added to it."""
    while True:
        registry, end_offset = Registry(), 0
        pieces = await engine.tail(METADATA_FOLDER, 0)
        for _, data in pieces:
            end_offset = _replay(registry, data)
        _check_partitions(registry, topics)
        records = [
            record
            for name, partitions, segment_bytes, _, cleanup_policy, is_wanted in topics
            if is_wanted or name in registry.topics
            for record in internal_topic(
                registry, name, partitions, segment_bytes, cleanup_policy, new_topic_id, on_one(worker.node_id)
            )
        ]
        if not records:
            return pieces
        with suppress(Fenced):  # as above
            claim = await claim_one(engine, METADATA_FOLDER, worker)
            if not await engine.tail(METADATA_FOLDER, pieces[-1][0] + 1 if pieces else 0):
                await engine.append([Piece(claim, claim.next_sequence, _batch(records, end_offset, now_ms()))])


def _replay(registry: Registry, data: bytes) -> int:
    end_offset = 0
    for position, header in split(data):
        end_offset = header.next_offset
        for message in messages_in(data, position, header):
            registry.replay(message)
    return end_offset


def _check_partitions(registry: Registry, topics: Sequence[InternalTopic]) -> None:
    for topic in topics:
        found = registry.topics.get(topic.name)
        if found is not None and found.partitions != topic.partitions:
            raise CannotJoin(
                f"the cluster has {found.partitions} partitions of {topic.name}, and {topic.setting} is"
                f" {topic.partitions}; set it to {found.partitions}"
            )


def _batch(records: Sequence[Message], base_offset: int, time_ms: int) -> bytes:
    builder = BatchBuilder()
    for record in records:
        builder.add(None, metadata_records.encode(record))
    return builder.build(base_offset, time_ms)
