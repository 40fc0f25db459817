"""Views of groups and transactions as JSON, for people and tests, and one command: to rebalance a group.

Like responses over the Kafka protocol, they leave when everything that they show is durable.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request, TimeoutMs
from coordinator.admin.group_activity import ListedRebalance, activity, is_troubled, last_rebalances
from coordinator.admin.group_command import Reason, check_reason, run_on_group, shown
from coordinator.admin.group_view import group_summary, group_view, shards_of_view
from coordinator.admin.history import group_at, group_diff
from coordinator.admin.lag import group_lag
from coordinator.admin.located import LOCATED_REFUSALS, WorkerPart, group_shard, part_of, transaction_shard
from coordinator.admin.paging import PAGE_MAX, Page, listed
from coordinator.admin.server_view import ServerView
from coordinator.admin.share_view import SharePartitionView
from coordinator.admin.waiting import parse_until, wait_for
from coordinator.groups import force_rebalance as forced
from coordinator.groups.administration import asked_for
from coordinator.transactions.transaction import NAMES, Transaction

LAGS_MAX = 20_000
"""A list reads this many offsets for the lags of its groups; the lags of groups after that are null."""


class GroupPage(Page, forbid_unknown_fields=True):
    """A part of the groups whose names contain a text."""

    contains: Annotated[str, Meta(description="A part of the names of the groups.")] = ""
    topic: (
        Annotated[str, Meta(description="Only groups with offsets of this topic; lag is that of the topic.")] | None
    ) = None
    sort: Annotated[
        Literal["name", "trouble"],
        Meta(description="trouble: those that rebalance now come first, then by rebalancing_share and lag; one page."),
    ] = "name"


def trouble(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sorts rows of groups: those in most trouble come first."""
    rebalances = row["rebalances"]
    is_rebalancing = bool(rebalances) and rebalances[-1]["ended_ms"] is None
    return (not is_rebalancing, not rebalances, -row["rebalancing_share"], -(row["lag"] or 0), row["group_id"])


async def list_groups(server: ServerView, request: Request) -> dict[str, Any]:
    """A page of the groups in the order of their names or of their trouble, including groups that only have offsets.

    Raises RefusedRequest: 422 a list by trouble has one page only; and as `shown`.
    """
    query, now_ms = request.query, server.clock.wall_ms()
    by_trouble = query.sort == "trouble"
    if by_trouble and query.after is not None:
        raise RefusedRequest(422, "sort=trouble has one page; sort=name has all", ["name"])
    offsets_read = 0

    def lag(group_id: str, state: Any) -> int | None:
        nonlocal offsets_read
        offsets_read += len(state.offsets.by_group.get(group_id, ()))
        return group_lag(server, state, group_id, query.topic) if offsets_read <= LAGS_MAX else None

    def row(group_id: str) -> dict[str, Any]:
        shard: Any = server.groups.shard_of(group_id)
        group = shard.state.by_id[group_id]
        last = group.last_rebalance or last_rebalances(server).of(server, shard.index, group_id)
        return group_summary(shard.state, group) | {
            "lag": lag(group_id, shard.state),
            "last_rebalance": None if last is None else last._asdict(),
            **activity(group, now_ms),
        }

    def wanted(state: Any) -> Iterator[str]:
        for group_id in state.by_id:
            if query.contains in group_id and (
                query.topic is None
                or any(topic == query.topic for topic, _ in state.offsets.by_group.get(group_id, ()))
            ):
                yield group_id

    def most_troubled(names: Sequence[str]) -> list[str]:
        """The names whose rows are worth making: their order is that of the rows, or nearly so."""

        def order(group_id: str) -> tuple[Any, ...]:
            state: Any = server.groups.shard_of(group_id).state
            return (not is_troubled(state.by_id[group_id], now_ms), -(lag(group_id, state) or 0), group_id)

        return nsmallest(max(query.limit, PAGE_MAX), names, order)

    def show() -> dict[str, Any]:
        nonlocal offsets_read
        states: list[Any] = [shard.state for shard in server.groups.shards]
        names = [group_id for state in states for group_id in wanted(state)]
        part = part_of(server, server.groups)
        if not by_trouble:
            return listed("groups", query, names, row, part) | {"total": len(names)}
        chosen = most_troubled(names)
        offsets_read = 0
        rows: dict[str, Any] = {"groups": sorted(map(row, chosen), key=trouble)[: query.limit], "total": len(names)}
        return rows if part is None else rows | {"of_worker": part}

    return await shown([*server.groups.shards, *server.share_states.router.shards], show)


UNTIL_MS = 30_000
"""How long a request waits for a group that does not say how long."""
Offset = Annotated[int, Meta(ge=0, le=2**63 - 1, description="An offset of the log of the group's shard.")]


