"""Events of read-process-write programs: a transaction's outcome is unknown, its producer is fenced, or it lasts too long."""

from coordinator_testing.certify.curriculum import acts
from coordinator_testing.certify.curriculum.acts import need_two
from coordinator_testing.certify.event import Allows, NotApplicable, Protocol, Source, event
from coordinator_testing.certify.stage import Stage

BOTH: tuple[Protocol, ...] = ("classic", "consumer")
_ADDING = ("AddPartitionsToTxn", "AddOffsetsToTxn")
RETRIED = Source(
    "TransactionManager.EndTxnHandler", "an error that can be retried puts the request into the queue again"
)
FENCED = Source(
    "TransactionManager.TxnOffsetCommitHandler",
    "INVALID_PRODUCER_EPOCH and PRODUCER_FENCED are fatal: the producer must close",
)


@event(
    "commit-of-transaction-answer-lost",
    protocols=BOTH,
    happens="EndTxn takes effect, and its answer is lost with the connection.",
    right_client="connects again and repeats EndTxn, whose answer says that the transaction is committed",
    provoked="a rule loses the answer to the next EndTxn of one instance",
    sources=(RETRIED,),
    allows=Allows(rebalances=0),
    is_transactional=True,
)
async def end_answer_lost(stage: Stage) -> None:
    await acts.transactional_id_of(stage, stage.first)
    fault = await stage.fault(stage.first, api="EndTxn", lose="answer")
    await stage.acted(fault)


@event(
    "commit-of-transaction-request-lost",
    protocols=BOTH,
    happens="EndTxn is lost with the connection and has no effect.",
    right_client="connects again and repeats EndTxn",
    provoked="a rule loses the next EndTxn of one instance",
    sources=(RETRIED,),
    allows=Allows(rebalances=0),
    is_transactional=True,
)
async def end_request_lost(stage: Stage) -> None:
    await acts.transactional_id_of(stage, stage.first)
    fault = await stage.fault(stage.first, api="EndTxn", lose="request")
    await stage.acted(fault)


@event(
    "unstable-offset-commit",
    protocols=BOTH,
    happens="A member is removed while its transaction is about to commit. The new owner of its partitions asks for their "
    "offsets and "
    "is answered UNSTABLE_OFFSET_COMMIT until the transaction ends.",
    right_client="asks again until the offsets are stable, and reads on from the transaction's offsets",
    provoked="an EndTxn is held, its member's session expires, and EndTxn is released when another instance has been answered "
    "UNSTABLE_OFFSET_COMMIT three times; in a consumer group its heartbeats are answered with COORDINATOR_LOAD_IN_PROGRESS "
    "until then",
    sources=(
        Source("KIP-447", "OffsetFetch with RequireStable waits for pending transactional offsets"),
        Source("ConsumerCoordinator.OffsetFetchResponseHandler", "UNSTABLE_OFFSET_COMMIT is retried"),
    ),
    allows=Allows(rebalances=3, stall_s=60.0),
    is_transactional=True,
    since="2.5",
    time_limit_s=150.0,
)
async def unstable_offset_commit(stage: Stage) -> None:
    await acts.transactional_id_of(stage, stage.first)
    need_two(stage)
    hold = await stage.fault(stage.first, api="EndTxn", hold="request")
    await stage.held(hold)
    # It must not be back before the others have asked for the offsets, and not know yet when it is refused. A classic member
    # does not join while its program waits.
    heartbeats = await stage.fault(
        stage.first, api=acts.HEARTBEATS["consumer"], error="COORDINATOR_LOAD_IN_PROGRESS", until="cleared"
    )
    await stage.expire_session(stage.first)
    await acts.answered_times(stage, "OffsetFetch", "UNSTABLE_OFFSET_COMMIT", 3)
    mark = stage.mark()
    await hold.release()
    await acts.asked_or_ended(stage, stage.first, "OffsetFetch", mark)
    await heartbeats.clear()
    await stage.stable()


