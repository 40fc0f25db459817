"""Runs an operation on a group for a request over HTTP, and returns when what it decided is durable."""

import asyncio
from typing import Annotated, Any

from msgspec import Meta

from coordinator.admin.endpoint import RefusedRequest
from coordinator.admin.located import group_shard
from coordinator.admin.server_view import ServerView
from coordinator.groups.force_rebalance import REASON_CHARS_MAX
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import InternalRequest
from coordinator.runtime.shard import Shard

Reason = Annotated[
    str,
    Meta(min_length=1, max_length=REASON_CHARS_MAX, description="Why, for people: one line of printable characters."),
]

_STATUS = {
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.UNKNOWN_MEMBER_ID: 404,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: 404,
    ErrorCode.INVALID_TXN_STATE: 409,
    ErrorCode.INVALID_REQUEST: 409,
    ErrorCode.UNKNOWN_SERVER_ERROR: 500,
}
"""The HTTP status of an error; 503 for all others: the coordinator is not available."""


async def run_on_group(server: ServerView, group_id: str, operation: Any, request: Any) -> Any:
    """As `run_on_shard`, with the shard of the group (`group_shard`)."""
    return await run_on_shard(group_shard(server, group_id), operation, request)


async def run_on_shard(shard: Shard[Any], operation: Any, request: Any) -> Any:
    """Submits `operation(state, request, ...)` to a shard, and returns its reply when it is durable.

    Raises RefusedRequest: 404 there is no such group, member or transactional id; 409 it is in the wrong state; 503 the
    coordinator cannot write now, and it is unknown whether it was done.
    """
    outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(reply: Any) -> None:
        if not outcome.done():  # the client may have gone
            outcome.set_result(reply)

    shard.submit(operation, InternalRequest(request, done))
    reply = await outcome
    if isinstance(reply, KafkaError):
        raise RefusedRequest(_STATUS.get(reply.code, 503), reply.message or f"{reply.code.name}: try again")
    return reply


def check_reason(reason: str) -> str:
    """The reason. Raises RefusedRequest: 422 it is not one line of printable characters."""
    if not reason.isprintable() or not reason.strip():
        raise RefusedRequest(
            422, f"the reason must be one line of at most {REASON_CHARS_MAX} printable characters, not only spaces"
        )
    return reason