class WhichGroup(Struct, forbid_unknown_fields=True):
    """The group as it is now; or once it is in a state (`until`); or as it was (`at`); or what has changed (`diff`)."""

    until: Annotated[str, Meta(max_length=100, description="Such as state:Stable,members:3,epoch:4.")] | None = None
    timeout_ms: TimeoutMs | None = None
    at: Offset | None = None
    diff: Annotated[str, Meta(pattern="^[0-9]{1,18},[0-9]{1,18}$", description="Two such offsets.")] | None = None


async def describe_group(server: ServerView, request: Request) -> dict[str, Any]:
    """One group with members, assignments, recent rebalances and offsets.

    Raises RefusedRequest: 404 there is no such group; 421 another worker has it; 422 `until` cannot be read, there are no
    such offsets, or the query asks for more than one thing; 503 no worker has it at the moment, or too many wait.
    """
    group_id, query = request.parameters["group_id"], request.query
    if sum(each is not None for each in (query.until, query.at, query.diff)) > 1:
        raise RefusedRequest(422, "the query can have one of until, at and diff", ["at", "diff", "until"])
    if query.timeout_ms is not None and query.until is None:
        raise RefusedRequest(422, "timeout_ms is for until")
    if query.at is not None:
        return await group_at(server, group_id, query.at)
    if query.diff is not None:
        first, last = map(int, query.diff.split(","))
        return await group_diff(server, group_id, first, last)
    if query.until is not None:
        timeout_ms = UNTIL_MS if query.timeout_ms is None else query.timeout_ms
        return await wait_for(server, group_id, parse_until(query.until), timeout_ms)
    shard: Any = group_shard(server, group_id)
    found = await shown(
        shards_of_view(server, shard, group_id),
        lambda: group_view(server, shard.state, group_id) if group_id in shard.state.by_id else None,
    )
    if found is None:
        raise RefusedRequest(404, "no such group")
    return found


class RebalanceRequest(Struct, forbid_unknown_fields=True):
    """Why an administrator rebalances a group."""

    reason: Reason


class ForcedRebalance(Struct):
    """What was done."""

    group_id: str
    kind: str
    started: bool
    """False if the group was at the start of a rebalance already."""
    state: str
    """The group's state before."""
    epoch: int | None
    """The generation or group epoch to which the rebalance leads."""


async def force_rebalance(server: ServerView, request: Request) -> ForcedRebalance:
    """Starts a rebalance of a group, and returns when it is durable.

    Raises RefusedRequest: 404 there is no such group; 409 it has no members; 422 the reason is not one line; 503 its
    coordinator cannot write now, and it is unknown whether the rebalance was started.
    """
    group_id, reason = request.parameters["group_id"], check_reason(request.body.reason)
    command = forced.ForceRebalance(group_id, asked_for(reason, request.asked_by))
    reply = await run_on_group(server, group_id, forced.force_rebalance, command)
    return ForcedRebalance(group_id, reply.kind.label, reply.epoch is not None, reply.state, reply.epoch)


async def list_transactions(server: ServerView, request: Request) -> dict[str, Any]:
    """A page of the transactional ids, in order.

    Raises RefusedRequest as `shown`.
    """

    def row(transactional_id: str) -> dict[str, Any]:
        state: Any = server.transactions.shard_of(transactional_id).state
        return _transaction(state.by_id[transactional_id])

    def show() -> dict[str, Any]:
        states: list[Any] = [shard.state for shard in server.transactions.shards]
        names = (each for state in states for each in state.by_id)
        return listed("transactions", request.query, names, row, part_of(server, server.transactions))

    return await shown(server.transactions.shards, show)


async def describe_transaction(server: ServerView, request: Request) -> dict[str, Any]:
    """One transactional id and the partitions of its transaction.

    Raises RefusedRequest: 404 it is unknown; 421 another worker has it; 503 no worker has it at the moment.
    """
    transactional_id = request.parameters["transactional_id"]
    shard: Any = transaction_shard(server, transactional_id)
    found = await shown([shard], lambda: _described(shard.state, transactional_id))
    if found is None:
        raise RefusedRequest(404, "no such transactional id")
    return found


