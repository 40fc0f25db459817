"""Classic and consumer groups: what a Fetch may be answered with, and connections that the broker closes."""

import asyncio

from coordinator.operations.client import Client
from coordinator.operations.produce import Producer, Record
from coordinator_testing.certify.curriculum import acts
from coordinator_testing.certify.event import PROTOCOLS, Allows, NotApplicable, Protocol, Source, event
from coordinator_testing.certify.records import ANSWERED_WITHIN_S
from coordinator_testing.certify.server import SASL_SESSION_MS
from coordinator_testing.certify.stage import Stage

BOTH: tuple[Protocol, ...] = ("classic", "consumer")
_SESSION_S = 3 * SASL_SESSION_MS / 1000
_REFUSED_S = 8.0


@event(
    "leader-epoch-fenced",
    protocols=BOTH,
    happens="A partition's leader changes: Fetch is answered with FENCED_LEADER_EPOCH, then with UNKNOWN_LEADER_EPOCH.",
    right_client="refreshes its metadata, validates its position, and reads on from it",
    provoked="a rule: two Fetches of one instance with FENCED_LEADER_EPOCH, and two with UNKNOWN_LEADER_EPOCH",
    sources=(
        Source("KIP-320", "FENCED_LEADER_EPOCH: refresh the metadata; UNKNOWN_LEADER_EPOCH: try again"),
        Source("FetchCollector.handleInitializeErrors", "both keep the position; the first requests a metadata update"),
    ),
    allows=Allows(rebalances=0),
)
async def leader_epoch_fenced(stage: Stage) -> None:
    for error in ("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"):
        await stage.acted(await stage.fault(stage.first, api="Fetch", error=error, times=2), 2)
    await stage.progress()


@event(
    "fetch-session-evicted",
    protocols=BOTH,
    happens="The broker has evicted the fetch session: a Fetch is answered with FETCH_SESSION_ID_NOT_FOUND.",
    right_client="begins another session with a full Fetch, from the positions that it has",
    provoked="a rule: one Fetch of one instance",
    sources=(
        Source("KIP-227, FetchSessionHandler.handleResponse", "the next request is a full one, without a session"),
    ),
    allows=Allows(rebalances=0),
)
async def fetch_session_evicted(stage: Stage) -> None:
    fetches = [
        each for each in stage.observation.entries if each.api == "Fetch" and each.listener == stage.first.listener
    ]
    if all(each.request.get("session_id", 0) == 0 for each in fetches):
        raise NotApplicable("the program uses no fetch sessions")
    await stage.acted(await stage.fault(stage.first, api="Fetch", error="FETCH_SESSION_ID_NOT_FOUND"))
    await stage.progress()


@event(
    "record-corrupt",
    protocols=BOTH,
    happens="The broker finds the checksum of a batch wrong: a Fetch is answered with CORRUPT_MESSAGE.",
    right_client="tries again or reports it and ends; it neither skips records nor commits beyond them",
    provoked="a rule: one Fetch of one instance, a second later, so that records wait; an instance that ends is started again",
    sources=(
        Source(
            "FetchCollector.handleInitializeErrors", "CORRUPT_MESSAGE: poll raises KafkaException, at the same position"
        ),
    ),
    allows=acts.MAY_END,
    time_limit_s=150.0,
)
async def record_corrupt(stage: Stage) -> None:
    await stage.acted(await stage.fault(stage.first, api="Fetch", delay_ms=1_000, error="CORRUPT_MESSAGE"))
    await acts.ended_or_commits_again(stage, stage.first, acts.commits)


@event(
    "poison-record",
    protocols=(*BOTH, "share"),
    happens="Records arrive that are none of the program's: a tombstone (null value) and bytes that no text has.",
    right_client="skips them, or puts them aside, and goes on with the records that follow",
    provoked="two records in each partition: one without a value, and one with the value FF 00 FE",
    sources=(Source("KIP-1034", "a dead letter queue takes what cannot be processed, so that the partition goes on"),),
    allows=Allows(rebalances=0),
)
async def poison_record(stage: Stage) -> None:
    stage.note("each partition gets a tombstone and a record with broken text")
    partitions = range(stage.producer.partitions)
    poison = [Record(b"poison", value, partition=each) for each in partitions for value in (None, b"\xff\x00\xfe")]

    def send() -> None:
        with Client(stage.server.bootstrap, ANSWERED_WITHIN_S) as client:
            Producer(client, stage.topic).send(poison)

    await asyncio.to_thread(send)
    await stage.progress()


@event(
    "client-throttled",
    protocols=BOTH,
    happens="A quota is exceeded: the answers to two Fetches and to a commit carry throttle times of 2 s, in which the broker "
    "reads nothing from the connection.",
    right_client="waits, stays a member, and takes neither for a failure",
    provoked="rules: throttle_ms 2000 for two Fetches and one commit of one instance",
    sources=(
        Source("KIP-219", "the broker answers at once and mutes the connection; the client waits for throttle_time_ms"),
    ),
    allows=Allows(rebalances=0, stall_s=30.0),
)
async def client_throttled(stage: Stage) -> None:
    commit = await stage.fault(stage.first, api=acts.COMMITS, throttle_ms=2_000)
    await stage.acted(await stage.fault(stage.first, api="Fetch", throttle_ms=2_000, times=2), 2)
    await stage.acted(commit)
    await stage.progress()