@event(
    "producer-fenced-in-transaction",
    protocols=BOTH,
    happens="Another process begins with the transactional id of an instance, between its records and its TxnOffsetCommit.",
    right_client="ends, or closes this producer: neither its records nor its offsets count, and another instance reads "
    "them again",
    provoked="a TxnOffsetCommit is held, the stream pauses until the others have committed, InitProducerId of its "
    "transactional id is sent, and the TxnOffsetCommit released",
    sources=(FENCED, Source("KIP-98", "InitProducerId aborts the open transaction and fences its producer")),
    allows=Allows(rebalances=2, stall_s=60.0, may_end=True),
    is_transactional=True,
    time_limit_s=150.0,
)
async def producer_fenced(stage: Stage) -> None:
    transactional_id = await acts.transactional_id_of(stage, stage.first)
    hold = await stage.fault(stage.first, api="TxnOffsetCommit", hold="request")
    await stage.held(hold)
    await acts.pause_the_others(stage, stage.first)
    await acts.fence_producer(stage, transactional_id)
    await hold.release()
    await acts.ended_or_commits_again(stage, stage.first)
    stage.producer.start()


@event(
    "transaction-timed-out",
    protocols=BOTH,
    happens="A transaction is open for longer than its timeout: the coordinator aborts it and fences its producer.",
    right_client="ends, or aborts and begins again: nothing of the transaction counts, and its records are processed once more",
    provoked="an EndTxn is held, the stream pauses until the others have committed, the transaction is timed out by command, "
    "and the EndTxn released",
    sources=(
        Source(
            "KIP-98, transaction.timeout.ms",
            "the coordinator aborts a transaction that lasts longer, and bumps its epoch",
        ),
        FENCED,
    ),
    allows=Allows(rebalances=2, stall_s=60.0, may_end=True),
    is_transactional=True,
    time_limit_s=150.0,
)
async def transaction_timed_out(stage: Stage) -> None:
    transactional_id = await acts.transactional_id_of(stage, stage.first)
    hold = await stage.fault(stage.first, api="EndTxn", hold="request")
    await stage.held(hold)
    await acts.pause_the_others(stage, stage.first)
    stage.note(f"the transaction of {transactional_id} is timed out")
    await stage.control.transaction(transactional_id).expire()
    await hold.release()
    await acts.ended_or_commits_again(stage, stage.first)
    stage.producer.start()


@event(
    "concurrent-transactions",
    protocols=BOTH,
    happens="For 5 s the coordinator answers CONCURRENT_TRANSACTIONS to a client that begins a transaction, as "
    "while it completes the previous one.",
    right_client="asks again after a pause, and neither aborts nor ends",
    provoked="a rule: AddPartitionsToTxn, AddOffsetsToTxn and InitProducerId of one instance, for 5 s",
    sources=(
        Source("TransactionManager.AddPartitionsToTxnHandler", "CONCURRENT_TRANSACTIONS is repeated after a backoff"),
        Source("KIP-890", "with transaction.version 2, TxnOffsetCommit and Produce may be answered so, too"),
    ),
    allows=Allows(rebalances=0, stall_s=30.0),
    is_transactional=True,
)
async def concurrent_transactions(stage: Stage) -> None:
    await acts.transactional_id_of(stage, stage.first)
    if all(each.api not in _ADDING for each in stage.observation.entries):
        raise NotApplicable("it adds partitions by writing to them (transaction.version 2)")
    fault = await stage.fault(
        stage.first,
        api=(*_ADDING, "InitProducerId"),
        error="CONCURRENT_TRANSACTIONS",
        for_ms=5_000,
    )
    await stage.acted(fault)


@event(
    "coordinator-dies-after-the-decision",
    protocols=BOTH,
    happens="The coordinator dies when the decision to commit is durable, before the client hears of it.",
    right_client="asks again when the coordinator is back, and is answered that the transaction is committed",
    provoked="the answer to an EndTxn is held, the stream pauses until the others have committed, and the server is killed and "
    "started again; markers that it has not written follow",
    sources=(RETRIED, Source("KIP-98", "a new coordinator completes the transactions that are in PrepareCommit")),
    allows=Allows(rebalances=None, stall_s=60.0),
    is_transactional=True,
    is_alone=True,
    time_limit_s=150.0,
)
async def coordinator_dies(stage: Stage) -> None:
    await acts.transactional_id_of(stage, stage.first)
    hold = await stage.fault(stage.first, api="EndTxn", hold="answer")
    await stage.held(hold)
    await acts.pause_the_others(stage, stage.first)
    await stage.kill_server()
    await stage.stable(within_s=acts.WITHOUT_LEAVING_S)
    stage.producer.start()


EVENTS = (
    end_answer_lost,
    end_request_lost,
    unstable_offset_commit,
    producer_fenced,
    transaction_timed_out,
    concurrent_transactions,
    coordinator_dies,
)