def _described(state: Any, transactional_id: str) -> dict[str, Any] | None:
    transaction = state.by_id.get(transactional_id)
    return transaction and _transaction(transaction) | {
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


class GroupSummary(Struct):
    """What every view of a group says."""

    group_id: str
    kind: str
    """classic, consumer, streams or share; simple for a classic group that only ever had offsets."""
    state: str
    generation: int
    """The generation of a classic group, the group epoch of another one."""
    member_count: int
    offset_count: int


class ListedGroup(GroupSummary):
    """A group in a list."""

    lag: int | None
    """Records behind its offsets; null if this server has none of their partitions, or the list has too many offsets."""
    last_rebalance: ListedRebalance | None
    """The one in progress, or the last. Null: neither the groups in memory nor the event log has one."""
    rebalances: list[ListedRebalance]
    """Those of the last five minutes, the oldest first; at most 16."""
    rebalancing_share: float
    """The part of the last five minutes in which the group rebalanced. With 16 rebalances the time begins with the first."""
    culprit: str | None
    """The client whose members most of these rebalances name: its client id, or a member id where that is all that is known."""
    culprit_rebalances: int


class GroupList(Struct, omit_defaults=True):
    """A page of groups."""

    groups: list[ListedGroup]
    total: int
    """All groups that the query means, on whatever page."""
    next: str | None = None
    """The `after` of the page that follows; left out on the last one."""
    of_worker: WorkerPart | None = None
    """Which part this is, if several workers share the journal."""


class CommittedOffset(Struct):
    """A committed offset of a group."""

    topic: str
    partition: int
    offset: int
    metadata: str
    end_offset: int | None
    lag: int | None
    """Records behind it; null if this server does not have the partition."""


class PendingOffset(Struct):
    """An offset of an open transaction."""

    topic: str
    partition: int
    offset: int | None
    transactional_id: str | None
    producer_id: int
    producer_epoch: int


class LogPosition(Struct):
    """An offset in the log of a group's shard, and the offsets that exist."""

    shard: int
    offset: int
    time_ms: int | None
    """When the last record of the group before it was written."""
    first_offset: int
    last_offset: int
    compacted_before: int
    """Before this offset, records that later ones have replaced may be gone."""
    is_complete: bool
    """Whether the view lacks none of them."""


class ChangedField(Struct):
    """A difference between two views of a group, such as at `members[m-1].assignment`. null: it is not there."""

    path: str
    before: Any
    after: Any


class GroupDetails(GroupSummary, omit_defaults=True):
    """A group. The rest of its fields depends on its kind."""

    lag: int | None
    """Records behind its offsets; null if this server has none of their partitions."""
    committed: list[CommittedOffset]
    pending: list[PendingOffset]
    share_partitions: list[SharePartitionView] | UnsetType = UNSET
    """Of a share group, now: where its partitions start, and what members hold. Not with `at` and `diff`."""
    reached: bool | UnsetType = UNSET
    """With `until`: whether the group is in the state that was waited for."""
    at: LogPosition | UnsetType = UNSET
    """With `at` and `diff`: the place at which the group was so."""
    since: LogPosition | UnsetType = UNSET
    """With `diff`: the place to which it is compared."""
    changes: list[ChangedField] | UnsetType = UNSET
    """With `diff`: what is different."""
    unknown: list[str] | UnsetType = UNSET
    """Of a watcher: what the log of a Kafka does not say."""


class TransactionSummary(Struct):
    """A transactional id in a list."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    partition_count: int


class TransactionList(Struct, omit_defaults=True):
    """A page of transactional ids."""

    transactions: list[TransactionSummary]
    next: str | None = None
    """The `after` of the page that follows; left out on the last one."""
    of_worker: WorkerPart | None = None
    """Which part this is, if several workers share the journal."""


class TopicPartition(Struct):
    """A partition."""

    topic: str
    partition: int


class TransactionDetails(TransactionSummary):
    """A transactional id and the partitions of its transaction."""

    previous_producer_id: int
    client_transaction_version: int
    updated_ms: int
    partitions: list[TopicPartition]
    partitions_without_marker: list[TopicPartition]


ENDPOINTS = (
    Endpoint(
        "GET", "/v1/groups", "list groups; ?limit=100&after=NAME selects a page, ?sort=trouble the most troubled",
        list_groups, name="listGroups", query=GroupPage, returns=GroupList, refusals=(422, 503),
    ),
    Endpoint(
        "GET", "/v1/groups/{group_id}",
        "get a group; state, members, recent rebalances and their causes, offsets; ?until= waits for it",
        describe_group, name="getGroup", query=WhichGroup, returns=GroupDetails, refusals=(404, 422, *LOCATED_REFUSALS),
    ),
    Endpoint(
        "POST", "/v1/groups/{group_id}/rebalance",
        'rebalance a group; the body is {"reason": TEXT} as application/json', force_rebalance, name="rebalanceGroup",
        body=RebalanceRequest, returns=ForcedRebalance, refusals=(404, 409, *LOCATED_REFUSALS),
    ),
    Endpoint(
        "GET", "/v1/transactions", "list transactional ids; ?limit=100&after=NAME selects a page", list_transactions,
        name="listTransactions", query=Page, returns=TransactionList, refusals=(503,),
    ),
    Endpoint(
        "GET", "/v1/transactions/{transactional_id}", "get a transactional id; state, producer, partitions",
        describe_transaction, name="getTransaction", returns=TransactionDetails, refusals=(404, *LOCATED_REFUSALS),
    ),
)  # fmt: skip
