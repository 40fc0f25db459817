"""What the five APIs of the share coordinator share: each partition is answered for itself, when its shard has decided.

Kafka asks its coordinator about one partition after the other, also where a request names one twice: then the last answer
counts. It answers a request that names nothing by nothing, and all but InitializeShareGroupState also one with an empty topic.
"""

from functools import partial
from typing import Any

from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.api.sliced_work import Pieces
from coordinator.protocol.errors import KafkaError
from coordinator.share_state import questions
from coordinator.share_state.coordinator import PIECE_PARTITIONS
from coordinator.share_state.questions import INITIALIZE, Question
from coordinator.share_state.share_state import SharePartition


def handle(question: Question, server: Server, exchange: Exchange[Any]) -> None:
    """Asks the shards, and replies when the last one has answered."""
    request = exchange.request
    has_empty_topic = any(not topic.partitions for topic in request.topics)
    partitions = [(topic.topic_id, each) for topic in request.topics for each in topic.partitions]
    if not request.group_id or not partitions or (has_empty_topic and question is not INITIALIZE):
        exchange.reply(question.response())
        return
    results: dict[tuple[bytes, int], Any] = {(topic_id, each.partition): None for topic_id, each in partitions}
    left = len(partitions)

    def answered(topic_id: bytes, index: int, reply: Any) -> None:
        nonlocal left
        is_refused = isinstance(reply, KafkaError)
        result = questions.refused(question, index, reply) if is_refused else question.result_of(index, reply)
        results[topic_id, index] = result
        left -= 1
        if not left:
            exchange.reply(_response(question, results))

    def pieces() -> Pieces:
        for number, (topic_id, each) in enumerate(partitions, 1):
            asked = question.asked_of(SharePartition(request.group_id, topic_id, each.partition), each)
            done = partial(answered, topic_id, each.partition)
            server.share_states.submit(question.operation, asked, done, writes=question.writes)
            if not number % PIECE_PARTITIONS:
                yield

    exchange.run_in_slices(pieces(), even_if_lost=question.writes)


def refused(question: Question, request: Any, error: KafkaError, _api_version: int) -> Any:
    """The response that refuses every partition."""
    topics = [
        question.topic_result(
            topic.topic_id, [question.result(each.partition, error.code, error.message) for each in topic.partitions]
        )
        for topic in request.topics
    ]
    return question.response(topics)


def _response(question: Question, results: dict[tuple[bytes, int], Any]) -> Any:
    topics: dict[bytes, list[Any]] = {}
    for (topic_id, _), result in results.items():
        topics.setdefault(topic_id, []).append(result)
    return question.response([question.topic_result(*each) for each in topics.items()])
