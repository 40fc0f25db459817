"""Views of groups and transactions as JSON, for people and tests, and one command: to rebalance a group.

Views show the state in memory, which can be slightly ahead of the log: unlike responses over the Kafka protocol, they do not
wait until it is durable. The response to a command does.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from heapq import nsmallest
from operator import itemgetter
from typing import Any, NamedTuple

from coordinator.admin.http import RefusedRequest, Request, Response, Routes, json_body, json_response
from coordinator.admin.server_view import ServerView
from coordinator.groups import force_rebalance as forced
from coordinator.groups.group import Group
from coordinator.groups.machine import DETAILS
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import InternalRequest
from coordinator.transactions.transaction import NAMES, Transaction

PAGE_MAX = 500
"""Rows of a list in one response. They are made on the event loop, which serves the groups too."""


def api_routes(server: ServerView) -> Routes:
    """The routes of `/v1/groups` and `/v1/transactions`, for all and for one by its id, and of commands to a group."""

    def groups(request: Request) -> Response:
        return json_response(list_groups(server, page_of(request)))

    def group(request: Request) -> Response:
        return json_response(describe_group(server, request.parameters["group_id"]))

    async def rebalance(request: Request) -> Response:
        return json_response(await force_rebalance(server, request))

    def transactions(request: Request) -> Response:
        return json_response(list_transactions(server, page_of(request)))

    def transaction(request: Request) -> Response:
        return json_response(describe_transaction(server, request.parameters["transactional_id"]))

    return {
        ("GET", "/v1/groups"): groups,
        ("GET", "/v1/groups/{group_id}"): group,
        ("POST", "/v1/groups/{group_id}/rebalance"): rebalance,
        ("GET", "/v1/transactions"): transactions,
        ("GET", "/v1/transactions/{transactional_id}"): transaction,
    }


class Page(NamedTuple):
    """A part of a list: at most `limit` names behind `after`. None: from the first name on."""

    after: str | None
    limit: int


def page_of(request: Request) -> Page:
    """The page that a query names by `after` and `limit`. Raises RefusedRequest."""
    if request.query.keys() - {"after", "limit"} or any(len(values) > 1 for values in request.query.values()):
        raise RefusedRequest(400, "the query can have the fields after and limit, each of them once")
    (after,), (limit,) = request.query.get("after", [None]), request.query.get("limit", [str(PAGE_MAX)])
    if re.fullmatch("[0-9]{1,4}", str(limit), re.ASCII) is None or not 1 <= int(str(limit)) <= PAGE_MAX:
        raise RefusedRequest(400, f"limit must be a number from 1 to {PAGE_MAX}")
    return Page(after, int(str(limit)))


def _listed(key: str, page: Page, names: Iterable[str], row: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The rows of a page. `next`, the `after` of the page that follows, is left out on the last one."""
    behind = names if page.after is None else (name for name in names if name > page.after)
    found = nsmallest(page.limit + 1, behind)
    listed: dict[str, Any] = {key: [row(name) for name in found[: page.limit]]}
    if len(found) > page.limit:
        listed["next"] = found[page.limit - 1]
    return listed


def list_groups(server: ServerView, page: Page) -> dict[str, Any]:
    """A page of the groups in the order of their names, including groups that only have offsets."""

    def row(group_id: str) -> dict[str, Any]:
        state: Any = server.groups.shard_of(group_id).state
        return _summary(state, state.by_id[group_id])

    states: list[Any] = [shard.state for shard in server.groups.shards]
    return _listed("groups", page, (group_id for state in states for group_id in state.by_id), row)


def describe_group(server: ServerView, group_id: str) -> dict[str, Any]:
    """One group with members, assignments, recent rebalances and offsets. Raises RefusedRequest if there is none."""
    state: Any = server.groups.shard_of(group_id).state
    group = state.by_id.get(group_id)
    if group is None:
        raise RefusedRequest(404, "no such group")
    view = _summary(state, group)
    view["committed"] = [
        {"topic": topic, "partition": partition, "offset": each.offset, "metadata": each.metadata}
        for (topic, partition), each in sorted(state.offsets.of(group_id), key=itemgetter(0))
    ]
    view["pending"] = _pending(server, state, group_id)
    view |= DETAILS[group.kind](state, group)
    return view


