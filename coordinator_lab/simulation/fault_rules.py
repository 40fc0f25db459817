"""Random fault rules for the simulated server: the rules of coordinator/rules, which a test sets over HTTP elsewhere.

Everything that such a rule does may happen to clients of a real cluster, so no invariant knows of them. A client takes an error
for a request without effect, and the histories hold it to that.
"""

from random import Random
from typing import Any

from coordinator.rules.model import Action, Extent, FaultActed, Match, Per, Rule
from coordinator.server.composition import Server

_UNAVAILABLE = ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
_CLASSIC = ("REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID")
_MODERN = ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID")
_ERRORS: dict[str, tuple[str, ...]] = {
    "JoinGroup": (*_UNAVAILABLE, "UNKNOWN_MEMBER_ID"),
    "SyncGroup": (*_UNAVAILABLE, *_CLASSIC),
    "Heartbeat": ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", *_CLASSIC),
    "LeaveGroup": _UNAVAILABLE,
    "OffsetCommit": _UNAVAILABLE,
    "OffsetFetch": _UNAVAILABLE,
    "ConsumerGroupHeartbeat": (*_UNAVAILABLE, *_MODERN),
    "StreamsGroupHeartbeat": (*_UNAVAILABLE, *_MODERN),
    "Produce": ("NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR"),
    "Fetch": ("KAFKA_STORAGE_ERROR",),
    "InitProducerId": _UNAVAILABLE,
    "AddPartitionsToTxn": (*_UNAVAILABLE, "CONCURRENT_TRANSACTIONS"),
    "AddOffsetsToTxn": (*_UNAVAILABLE, "CONCURRENT_TRANSACTIONS"),
    "TxnOffsetCommit": _UNAVAILABLE,
    "EndTxn": (*_UNAVAILABLE, "CONCURRENT_TRANSACTIONS"),
}
"""Errors that the simulated clients expect from each API."""
_SHARE_ERRORS: dict[str, tuple[str, ...]] = {
    "ShareGroupHeartbeat": (*_UNAVAILABLE, *_MODERN),
    "ShareFetch": ("NOT_LEADER_OR_FOLLOWER", "COORDINATOR_NOT_AVAILABLE"),
    "ShareAcknowledge": ("NOT_LEADER_OR_FOLLOWER", "COORDINATOR_NOT_AVAILABLE"),
}
"""The same, where there are share groups."""
_NOT_WHILE_LOADING = tuple(api for api in _ERRORS if api not in {"Heartbeat", "Produce", "Fetch"})
"""While a coordinator loads, it accepts the heartbeats of removed members too, as in Kafka: the invariants would find that."""
_NAMES_A_MEMBER = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "ConsumerGroupHeartbeat"})


def random_rule(random: Random, *, has_share_groups: bool) -> Rule:
    """A rule that acts a few times, or for a few seconds."""
    errors = _ERRORS | _SHARE_ERRORS if has_share_groups else _ERRORS
    if random.random() < 0.07:
        extent = Extent(for_ms=random.randint(200, 5_000))
        if random.random() < 0.5:
            return Rule(Action(coordinator="loading"), Match(api=_NOT_WHILE_LOADING), extent)
        return Rule(Action(coordinator=random.choice(["moved", "unavailable"])), extent=extent)
    api = random.choice(tuple(errors))
    counted: list[Per | None] = [None, "connection"]
    per = random.choice([*counted, "member"] if api in _NAMES_A_MEMBER else counted)
    match = Match(api=api, nth=random.choice([None, None, None, 2]), per=per)
    extent = Extent(times=random.choice([1, 2, 5, 20]), for_ms=random.choice([None, 10_000]) if per is None else 10_000)
    return Rule(_random_action(random, errors[api]), match, extent)


def _random_action(random: Random, errors: tuple[str, ...]) -> Action:
    if random.random() < 0.4:
        return Action(error=random.choice(errors))
    others: list[dict[str, Any]] = [
        {"lose": random.choice(["request", "answer"])},
        {"delay_ms": random.randint(1, 3_000), "when": random.choice(["before", "after"])},
        {"hold": random.choice(["request", "answer"])},
        {"close": True},
        {"throttle_ms": random.randint(1, 2_000)},
    ]
    return Action(**random.choice(others))


class RuleSetter:
    """Sets rules on a server, counts what they do, and releases what they hold after a while."""

    def __init__(self, random: Random, *, has_share_groups: bool) -> None:
        self.acted: dict[str, int] = {}
        """Kind of action -> how often it was done."""
        self._random = random
        self._has_share_groups = has_share_groups

    async def set_one(self, server: Server) -> None:
        """Sets a random rule. Runs in the process of the server."""
        faults = server.interceptor.faults
        if self._on_acted not in faults.subscribers:
            faults.subscribers.append(self._on_acted)
        fault = faults.add(random_rule(self._random, has_share_groups=self._has_share_groups))
        if fault.rule.action.hold is not None:
            server.clock.schedule(self._random.randint(100, 5_000), lambda: _release(server, fault.id))

    async def clear(self, server: Server) -> None:
        """Clears all rules. Runs in the process of the server."""
        if server.has_interceptor:
            server.interceptor.faults.clear(server.interceptor.faults.of_scope(None))

    def _on_acted(self, acted: FaultActed) -> None:
        kind = acted.action.partition(":")[0]
        self.acted[kind] = self.acted.get(kind, 0) + 1


def _release(server: Server, fault_id: str) -> None:
    """Ends a rule with what it holds."""
    faults = server.interceptor.faults
    faults.clear([fault for fault in faults.of_scope(None) if fault.id == fault_id])
