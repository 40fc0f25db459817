"""Runs an operation on a group for a request over HTTP, or shows groups; returns when what that depends on is durable."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from coordinator.admin.endpoint import RefusedRequest
from coordinator.admin.located import AGAIN, group_shard
from coordinator.admin.server_view import ServerView
from coordinator.groups.force_rebalance import REASON_CHARS_MAX
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import DONE, InternalRequest
from coordinator.runtime.result import Result
from coordinator.runtime.shard import Shard, Status

V = TypeVar("V")

Reason = Annotated[
    str,
    Meta(min_length=1, max_length=REASON_CHARS_MAX, description="Why, for people: one line of printable characters."),
]

_WRITING = (Status.ACTIVE, Status.FULL, Status.STOPPED)
_STATUS = {
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.UNKNOWN_MEMBER_ID: 404,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: 404,
    ErrorCode.INVALID_TXN_STATE: 409,
    ErrorCode.INVALID_REQUEST: 409,
    ErrorCode.UNKNOWN_SERVER_ERROR: 500,
}
"""The HTTP status of an error; 503 for all others: the coordinator is not available."""


async def shown(shards: Iterable[Shard[Any]], show: Callable[[], V]) -> V:
    """Returns `show()` when everything that these shards have written by now is durable, so that no crash can take it back.

    Raises RefusedRequest: 503 it was lost instead.
    """
    found = show()
    if not await are_durable(shards):
        raise RefusedRequest(503, "what was decided last could not be written: try again", headers=AGAIN)
    return found


async def are_durable(shards: Iterable[Shard[Any]]) -> bool:
    """Waits until what these shards have decided by now is durable; returns False if it was lost instead."""
    # Without a write in progress, what memory has is durable; a shard that loads shows what its log has.
    writing = [shard for shard in shards if not shard.is_settled and shard.status in _WRITING]
    return all(await asyncio.gather(*map(_is_durable, writing)))


async def _is_durable(shard: Shard[Any]) -> bool:
    reply = await _submitted(shard, _nothing, None, writes=False)
    return not isinstance(reply, KafkaError)


def _nothing(*_arguments: Any) -> Result:
    return Result(DONE)


async def run_on_group(server: ServerView, group_id: str, operation: Any, request: Any) -> Any:
    """As `run_on_shard`, with the shard of the group (`group_shard`)."""
    return await run_on_shard(group_shard(server, group_id), operation, request)


async def run_on_shard(shard: Shard[Any], operation: Any, request: Any) -> Any:
    """Submits `operation(state, request, ...)` to a shard, and returns its reply when it is durable.

    Raises RefusedRequest: 404 there is no such group, member or transactional id; 409 it is in the wrong state; 503 the
    coordinator cannot write now, and it is unknown whether it was done.
    """
    reply = await _submitted(shard, operation, request, writes=True)
    if isinstance(reply, KafkaError):
        raise RefusedRequest(_STATUS.get(reply.code, 503), reply.message or f"{reply.code.name}: try again")
    return reply


async def _submitted(shard: Shard[Any], operation: Any, request: Any, *, writes: bool) -> Any:
    """The reply of an operation, or the KafkaError that refused it."""
    outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(reply: Any) -> None:
        if not outcome.done():  # the client may have gone
            outcome.set_result(reply)

    shard.submit(operation, InternalRequest(request, done, writes=writes))
    return await outcome


def check_reason(reason: str) -> str:
    """The reason. Raises RefusedRequest: 422 it is not one line of printable characters."""
    if not reason.isprintable() or not reason.strip():
        raise RefusedRequest(
            422, f"the reason must be one line of at most {REASON_CHARS_MAX} printable characters, not only spaces"
        )
    return reason