async def force_rebalance(server: ServerView, request: Request) -> dict[str, Any]:
    """Starts a rebalance of a group, and returns when it is durable.

    Raises RefusedRequest: 400, 415 the request is not as it must be; 404 there is no such group; 409 it has no members; 503 its
    coordinator cannot write now, and it is unknown whether the rebalance was started.
    """
    group_id, reason = request.parameters["group_id"], _reason(json_body(request))
    outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(reply: Any) -> None:
        if not outcome.done():  # the client may have gone
            outcome.set_result(reply)

    operation: Any = forced.force_rebalance
    server.groups.submit(group_id, operation, InternalRequest(forced.ForceRebalance(group_id, reason), done))
    reply = await outcome
    if isinstance(reply, KafkaError):
        raise RefusedRequest(_STATUS.get(reply.code, 503), reply.message or f"{reply.code.name}: try again")
    return {
        "group_id": group_id,
        "kind": reply.kind.label,
        "started": reply.epoch is not None,
        "state": reply.state,
        "epoch": reply.epoch,
    }


_STATUS = {
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.INVALID_REQUEST: 409,
    ErrorCode.UNKNOWN_SERVER_ERROR: 500,
}
"""The HTTP status of an error; 503 for all others: the coordinator is not available."""


def _reason(body: dict[str, Any]) -> str:
    """The reason for a command. Raises RefusedRequest."""
    reason = body.get("reason")
    if body.keys() - {"reason"} or not isinstance(reason, str) or not reason.strip():
        raise RefusedRequest(400, 'the body must be {"reason": TEXT}')
    if len(reason) > forced.REASON_CHARS_MAX or not reason.isprintable():
        raise RefusedRequest(
            400, f"the reason must be one line of at most {forced.REASON_CHARS_MAX} printable characters"
        )
    return reason


def _pending(server: ServerView, state: Any, group_id: str) -> list[dict[str, Any]]:
    """Offsets of open transactions. An offset is null if a newer commit has already replaced it."""
    pending = state.offsets.pending
    rows = [
        (partition, producer_id, each)
        for partition, producers in sorted(pending.by_group.get(group_id, {}).items())
        for producer_id, each in producers.items()
    ]
    states: list[Any] = [shard.state for shard in server.transactions.shards] if rows else []
    transactional_ids = {each.producer_id: each.transactional_id for state in states for each in state.by_id.values()}
    return [
        {
            "topic": topic,
            "partition": partition,
            "offset": None if each.committed is None else each.committed.offset,
            "transactional_id": transactional_ids.get(producer_id),
            "producer_id": producer_id,
            "producer_epoch": pending.known[producer_id].epoch,
        }
        for (topic, partition), producer_id, each in rows
    ]


def list_transactions(server: ServerView, page: Page) -> dict[str, Any]:
    """A page of the transactional ids, in order."""

    def row(transactional_id: str) -> dict[str, Any]:
        state: Any = server.transactions.shard_of(transactional_id).state
        return _transaction(state.by_id[transactional_id])

    states: list[Any] = [shard.state for shard in server.transactions.shards]
    return _listed("transactions", page, (each for state in states for each in state.by_id), row)


def describe_transaction(server: ServerView, transactional_id: str) -> dict[str, Any]:
    """One transactional id and the partitions of its transaction. Raises RefusedRequest if there is none."""
    state: Any = server.transactions.shard_of(transactional_id).state
    transaction = state.by_id.get(transactional_id)
    if transaction is None:
        raise RefusedRequest(404, "no such transactional id")
    return _transaction(transaction) | {
        "previous_producer_id": transaction.previous_producer_id,
        "client_transaction_version": transaction.client_version,
        "updated_ms": transaction.update_ms,
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in sorted(transaction.partitions)],
        "partitions_without_marker": [
            {"topic": topic, "partition": partition}
            for topic, partition in sorted(state.undelivered.get(transactional_id, ()))
        ],
    }


def _transaction(transaction: Transaction) -> dict[str, Any]:
    return {
        "transactional_id": transaction.transactional_id,
        "state": NAMES[transaction.state],
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.epoch,
        "timeout_ms": transaction.timeout_ms,
        "started_ms": transaction.start_ms,
        "partition_count": len(transaction.partitions),
    }


def _summary(state: Any, group: Group) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "kind": "simple" if group.protocol_type is None else group.kind.label,
        "state": group.state.value,
        "generation": group.epoch,
        "member_count": len(group.members),
        "offset_count": len(state.offsets.by_group.get(group.group_id, ())),
    }