@event(
    "connections-closed",
    protocols=BOTH,
    happens="connections.max.idle.ms has passed on each connection of an instance: the broker closes them.",
    right_client="connects again, and notices nothing else",
    provoked="a rule closes the connections of one instance after its next heartbeat, Fetch, and commit",
    sources=(
        Source("connections.max.idle.ms", "the broker closes idle connections, by default after 10 min"),
        Source("NetworkClient.handleDisconnections", "requests under way are repeated on another connection"),
    ),
    allows=Allows(rebalances=0),
)
async def connections_closed(stage: Stage) -> None:
    for api in (acts.heartbeat_of(stage.first), "Fetch", acts.COMMITS):
        await stage.acted(await stage.fault(stage.first, api=api, close=True))
    await stage.progress()


@event(
    "session-expires",
    protocols=PROTOCOLS,
    happens="The authentication of each connection ends after connections.max.reauth.ms, here 12 s, time and again.",
    right_client="authenticates again before that, or connects again when the broker has closed the connection, and notices "
    "nothing else",
    provoked="SASL_MECHANISM, SASL_USERNAME and SASL_PASSWORD of each instance, until each has authenticated three times more",
    sources=(
        Source(
            "KIP-368", "a client authenticates again on its connection; the broker closes one whose session is over"
        ),
        Source(
            "SaslClientAuthenticator.setAuthenticationEndAndSessionReauthenticationTimes",
            "the client begins after 85 to 95 % of the session",
        ),
    ),
    allows=Allows(rebalances=0),
    has_sasl=True,
    time_limit_s=120.0,
)
async def session_expires(stage: Stage) -> None:
    for _ in range(3):
        mark = stage.mark()
        again = (stage.request("SaslAuthenticate", each, since=mark, within_s=_SESSION_S) for each in stage.instances)
        await asyncio.gather(*again)
    await stage.progress()


@event(
    "credential-refused",
    protocols=PROTOCOLS,
    happens="The credential of an instance expires: it cannot authenticate for 8 s (SASL_AUTHENTICATION_FAILED).",
    right_client="reports it, and ends or goes on when it can authenticate again",
    provoked="a rule: every SaslAuthenticate of one instance, for 8 s from the first on; an instance that ends is started "
    "again",
    sources=(
        Source(
            "KIP-152", "SASL_AUTHENTICATION_FAILED is fatal to the call: poll and commit raise it, and need not retry"
        ),
    ),
    allows=acts.MAY_END,
    has_sasl=True,
    time_limit_s=180.0,
)
async def credential_refused(stage: Stage) -> None:
    refused = await stage.fault(
        stage.first, api="SaslAuthenticate", error="SASL_AUTHENTICATION_FAILED", until="cleared"
    )
    await stage.acted(refused)
    await asyncio.sleep(_REFUSED_S)
    await refused.clear()
    await acts.ended_or_commits_again(stage, stage.first, acts.commits)


@event(
    "transaction-hangs",
    protocols=BOTH,
    happens="A producer dies within a transaction that wrote to each partition: readers of committed records get nothing that "
    "follows until the transaction is aborted.",
    right_client="waits for the last stable offset to move, stays a member, and reads on after the aborted records",
    provoked="a record of an open transaction in each partition, until each instance has sent eight Fetches; then the "
    "transaction is timed out by command",
    sources=(
        Source("KIP-98, read_committed", "a Fetch ends at the last stable offset, before the first open transaction"),
    ),
    allows=Allows(rebalances=0, stall_s=40.0),
)
async def transaction_hangs(stage: Stage) -> None:
    if all(each.request.get("isolation_level") != 1 for each in stage.observation.entries if each.api == "Fetch"):
        raise NotApplicable("the program reads uncommitted records")
    transactional_id = f"{stage.group}-hangs"
    await acts.hang_transaction(stage, transactional_id)
    for _ in range(8):
        mark = stage.mark()
        await asyncio.gather(*(stage.request("Fetch", each, since=mark) for each in stage.instances))
    await stage.control.transaction(transactional_id).expire()
    await stage.progress()


@event(
    "clock-jumps",
    protocols=BOTH,
    happens="The broker's clock jumps ahead by an hour while it runs, so that every session is over.",
    right_client="joins again when it learns that it is no member, and loses nothing",
    provoked="the server's clock advances by 1 h",
    sources=(
        Source(
            "GroupMetadataManager.expireClassicGroupMemberHeartbeat",
            "a member that was silent for its session is removed",
        ),
        Source(
            "ConsumerCoordinator.onJoinPrepare", "a member that lost its partitions drops them, and commits nothing"
        ),
    ),
    allows=Allows(rebalances=None, stall_s=60.0),
    is_alone=True,
    time_limit_s=150.0,
)
async def clock_jumps(stage: Stage) -> None:
    await stage.advance_clock(3_600_000)
    await stage.stable()


EVENTS = (
    leader_epoch_fenced,
    fetch_session_evicted,
    record_corrupt,
    poison_record,
    client_throttled,
    connections_closed,
    session_expires,
    credential_refused,
    transaction_hangs,
    clock_jumps,
)
