"""An output that refuses records. What was not delivered must not be committed, nor accepted."""

from coordinator_testing.certify.curriculum import acts
from coordinator_testing.certify.event import Allows, NotApplicable, Protocol, Source, event
from coordinator_testing.certify.stage import Stage

READERS: tuple[Protocol, ...] = ("classic", "consumer", "share")
_RETRIED = Source("Sender.canRetry", "an error that can be retried is, until delivery.timeout.ms")
_DEDUPLICATED = Source("KIP-98", "a batch whose sequence number the broker has is acknowledged again")
_FAILED = Source("Sender.failBatch", "the send fails, and its future and callback say so")


def need_output(stage: Stage) -> None:
    """Raises NotApplicable if the program writes nothing to the output topic."""
    if all(each.api != "Produce" for each in stage.observation.entries):
        raise NotApplicable("the program produces nothing")


@event(
    "output-not-enough-replicas",
    protocols=READERS,
    happens="Two Produces of an instance are answered with NOT_ENOUGH_REPLICAS.",
    right_client="sends the records again, and commits what was acknowledged",
    provoked="a rule: two Produces of one instance",
    sources=(_RETRIED,),
    allows=Allows(rebalances=0),
)
async def not_enough_replicas(stage: Stage) -> None:
    need_output(stage)
    await stage.acted(await stage.fault(stage.first, api="Produce", error="NOT_ENOUGH_REPLICAS", times=2), 2)
    await stage.progress()


@event(
    "output-timed-out",
    protocols=READERS,
    happens="The followers are too slow: a Produce takes effect, and is answered with REQUEST_TIMED_OUT.",
    right_client="sends the records again, which an idempotent producer does without a second copy",
    provoked="a rule: REQUEST_TIMED_OUT in the answer to a Produce of one instance",
    sources=(_RETRIED, _DEDUPLICATED),
    allows=Allows(rebalances=0),
)
async def produce_timed_out(stage: Stage) -> None:
    need_output(stage)
    each = "Responses[].PartitionResponses[]"
    timed_out = {f"{each}.ErrorCode": "REQUEST_TIMED_OUT", f"{each}.BaseOffset": -1}
    await stage.acted(await stage.fault(stage.first, api="Produce", answer=timed_out))
    await stage.progress()


@event(
    "output-answer-lost",
    protocols=READERS,
    happens="A Produce takes effect, and its answer is lost with the connection.",
    right_client="sends the records again, which an idempotent producer does without a second copy",
    provoked="a rule loses the answer to a Produce of one instance",
    sources=(_RETRIED, _DEDUPLICATED),
    allows=Allows(rebalances=0),
)
async def produce_answer_lost(stage: Stage) -> None:
    need_output(stage)
    await stage.acted(await stage.fault(stage.first, api="Produce", lose="answer"))
    await stage.progress()


@event(
    "output-too-large",
    protocols=READERS,
    happens="A Produce of an instance is answered with MESSAGE_TOO_LARGE, which no retry mends.",
    right_client="learns it from the future or the callback of the send, and does not commit the record: it sends it "
    "once more, puts it aside, or ends",
    provoked="a rule: one Produce of one instance; an instance that ends is started again",
    sources=(_FAILED,),
    allows=acts.MAY_END,
    time_limit_s=150.0,
)
async def too_large(stage: Stage) -> None:
    need_output(stage)
    await stage.acted(await stage.fault(stage.first, api="Produce", error="MESSAGE_TOO_LARGE"))
    await acts.ended_or_commits_again(stage, stage.first, acts.commits)


@event(
    "output-not-permitted",
    protocols=READERS,
    happens="The program's right to write is withdrawn for a moment: a Produce is answered with TOPIC_AUTHORIZATION_FAILED.",
    right_client="learns it from the future or the callback of the send, and does not commit the record",
    provoked="a rule: one Produce of one instance; an instance that ends is started again",
    sources=(_FAILED,),
    allows=acts.MAY_END,
    time_limit_s=150.0,
)
async def not_permitted(stage: Stage) -> None:
    need_output(stage)
    await stage.acted(await stage.fault(stage.first, api="Produce", error="TOPIC_AUTHORIZATION_FAILED"))
    await acts.ended_or_commits_again(stage, stage.first, acts.commits)


@event(
    "output-producer-epoch-bumped",
    protocols=READERS,
    happens="The broker no longer knows the producer's epoch: a Produce is answered with INVALID_PRODUCER_EPOCH.",
    right_client="bumps its epoch and sends again or, in transactions, aborts or ends; it commits nothing "
    "that was not delivered",
    provoked="a rule: one Produce of one instance; an instance that ends is started again",
    sources=(
        Source("KIP-360", "an idempotent producer bumps its epoch by itself; a transactional one aborts and goes on"),
    ),
    allows=acts.MAY_END,
    time_limit_s=150.0,
)
async def producer_epoch_bumped(stage: Stage) -> None:
    need_output(stage)
    entries = [each for each in stage.observation.entries if each.listener == stage.first.listener]
    if all(each.api != "InitProducerId" for each in entries):
        raise NotApplicable("its producer has no epoch")
    await stage.acted(await stage.fault(stage.first, api="Produce", error="INVALID_PRODUCER_EPOCH"))
    await acts.ended_or_commits_again(stage, stage.first, acts.commits)


EVENTS = (
    not_enough_replicas,
    produce_timed_out,
    produce_answer_lost,
    too_large,
    not_permitted,
    producer_epoch_bumped,
)
