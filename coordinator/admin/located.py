"""The shard of a group or transactional id, if this server has it.

Of several workers each has some of the shards. About those of others it says where they are, instead of answering as if a group
did not exist; lists say which part they are.
"""

from types import MappingProxyType
from typing import Any

from msgspec import Struct

from coordinator.admin.endpoint import RefusedRequest
from coordinator.admin.server_view import OtherWorker, ServerView
from coordinator.config.settings import joined
from coordinator.groups.machine import GroupMachine
from coordinator.runtime.router import Router
from coordinator.runtime.shard import Shard, Status
from coordinator.topics.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.transactions.machine import TransactionMachine

MISDIRECTED = 421
LOCATED_REFUSALS = (MISDIRECTED, 503)
"""How these functions refuse a request."""
AGAIN = MappingProxyType({"retry-after": "1"})
"""Headers of a 503 before anything was done."""


class WorkerPart(Struct):
    """The part of a list that one of several workers has; the rows of other workers are missing."""

    node_id: int
    shards: int
    """The shards that this worker has."""
    shards_of_all: int


def group_shard(server: ServerView, group_id: str) -> Shard[GroupMachine]:
    """The shard of a group.

    Raises RefusedRequest: 421 another worker has it, which the text names; 503 none has it, or it is being read.
    """
    return _here(server, server.groups.shard_of(group_id), CONSUMER_OFFSETS)


def transaction_shard(server: ServerView, transactional_id: str) -> Shard[TransactionMachine]:
    """The shard of a transactional id. Raises RefusedRequest: as `group_shard`."""
    return _here(server, server.transactions.shard_of(transactional_id), TRANSACTION_STATE)


def part_of(server: ServerView, router: Router[Any]) -> WorkerPart | None:
    """The part that a list of this server is; None: it has everything."""
    if server.cluster_statistics is None:
        return None
    return WorkerPart(server.config.node_id, len(router.here), len(router.shards))


def _here(server: ServerView, shard: Shard[Any], topic: str) -> Shard[Any]:
    if shard.awaits_log:
        raise RefusedRequest(503, f"{topic}-{shard.index} is being read from the journal: try again", headers=AGAIN)
    if shard.status is not Status.ELSEWHERE:
        return shard
    of_worker = server.cluster_statistics
    owner = None if of_worker is None else of_worker.other_owner(f"{topic}-{shard.index}")
    if owner is None:
        raise RefusedRequest(503, f"no worker has {topic}-{shard.index} at the moment: try again", headers=AGAIN)
    raise elsewhere(owner, f"has {topic}-{shard.index}")


def elsewhere(worker: OtherWorker, what: str) -> RefusedRequest:
    """421: another worker answers that, at the address that it names."""
    at = f" at {worker.admin}" if worker.admin else ""
    reached = joined(worker.host, worker.port)
    return RefusedRequest(
        MISDIRECTED, f"node {worker.node_id} {what}: ask its admin HTTP{at}; clients reach it at {reached}"
    )
