"""The health checks in each situation, and that every metric exists, is correct and has bounded labels."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.admin.endpoint import Request, Response
from coordinator.admin.health import NAMED_MAX, live, ready
from coordinator.admin.json_body import json_bytes
from coordinator.admin.metrics import COUNTER, METRICS, metrics
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.route import MEASURED_FIRST, Route
from coordinator.groups.kinds import Kind
from coordinator.groups.offsets import value as values
from coordinator.network.connection import Closed
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetCommitValue
from coordinator.runtime import event_log
from coordinator.runtime.group_rebalances import GroupRebalances
from coordinator.runtime.result import Fact
from coordinator.runtime.shard import Status
from coordinator.runtime.statistics import KEYS_MAX, Statistics
from coordinator.security.access import READ_GROUP
from coordinator.share_state.share_state import Batch
from coordinator.topics.share.machine import ShareMachine
from coordinator.topics.share.outcomes import Outcomes
from coordinator.topics.share.sessions import PartitionKey, SessionKey, ShareSessions
from coordinator.transactions.transaction import State
from tests.support.admin_client import parse_metrics

STORED = values.encode(OffsetCommitValue(offset=30, metadata="m", commit_timestamp=1, expire_timestamp=-1))
"""A committed offset."""


def shard(index: int = 0, status: Status = Status.ACTIVE, reason: str = "", groups: int = 0) -> Any:
    """A shard of groups, with what the admin routes read."""
    group = SimpleNamespace(kind=Kind.CLASSIC, state=SimpleNamespace(value="Stable"), members={"a": None, "b": None})
    return SimpleNamespace(
        index=index,
        status=status,
        reason=reason,
        state=SimpleNamespace(
            by_id={f"group-{number}": group for number in range(groups)},
            counters=SimpleNamespace(
                offsets=9, fenced={}, txn_requests={}, invalid_partitions={}, too_large={"limit.group.bytes": 2}
            ),
            offsets=SimpleNamespace(count=7, by_group={}, pending=SimpleNamespace(by_producer={})),
        ),
        log=SimpleNamespace(end_offset=100 + index, size_bytes=1000),
        offset_durable=90 + index,
        parked=[None] * 3,
        timers_armed=5,
        events=SimpleNamespace(
            index=index,
            status=event_log.Status.ACTIVE,
            reason="",
            written=30,
            written_bytes=4000,
            lost=0,
            gaps=1,
            log=SimpleNamespace(size_bytes=500),
        ),
    )


def transactions_shard(index: int = 0, status: Status = Status.ACTIVE, reason: str = "") -> Any:
    """A shard of transactions, with what the admin routes read."""
    made = shard(index, status, reason)
    made.state = SimpleNamespace(
        states={State.ONGOING: 2, State.EMPTY: 1},
        ended={("commit", "client"): 5, ("abort", "timeout"): 1},
        fenced={"EndTxn": 3},
        undelivered={"one": {("t", 0), ("t", 1)}, "two": {("t", 0)}},
    )
    return made


def share_states_shard(index: int = 0, status: Status = Status.ACTIVE, reason: str = "") -> Any:
    """A shard of share partitions, with what the admin routes read."""
    made = shard(index, status, reason)
    made.state = SimpleNamespace(by_key={"a": None, "b": None}, writes=7, fenced={"WriteShareGroupState": 3})
    return made


def route(name: str, answered: int, errors: dict[int, int], *durations_ns: int) -> Any:
    """A route with these counts and durations."""
    made = Route(Api(0, name, (0, 0), (), handle=lambda *_: None, refuse=lambda *_: None), 0, None, supported={})
    made.answered, made.errors = answered, errors
    for duration_ns in durations_ns:
        made.timed(duration_ns)
    return made


def server(
    *shards: Any,
    routes: tuple[Any, ...] = (),
    stopping: bool = False,
    partitions: tuple[tuple[str, str, str], ...] = (("t-0", "active", ""),),
    metadata_problem: str = "",
    transactions: tuple[Any, ...] = (),
    share_states: tuple[Any, ...] = (),
    share_partitions: Any = None,
    named: tuple[str, ...] = (),
    authorizer: Any = None,
) -> Any:
    listener = SimpleNamespace(
        connections=[SimpleNamespace(waiting=2)],
        refused_count=4,
        authentications_failed=0,
        closed=dict.fromkeys(Closed, 0) | {Closed.IDLE: 5},
        dispatcher=SimpleNamespace(routes=routes),
    )
    return SimpleNamespace(
        has_interceptor=False,
        quotas=None,
        cluster_statistics=None,
        cluster_problem="",
        end_offset=lambda _topic, _index: 70,
        groups=SimpleNamespace(shards=list(shards), shard_of=lambda _group_id: shards[0]),
        transactions=SimpleNamespace(shards=list(transactions)),
        share_states=SimpleNamespace(router=SimpleNamespace(shards=list(share_states))),
        share_partitions=share_partitions or SimpleNamespace(of_process=[], outcomes=Outcomes()),
        shards=[*shards, *transactions, *share_states],
        all_listeners=[listener],
        statistics=Statistics(),
        group_rebalances=GroupRebalances(lambda: 0, named),
        stopping=stopping,
        authorizer=authorizer,
        run_in_thread=lambda function, done: done(function()),
        memory=SimpleNamespace(held_bytes=70_000, waiting=1),
        journal=SimpleNamespace(entries=9, entry_bytes=900, checkpoints=1),
        held_bytes=SimpleNamespace(total=5_000),
        topics=SimpleNamespace(
            partition_states=lambda: iter(partitions),
            metadata=SimpleNamespace(problem=metadata_problem),
            registry=SimpleNamespace(topics={"t": SimpleNamespace(name="t", partitions=3)}),
            user_partition=lambda _name, index: SimpleNamespace(
                log=None if index else SimpleNamespace(size_bytes=70),  # a partition has no log until the first write
                high_watermark=70,
                is_offline=False,
            ),
        ),
    )


def get(handle: Any, served: Any) -> Response:
    """The response of an endpoint, as the client gets it."""

    async def answered() -> Any:
        answer = handle(served, Request())
        return await answer if asyncio.iscoroutine(answer) else answer

    answer = asyncio.run(answered())
    return answer if isinstance(answer, Response) else Response(body=json_bytes(answer))


def scraped(served: Any) -> dict[str, dict[tuple[str, ...], float]]:
    """Sample name -> label values -> number, as Prometheus parses them."""
    return parse_metrics(get(metrics, served).body.decode())


# --- health -----------------------------------------------------------------------------------------------------------


def test_a_server_whose_shards_are_active_is_ready():
    assert get(ready, server(shard())).status == 200


@pytest.mark.parametrize("status", [Status.FULL, Status.FAILED])
def test_a_server_with_a_shard_that_accepts_no_writes_is_not_ready(status):
    served = server(shard(), shard(1, status, "the disk is full"))
    answer = get(ready, served)
    assert answer.status == 503
    assert f"shard 1 is {status}: the disk is full".encode() in answer.body
    assert get(live, served).status == 200


def test_a_stopping_server_is_not_ready():
    assert b"stopping" in get(ready, server(shard(), stopping=True)).body


def test_a_server_with_a_full_disk_is_not_ready_even_if_no_group_has_written():
    served = server(shard(), partitions=(("t-0", "full", "no space"),), metadata_problem="the metadata log is stuck")
    answer = get(ready, served)
    assert answer.status == 503
    assert json.loads(answer.body)["reasons"] == ["the metadata log is stuck", "t-0 is full: no space"]


def test_a_server_with_failed_partitions_is_ready_and_names_them():
    partitions = [("t-0", "active", ""), *((f"t-{number}", "failed", "damaged") for number in range(1, NAMED_MAX + 3))]
    answer = get(ready, server(shard(), partitions=tuple(partitions)))
    assert answer.status == 200
    failed = json.loads(answer.body)["partitions_failed"]
    assert failed[0] == "t-1 is failed: damaged"
    assert len(failed) == NAMED_MAX + 1
    assert failed[-1] == "and 2 more"


def test_a_server_with_a_blocked_event_log_is_ready_and_names_it():
    served = server(shard(), shard(1))
    served.groups.shards[1].events.status = event_log.Status.BLOCKED
    served.groups.shards[1].events.reason = "no space"
    answer = get(ready, served)
    assert answer.status == 200
    assert json.loads(answer.body)["events_lost"] == ["shard 1: no space"]
    samples = scraped(served)
    assert samples["coordinator_event_logs"] == {("active",): 1, ("blocked",): 1, ("failed",): 0}
    assert samples["coordinator_event_log_records_total"][()] == 60
    assert samples["coordinator_event_log_written_bytes_total"][()] == 8000
    assert samples["coordinator_event_log_gaps_total"][()] == 2
    assert samples["coordinator_log_bytes"]["events",] == 1000


def test_a_server_without_events_has_no_event_logs():
    served = server(shard())
    served.groups.shards[0].events = None
    assert scraped(served)["coordinator_event_logs"]["active",] == 0
    assert "events_lost" not in json.loads(get(ready, served).body)


# --- metrics ----------------------------------------------------------------------------------------------------------


def test_every_declared_metric_is_scraped():
    groups = shard(groups=1)
    groups.state.offsets.by_group = {"group-0": {("t", 0): STORED}}
    authorizer = SimpleNamespace(audit=SimpleNamespace(denied={READ_GROUP: 7}))
    served = server(groups, routes=(route("Heartbeat", 1, {}),), named=("group-0",), authorizer=authorizer)
    served.statistics.count(Fact("rebalance_started", {"kind": "classic", "cause": "a new member joins"}))
    samples = scraped(served)
    for metric in METRICS:
        suffix = {COUNTER: "_total", "histogram": "_count"}.get(metric.kind, "")
        assert metric.name + suffix in samples, metric.name
    assert samples["coordinator_authorization_denied_total"] == {("READ", "GROUP"): 7}


def test_requests_are_counted_by_api_and_error_over_all_versions():
    routes = (route("Heartbeat", 10, {27: 3}), route("Heartbeat", 5, {27: 1, 25: 1}), route("Fetch", 1, {}))
    requests = scraped(server(shard(), routes=routes))["coordinator_requests_total"]
    assert requests == {
        ("Heartbeat", "NONE"): 10,
        ("Heartbeat", "REBALANCE_IN_PROGRESS"): 4,
        ("Heartbeat", "UNKNOWN_MEMBER_ID"): 1,
        ("Fetch", "NONE"): 1,
    }


def test_gauges_add_up_over_shards():
    samples = scraped(server(shard(0, groups=2), shard(1, Status.FULL, groups=1)))
    assert samples["coordinator_groups"] == {("classic", "Stable"): 3}
    assert samples["coordinator_members"] == {("classic",): 6, ("consumer",): 0, ("share",): 0, ("streams",): 0}
    assert samples["coordinator_offsets"] == {(): 14}
    assert samples["coordinator_offset_commits_total"] == {(): 18}
    assert samples["coordinator_shards"] == {
        ("active",): 1,
        ("full",): 1,
        ("loading",): 0,
        ("failed",): 0,
        ("stopped",): 0,
        ("elsewhere",): 0,
    }
    assert samples["coordinator_parked_replies"] == {(): 6}
    assert samples["coordinator_log_end_offset"] == {("0",): 100, ("1",): 101}


def test_the_number_of_groups_does_not_change_the_labels():
    few, many = scraped(server(shard(groups=1))), scraped(server(shard(groups=10_000)))
    ours = [name for name in few if name.startswith("coordinator_")]
    assert {name: few[name].keys() for name in ours} == {name: many[name].keys() for name in ours}


def test_keys_of_a_counter_are_bounded():
    statistics = Statistics()
    for number in range(KEYS_MAX * 2):
        statistics.count(Fact(f"fact-{number}", {}))
    assert len(statistics.facts) == KEYS_MAX + 1
    assert statistics.facts["other"] == KEYS_MAX


def test_rebalances_are_counted_by_kind_and_cause_and_timed():
    served = server(shard())
    for waited_ms in (5, 2000, 10_000_000):
        served.statistics.count(Fact("rebalance_started", {"kind": "classic", "cause": "a member leaves"}))
        served.statistics.count(Fact("generation_formed", {"waited_ms": waited_ms}))
    samples = scraped(served)
    assert samples["coordinator_rebalances_total"] == {
        ("a member leaves", "classic"): 3
    }  # in the order of the label names
    buckets = samples["coordinator_rebalance_seconds_bucket"]
    assert (buckets["0.01",], buckets["3.0",], buckets["+Inf",]) == (1, 2, 3)
    assert samples["coordinator_rebalance_seconds_sum"] == {(): pytest.approx(10_002.005)}


def test_a_named_group_has_the_lag_of_partitions_that_are_known_in_at_most_a_hundred_topics(monkeypatch):
    monkeypatch.setattr("coordinator.admin.metrics.TOPICS_MAX", 2)
    groups = shard(groups=1)
    groups.state.offsets.by_group = {
        "group-0": {("offline", 2): STORED} | {(topic, index): STORED for topic in "cba" for index in range(4)}
    }
    served = server(groups, named=("group-0", "unknown"))
    served.end_offset = lambda _topic, index: (70, 20, None, None)[index]  # the second was created again
    (lags,) = (each for each in METRICS if each.name == "coordinator_group_lag")
    assert lags.read(served) == {("group-0", "a"): 40, ("group-0", "b"): 40}


def test_syncs_are_timed_and_failures_counted():
    statistics = Statistics()

    def run(function: Any, done: Any) -> None:
        try:
            done(function())
        except OSError as error:
            done(error)

    def fail() -> None:
        raise OSError(5, "broken")

    outcomes: list[Any] = []
    timed = statistics.timed(run)
    timed(lambda: 42, outcomes.append)
    timed(fail, outcomes.append)
    assert outcomes[0] == 42
    assert isinstance(outcomes[1], OSError)
    assert sum(statistics.syncs_s.counts) == 2
    assert statistics.syncs_failed == 1


def test_responses_are_timed_by_api_over_all_versions_and_listeners():
    routes = (route("Heartbeat", 3, {}, 10_000, 20_000), route("Heartbeat", 1, {}, 1_000_000), route("Fetch", 1, {}, 5))
    samples = scraped(server(shard(), routes=routes))
    assert samples["coordinator_request_seconds_count"] == {("Heartbeat",): 3, ("Fetch",): 1}
    assert samples["coordinator_request_seconds_sum"]["Heartbeat",] == pytest.approx(0.00103)
    buckets = {
        float(bound): count
        for (api, bound), count in samples["coordinator_request_seconds_bucket"].items()
        if api == "Heartbeat"
    }
    assert [count for bound, count in sorted(buckets.items())][:4] == [0, 1, 2, 2]
    assert buckets[2**14 / 1e9] == 1
    assert buckets[2**20 / 1e9] == buckets[float("inf")] == 3


class Queue:
    """A connection that accepts every response."""

    def ready(self) -> None:
        pass


def answered(route: Route, count: int) -> int:
    """How many of `count` responses are timed."""
    before = sum(route.durations)
    for _ in range(count):
        exchange = Exchange(route, Queue(), None, 1, None)  # type: ignore[arg-type]
        exchange.send(exchange.encode(SimpleNamespace(error_code=0)))
    return sum(route.durations) - before


def test_all_responses_of_a_rare_api_are_timed_and_one_in_sixteen_of_a_busy_one():
    busy = route("Heartbeat", 0, {})
    busy.encode = lambda _message: b""
    assert answered(busy, MEASURED_FIRST) == MEASURED_FIRST
    answered(busy, 16)
    assert answered(busy, 1_600) == 100


def test_a_refusal_without_an_error_code_of_its_own_is_counted_once():
    refused = route("OffsetCommit", 0, {})
    refused.encode = lambda _message: b""
    refused.api = replace(refused.api, refuse=lambda _request, _error, _version: SimpleNamespace())
    exchange = Exchange(refused, Queue(), None, 1, None)  # type: ignore[arg-type]
    exchange.reply(exchange.refusal(KafkaError(ErrorCode.FENCED_INSTANCE_ID)))
    assert refused.errors == {ErrorCode.FENCED_INSTANCE_ID: 1}
    refused.api = replace(refused.api, refuse=lambda _request, error, _version: SimpleNamespace(error_code=error.code))
    exchange.reply(exchange.refusal(KafkaError(ErrorCode.FENCED_INSTANCE_ID)))
    assert refused.errors == {ErrorCode.FENCED_INSTANCE_ID: 2}


def test_fenced_commits_are_counted_by_reason():
    routes = (
        route("OffsetCommit", 9, {ErrorCode.ILLEGAL_GENERATION: 2, ErrorCode.OFFSET_METADATA_TOO_LARGE: 1}),
        route("OffsetCommit", 9, {ErrorCode.ILLEGAL_GENERATION: 1, ErrorCode.UNKNOWN_MEMBER_ID: 4}),
        route("Heartbeat", 9, {ErrorCode.UNKNOWN_MEMBER_ID: 8}),
    )
    fenced = scraped(server(shard(), routes=routes))["coordinator_commits_fenced_total"]
    assert {reason: count for (reason,), count in fenced.items() if count} == {
        "ILLEGAL_GENERATION": 3,
        "UNKNOWN_MEMBER_ID": 4,
    }


def test_expired_members_are_counted_by_timeout():
    served = server(shard())
    for timeout in ("session", "session", "sync"):
        served.statistics.count(Fact("member_expired", {"timeout": timeout}))
    expired = scraped(served)["coordinator_members_expired_total"]
    assert expired == {("session",): 2, ("pending",): 0, ("sync",): 1}


def test_log_bytes_are_reported_by_content():
    served = server(shard(), shard(1), transactions=(transactions_shard(),))
    sizes = {("groups",): 2000, ("transactions",): 1000, ("events",): 1000, ("share_states",): 0, ("topics",): 70}
    assert scraped(served)["coordinator_log_bytes"] == sizes


def test_transactions_are_counted_by_state_outcome_and_cause():
    served = scraped(server(shard(), transactions=(transactions_shard(), transactions_shard(1))))
    ids = served["coordinator_transactional_ids"]
    assert (ids["Ongoing",], ids["Empty",], ids["PrepareCommit",]) == (4, 2, 0)
    ended = served["coordinator_transactions_ended_total"]
    assert ended == {  # labels in alphabetical order
        ("client", "commit"): 10,
        ("client", "abort"): 0,
        ("timeout", "abort"): 2,
        ("fence", "abort"): 0,
    }
    fenced = served["coordinator_producers_fenced_total"]
    assert fenced == {("EndTxn",): 6, ("InitProducerId",): 0, ("AddPartitionsToTxn",): 0}
    assert served["coordinator_markers_waiting"] == {(): 6}


def test_a_server_with_a_transaction_shard_that_accepts_no_writes_is_not_ready():
    served = server(shard(), transactions=(transactions_shard(3, Status.FULL, "the disk is full"),))
    answer = get(ready, served)
    assert (answer.status, b"shard of transactions 3 is full: the disk is full" in answer.body) == (503, True)


def test_share_partitions_are_counted_with_their_writes_and_the_fenced():
    served = scraped(server(shard(), share_states=(share_states_shard(), share_states_shard(1))))
    assert served["coordinator_share_partitions"] == {(): 4}
    assert served["coordinator_share_state_writes_total"] == {(): 14}
    fenced = served["coordinator_share_state_fenced_total"]
    assert fenced == {("WriteShareGroupState",): 6, ("ReadShareGroupState",): 0, ("InitializeShareGroupState",): 0}


def test_what_members_of_share_groups_do_is_counted():
    outcomes = Outcomes()
    outcomes.acquired, outcomes.locks_expired, outcomes.archived = 9, 3, 1
    outcomes.acknowledged["accept"] = 5
    sessions = ShareSessions(10)
    for member in "ab":
        sessions.begin(SessionKey("g", member), [PartitionKey(bytes(16), index) for index in range(3)], object())
    machine = ShareMachine(0, 10, [Batch(10, 14, 0, 1), Batch(16, 16, 0, 1)])
    manager = SimpleNamespace(leaders={"one": SimpleNamespace(machine=machine, archiving_count=2)}, sessions=sessions)
    served = scraped(
        server(shard(), share_partitions=SimpleNamespace(of_process=[manager, manager], outcomes=outcomes))
    )
    found = {name.removeprefix("coordinator_share_"): each for name, each in served.items() if "_share_" in name}
    assert {name: each[()] for name, each in found.items() if () in each} | {"partitions": 0} == {
        "partitions": 0,
        "state_writes_total": 0,
        "in_flight_messages": 14,
        "in_flight_batches": 4,
        "records_archiving": 4,
        "sessions": 4,
        "session_partitions": 12,
        "records_acquired_total": 9,
        "acquisition_lock_timeouts_total": 3,
        "records_archived_total": 1,
    }
    acknowledged = found["record_acknowledgements_total"]
    assert acknowledged == {("accept",): 5, ("gap",): 0, ("release",): 0, ("reject",): 0, ("renew",): 0}


def test_a_server_with_a_shard_of_share_partitions_that_accepts_no_writes_is_not_ready():
    served = server(shard(), share_states=(share_states_shard(3, Status.FULL, "the disk is full"),))
    answer = get(ready, served)
    assert (answer.status, b"shard of share partitions 3 is full: the disk is full" in answer.body) == (503, True)


def test_closed_connections_are_counted_by_reason():
    closed = scraped(server(shard()))["coordinator_connections_closed_total"]
    assert closed["idle",] == 5
    assert closed.keys() == {(reason.value,) for reason in Closed}


def test_the_lag_of_the_event_loop_is_measured_again_and_again():
    statistics = Statistics()
    timers: list[Any] = []
    statistics.watch_lag(lambda _delay, callback: timers.append(callback))
    for _ in range(3):
        timers.pop()()
    assert sum(statistics.lag_s.counts) == 3
    assert len(timers) == 1
