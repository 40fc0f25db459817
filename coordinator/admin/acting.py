"""Acts on groups, members and transactions, as a test needs them: each leads to a state that is rare in a real cluster.

An act is an operation of the group's shard (groups/administration.py); its response comes when its effect is durable.
"""

import asyncio
from typing import Annotated, Any

from msgspec import Meta, Struct

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request
from coordinator.admin.group_command import Reason, check_reason, run_on_group, run_on_shard, shown
from coordinator.admin.located import LOCATED_REFUSALS, group_shard, transaction_shard
from coordinator.admin.server_view import ServerView
from coordinator.groups import administration
from coordinator.groups.administration import ActOnGroup, ActOnMember, asked_for
from coordinator.groups.offsets.expire_now import ExpireOffsets, expire_now
from coordinator.runtime.shard import Shard, Status
from coordinator.share_state.share_state import SharePartition
from coordinator.transactions import expire_now as transaction_expiry

HELD_MS_MAX = 600_000
"""The longest time for which a shard may be kept loading."""
KEPT_SHOWN_MAX = 1_000
"""Offsets that stay, of which the response says why."""


class ActReason(Struct, forbid_unknown_fields=True):
    """Why an administrator acts; for people."""

    reason: Reason | None = None


class ActedOnGroup(Struct, omit_defaults=True):
    """The group when the effect was durable. `epoch`: the generation or group epoch. A group that is gone is Dead."""

    group_id: str
    kind: str
    state: str
    epoch: int
    member_id: str | None = None


class ExpireOffsetsRequest(Struct, forbid_unknown_fields=True):
    """The topics whose offsets expire; absent: all."""

    topics: Annotated[list[str], Meta(max_length=10_000)] | None = None


class KeptOffset(Struct):
    """An offset that retention would not delete either, and why."""

    topic: str
    partition: int
    why: str


class ExpiredOffsets(Struct):
    """What was done."""

    group_id: str
    expired: int
    kept: list[KeptOffset]
    """At most a thousand."""
    group_deleted: bool
    """Whether the group had no members and went with its last offset."""


class ReloadRequest(Struct, forbid_unknown_fields=True):
    """How long other requests get COORDINATOR_LOAD_IN_PROGRESS, by the protocol's clock. 0: as long as the log takes."""

    for_ms: Annotated[int, Meta(ge=0, le=HELD_MS_MAX)] = 0


class ReloadedShard(Struct, omit_defaults=True):
    """A shard that loads its log again."""

    topic: str
    shard: int
    refused: int
    """Requests that waited and got NOT_COORDINATOR."""
    group_id: str | None = None
    transactional_id: str | None = None


async def evict(server: ServerView, request: Request) -> ActedOnGroup:
    """Removes a member. Its next request gets UNKNOWN_MEMBER_ID."""
    return await _act_on_member(server, request, administration.evict, _reason(request))


async def expire_session(server: ServerView, request: Request) -> ActedOnGroup:
    """Ends the session of a member, as if it had sent nothing for its session timeout."""
    return await _act_on_member(server, request, administration.expire_session, None)


async def bump_epoch(server: ServerView, request: Request) -> ActedOnGroup:
    """Raises the generation or group epoch by one; the members stay."""
    group_id = request.parameters["group_id"]
    wanted = ActOnGroup(group_id, _reason(request))
    reply = await run_on_group(server, group_id, administration.bump_epoch, wanted)
    acted = await _acted(server, group_id, None)
    acted.epoch = reply.epoch
    return acted


async def expire_offsets(server: ServerView, request: Request) -> ExpiredOffsets:
    """Deletes the offsets of a group as if their retention time had passed."""
    group_id, topics = request.parameters["group_id"], request.body.topics
    wanted = ExpireOffsets(group_id, None if topics is None else frozenset(topics))
    expired, has_more = 0, True
    while has_more:
        reply = await run_on_group(server, group_id, expire_now, wanted)
        expired, has_more = expired + reply.offsets, reply.has_more
    kept = [
        KeptOffset(topic, partition, why) for (topic, partition), why in sorted(reply.kept.items())[:KEPT_SHOWN_MAX]
    ]
    return ExpiredOffsets(group_id, expired, kept, reply.is_deleted)


class ExpireLocksRequest(Struct, forbid_unknown_fields=True):
    """Whose locks end, and where; absent: all."""

    member_id: Annotated[str, Meta(min_length=1)] | None = None
    topic: str | None = None
    partition: Annotated[int, Meta(ge=0)] | None = None


class ExpiredLocks(Struct):
    """The number of records whose locks ended, when that was durable."""

    group_id: str
    records: int


async def expire_locks(server: ServerView, request: Request) -> ExpiredLocks:
    """Ends acquisition locks of a share group, as if their time had passed: those of partitions that this server leads."""
    group_id, wanted = request.parameters["group_id"], request.body
    outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def is_meant(key: SharePartition) -> bool:
        return wanted.partition in (None, key.partition) and wanted.topic in (
            None,
            server.topics.topic_name(key.topic_id),
        )

    def done(count: int) -> None:
        if not outcome.done():  # the client may have gone
            outcome.set_result(count)

    server.share_partitions.end_locks(group_id, is_meant, wanted.member_id or "", done)
    return ExpiredLocks(group_id, await outcome)


