"""Views of groups and transactions as JSON, for people and tests.

They show the state in memory, which can be slightly ahead of the log: unlike responses over the Kafka protocol, they do not
wait until it is durable.
"""

from typing import Any

from coordinator.admin.http import RefusedRequest, Request, Response, Routes, json_response
from coordinator.admin.server_view import ServerView
from coordinator.groups.classic.group import ClassicGroup, ClassicMember, Rebalance
from coordinator.groups.consumer.describe import details as consumer_details
from coordinator.groups.streams.describe import details as streams_details
from coordinator.protocol.codec import DecodeError
from coordinator.protocol.subscription import parse_assignment
from coordinator.transactions.transaction import NAMES, Transaction


def api_routes(server: ServerView) -> Routes:
    """The routes of `/v1/groups` and `/v1/transactions`, for all and for one by its id."""

    def groups(_request: Request) -> Response:
        return json_response({"groups": list_groups(server)})

    def group(request: Request) -> Response:
        return json_response(describe_group(server, request.parameters["group_id"]))

    def transactions(_request: Request) -> Response:
        return json_response({"transactions": list_transactions(server)})

    def transaction(request: Request) -> Response:
        return json_response(describe_transaction(server, request.parameters["transactional_id"]))

    return {
        ("GET", "/v1/groups"): groups,
        ("GET", "/v1/groups/{group_id}"): group,
        ("GET", "/v1/transactions"): transactions,
        ("GET", "/v1/transactions/{transactional_id}"): transaction,
    }


def list_groups(server: ServerView) -> list[dict[str, Any]]:
    """All groups in the order of their names, including groups that only have offsets."""
    rows = []
    for shard in server.groups.shards:
        state: Any = shard.state
        names = state.classic.keys() | state.consumer.keys() | state.streams.keys() | state.offsets.by_group.keys()
        rows += [_summary(state, group_id) for group_id in names]
    return sorted(rows, key=lambda row: row["group_id"])


def describe_group(server: ServerView, group_id: str) -> dict[str, Any]:
    """One group with members, assignments, recent rebalances and offsets. Raises RefusedRequest if there is none."""
    state: Any = server.groups.shard_of(group_id).state
    group = state.classic.get(group_id)
    committed = state.offsets.by_group.get(group_id, {})
    consumer, streams = state.consumer.get(group_id), state.streams.get(group_id)
    if group is None and consumer is None and streams is None and not committed:
        raise RefusedRequest(404, "no such group")
    view = _summary(state, group_id)
    view["committed"] = [
        {"topic": topic, "partition": partition, "offset": each.offset, "metadata": each.metadata}
        for (topic, partition), each in sorted(committed.items())
    ]
    view["pending"] = _pending(server, state, group_id)
    if consumer is not None:
        return view | consumer_details(state, consumer)
    if streams is not None:
        return view | streams_details(state, streams)
    if group is None:
        return view
    view |= {
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.leader_id,
        "members": [_member(group, member) for member in group.members.values()],
        "pending_members": len(group.pending_joins),
        "claims": _claims(group),
        "rebalances": [_rebalance(rebalance) for rebalance in group.rebalances],
    }
    return view


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


def list_transactions(server: ServerView) -> list[dict[str, Any]]:
    """All transactional ids, in order."""
    states: list[Any] = [shard.state for shard in server.transactions.shards]
    rows = [_transaction(each) for state in states for each in state.by_id.values()]
    return sorted(rows, key=lambda row: row["transactional_id"])


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


def _summary(state: Any, group_id: str) -> dict[str, Any]:
    for kind, modern in (("consumer", state.consumer.get(group_id)), ("streams", state.streams.get(group_id))):
        if modern is not None:
            return {
                "group_id": group_id,
                "kind": kind,
                "state": modern.state.value,
                "generation": modern.group_epoch,
                "member_count": len(modern.members),
                "offset_count": len(state.offsets.by_group.get(group_id, ())),
            }
    group = state.classic.get(group_id)
    return {
        "group_id": group_id,
        "kind": "simple" if group is None or group.protocol_type is None else "classic",
        "state": "Empty" if group is None else group.state.value,
        "generation": 0 if group is None else group.generation,
        "member_count": 0 if group is None else len(group.members),
        "offset_count": len(state.offsets.by_group.get(group_id, ())),
    }


def _member(group: ClassicGroup, member: ClassicMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "waits_for": "join" if member.awaiting_join else "sync" if member.awaiting_sync else None,
        "assignment": _assignment(group, member.assignment),
    }


def _assignment(group: ClassicGroup, assignment: bytes) -> dict[str, list[int]] | None:
    """Topic -> partitions, or None if the assignment is not one of the consumer protocol."""
    if not group.uses_consumer_protocol:
        return None
    try:
        return {topic: list(partitions) for topic, partitions in parse_assignment(assignment).partitions.items()}
    except DecodeError:
        return None


def _claims(group: ClassicGroup) -> dict[str, Any]:
    """Invalid claims on partitions (KIP-792): counts over the life of the group, details of this generation."""
    view: dict[str, Any] = {"stale": group.claims_stale, "contested": group.claims_contested}
    if group.claims is not None:
        view["generation"] = group.claims.generation
        view["stale_claims"] = [
            {"member_id": claim.member_id, "generation": claim.generation_id, "partitions": claim.partitions}
            for claim in group.claims.stale
        ]
        view["contested_partitions"] = [
            {"topic": each.topic, "partition": each.partition, "member_ids": each.member_ids}
            for each in group.claims.contested
        ]
    return view


def _rebalance(rebalance: Rebalance) -> dict[str, Any]:
    return {
        "cause": rebalance.cause.what,
        "member_id": rebalance.cause.member_id,
        "client_reason": rebalance.cause.client_reason,
        "from_state": rebalance.from_state.value,
        "from_generation": rebalance.from_generation,
        "started_ms": rebalance.started_ms,
        "formed_ms": rebalance.formed_ms,
        "ended_ms": rebalance.ended_ms,
        "last_joined": rebalance.last_joined,
        "given_up": rebalance.given_up,
    }