def reload_group(server: ServerView, request: Request) -> ReloadedShard:
    """Lets the shard of a group load its log again, as after a failover. The other groups of the shard go with it."""
    group_id = request.parameters["group_id"]
    shard = group_shard(server, group_id)
    return ReloadedShard("__consumer_offsets", shard.index, _fail_over(shard, request.body.for_ms), group_id=group_id)


def reload_transaction(server: ServerView, request: Request) -> ReloadedShard:
    """Lets the shard of a transactional id load its log again, as after a failover."""
    transactional_id = request.parameters["transactional_id"]
    shard = transaction_shard(server, transactional_id)
    refused = _fail_over(shard, request.body.for_ms)
    return ReloadedShard("__transaction_state", shard.index, refused, transactional_id=transactional_id)


class ExpiredTransaction(Struct):
    """The transactional id when the decision to abort was durable."""

    transactional_id: str
    aborted: bool = True


async def expire_transaction(server: ServerView, request: Request) -> ExpiredTransaction:
    """Aborts the open transaction of a transactional id, as if its timeout had passed."""
    transactional_id = request.parameters["transactional_id"]
    shard = transaction_shard(server, transactional_id)
    wanted = transaction_expiry.ExpireTransaction(transactional_id)
    await run_on_shard(shard, transaction_expiry.expire_now, wanted)
    return ExpiredTransaction(transactional_id)


async def _act_on_member(server: ServerView, request: Request, operation: Any, reason: str | None) -> ActedOnGroup:
    group_id, member_id = request.parameters["group_id"], request.parameters["member_id"]
    await run_on_group(server, group_id, operation, ActOnMember(group_id, member_id, reason))
    return await _acted(server, group_id, member_id)


async def _acted(server: ServerView, group_id: str, member_id: str | None) -> ActedOnGroup:
    """The group as it is by now, which may be the effect of what was decided since. Raises RefusedRequest as `shown`."""
    shard: Any = server.groups.shard_of(group_id)

    def show() -> ActedOnGroup:
        group = shard.state.by_id.get(group_id)
        if group is None:
            return ActedOnGroup(group_id, "simple", "Dead", -1, member_id)
        return ActedOnGroup(group_id, group.kind.label, group.state.value, group.epoch, member_id)

    return await shown([shard], show)


def _reason(request: Request) -> str:
    reason = request.body.reason
    return asked_for(None if reason is None else check_reason(reason), request.asked_by)


def _fail_over(shard: Shard[Any], for_ms: int) -> int:
    if shard.status in (Status.FAILED, Status.STOPPED):
        raise RefusedRequest(503, f"the shard is {shard.status}: {shard.reason}")
    return shard.fail_over(for_ms)


_MEMBER = "/v1/groups/{group_id}/members/{member_id}"

ENDPOINTS = (
    Endpoint(
        "POST", f"{_MEMBER}/evict", "remove a member", evict, name="evictMember", body=ActReason, returns=ActedOnGroup,
        refusals=(404, 409, *LOCATED_REFUSALS), control=True,
    ),
    Endpoint(
        "POST", f"{_MEMBER}/expire-session", "end the session of a member", expire_session, name="expireSession",
        returns=ActedOnGroup, refusals=(404, 409, *LOCATED_REFUSALS), control=True,
    ),
    Endpoint(
        "POST", "/v1/groups/{group_id}/bump-epoch", "raise the generation or group epoch", bump_epoch, name="bumpEpoch",
        body=ActReason, returns=ActedOnGroup, refusals=(404, 409, *LOCATED_REFUSALS), control=True,
    ),
    Endpoint(
        "POST", "/v1/groups/{group_id}/offsets/expire", "let offsets of a group expire", expire_offsets,
        name="expireOffsets", body=ExpireOffsetsRequest, returns=ExpiredOffsets, refusals=(404, 409, *LOCATED_REFUSALS),
        control=True,
    ),
    Endpoint(
        "POST", "/v1/groups/{group_id}/expire-locks", "end acquisition locks of a share group", expire_locks,
        name="expireLocks", body=ExpireLocksRequest, returns=ExpiredLocks, control=True,
    ),
    Endpoint(
        "POST", "/v1/groups/{group_id}/reload", "load the shard of a group again, as after a failover", reload_group,
        name="reloadGroup", body=ReloadRequest, returns=ReloadedShard, refusals=LOCATED_REFUSALS, control=True,
    ),
    Endpoint(
        "POST", "/v1/transactions/{transactional_id}/reload", "load the shard of a transactional id again",
        reload_transaction, name="reloadTransaction", body=ReloadRequest, returns=ReloadedShard, refusals=LOCATED_REFUSALS,
        control=True,
    ),
    Endpoint(
        "POST", "/v1/transactions/{transactional_id}/expire", "abort a transaction as its timeout does",
        expire_transaction, name="expireTransaction", returns=ExpiredTransaction,
        refusals=(404, 409, *LOCATED_REFUSALS), control=True,
    ),
)  # fmt: skip
