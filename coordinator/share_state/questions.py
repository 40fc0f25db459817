"""The five questions to a share coordinator as messages: what a request asks, and how its response says what was replied.

Each request is about partitions of topics; its response has a result for each of them. Here are the parts that differ.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    Message,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.shard import Operation
from coordinator.share_state.delete import Deletion, delete
from coordinator.share_state.initialize import Initialization, initialize
from coordinator.share_state.machine import ShareStateMachine
from coordinator.share_state.read import Read, read
from coordinator.share_state.share_state import UNKNOWN_COUNT, Batch, SharePartition, ShareState, Summary
from coordinator.share_state.summary import SummaryWanted, read_summary
from coordinator.share_state.write import Write, write

_TEXTS = {
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
}
"""Kafka's messages of the errors that concern the coordinator and not what it was asked."""


class Question(NamedTuple):
    """One API. `Asked` stands for the argument of its operation."""

    words: str
    """What the coordinator is asked to do, as error messages say it."""
    operation: Operation[ShareStateMachine, Any]
    writes: bool
    """Whether it may change the log."""
    version: int
    """The one in which another worker is asked."""
    asked_of: Callable[[SharePartition, Any], Any]
    """`asked_of(key, partition of the request)`: what the operation gets."""
    message_of: Callable[[Any], Any]
    """`message_of(asked)`: the partition of a request."""
    topic_of: Callable[[bytes, list[Any]], Any]
    """`topic_of(topic id, partitions)`: the topic of a request."""
    request_of: Callable[[str, list[Any]], Any]
    """`request_of(group, topics)`"""
    result_of: Callable[[int, Any], Any]
    """`result_of(partition, reply)`: the result of a partition that was not refused."""
    reply_of: Callable[[Any], Any]
    """`reply_of(result)`: the reverse."""
    response: type[Any]
    topic_result: type[Any]
    result: type[Any]


INITIALIZE = Question(
    "initialize share group state",
    initialize,
    writes=True,
    version=0,
    asked_of=lambda key, each: Initialization(key, each.state_epoch, each.start_offset),
    message_of=lambda asked: InitializeShareGroupStateRequest.PartitionData(
        asked.key.partition, asked.state_epoch, asked.start_offset
    ),
    topic_of=InitializeShareGroupStateRequest.InitializeStateData,
    request_of=InitializeShareGroupStateRequest,
    result_of=lambda partition, _: InitializeShareGroupStateResponse.PartitionResult(partition),
    reply_of=lambda _: DONE,
    response=InitializeShareGroupStateResponse,
    topic_result=InitializeShareGroupStateResponse.InitializeStateResult,
    result=InitializeShareGroupStateResponse.PartitionResult,
)


def _read_result(partition: int, state: ShareState) -> Message:
    batches = [ReadShareGroupStateResponse.StateBatch(*each) for each in state.batches]
    return ReadShareGroupStateResponse.PartitionResult(
        partition, state_epoch=state.state_epoch, start_offset=state.start_offset, state_batches=batches
    )


def _batches(messages: Iterable[Any]) -> tuple[Batch, ...]:
    return tuple(
        Batch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in messages
    )


READ = Question(
    "read share group state",
    read,
    writes=True,  # the epoch of a new leader
    version=0,
    asked_of=lambda key, each: Read(key, each.leader_epoch),
    message_of=lambda asked: ReadShareGroupStateRequest.PartitionData(asked.key.partition, asked.leader_epoch),
    topic_of=ReadShareGroupStateRequest.ReadStateData,
    request_of=ReadShareGroupStateRequest,
    result_of=_read_result,
    reply_of=lambda result: ShareState(
        # The response has no count: a leader counts the batches that it reads.
        result.state_epoch, result.start_offset, UNKNOWN_COUNT, _batches(result.state_batches)
    ),
    response=ReadShareGroupStateResponse,
    topic_result=ReadShareGroupStateResponse.ReadStateResult,
    result=ReadShareGroupStateResponse.PartitionResult,
)  # fmt: skip


def _write_of(key: SharePartition, each: Any) -> Write:
    batches = _batches(each.state_batches)
    return Write(key, each.state_epoch, each.leader_epoch, each.start_offset, each.delivery_complete_count, batches)


def _write_message(asked: Write) -> Message:
    batches = [WriteShareGroupStateRequest.StateBatch(*each) for each in asked.batches]
    return WriteShareGroupStateRequest.PartitionData(asked.key.partition, *asked[1:-1], batches)


WRITE = Question(
    "write share group state",
    write,
    writes=True,
    version=1,
    asked_of=_write_of,
    message_of=_write_message,
    topic_of=WriteShareGroupStateRequest.WriteStateData,
    request_of=WriteShareGroupStateRequest,
    result_of=lambda partition, _: WriteShareGroupStateResponse.PartitionResult(partition),
    reply_of=lambda _: DONE,
    response=WriteShareGroupStateResponse,
    topic_result=WriteShareGroupStateResponse.WriteStateResult,
    result=WriteShareGroupStateResponse.PartitionResult,
)
DELETE = Question(
    "delete share group state",
    delete,
    writes=True,
    version=0,
    asked_of=lambda key, _: Deletion(key),
    message_of=lambda asked: DeleteShareGroupStateRequest.PartitionData(asked.key.partition),
    topic_of=DeleteShareGroupStateRequest.DeleteStateData,
    request_of=DeleteShareGroupStateRequest,
    result_of=lambda partition, _: DeleteShareGroupStateResponse.PartitionResult(partition),
    reply_of=lambda _: DONE,
    response=DeleteShareGroupStateResponse,
    topic_result=DeleteShareGroupStateResponse.DeleteStateResult,
    result=DeleteShareGroupStateResponse.PartitionResult,
)
SUMMARY = Question(
    "read share group state summary",
    read_summary,
    writes=False,
    version=1,
    asked_of=lambda key, each: SummaryWanted(key, each.leader_epoch),
    message_of=lambda asked: ReadShareGroupStateSummaryRequest.PartitionData(asked.key.partition, asked.leader_epoch),
    topic_of=ReadShareGroupStateSummaryRequest.ReadStateSummaryData,
    request_of=ReadShareGroupStateSummaryRequest,
    result_of=lambda partition, summary: ReadShareGroupStateSummaryResponse.PartitionResult(
        partition, ErrorCode.NONE, None, *summary
    ),
    reply_of=lambda result: Summary(
        result.state_epoch, result.leader_epoch, result.start_offset, result.delivery_complete_count
    ),
    response=ReadShareGroupStateSummaryResponse,
    topic_result=ReadShareGroupStateSummaryResponse.ReadStateSummaryResult,
    result=ReadShareGroupStateSummaryResponse.PartitionResult,
)
BY_ASKED: Mapping[type[Any], Question] = {
    Initialization: INITIALIZE, Read: READ, Write: WRITE, Deletion: DELETE, SummaryWanted: SUMMARY
}  # fmt: skip
"""The question by what its operation gets."""


def refused(question: Question, partition: int, error: KafkaError) -> Any:
    """The result of a partition that was refused, with Kafka's words."""
    text = error.message
    if text is None:
        text = f"Unable to {question.words}: {_TEXTS.get(error.code, error.code.name)}"
    return question.result(partition, error.code, text)


def request(asked: Any) -> Any:
    """The request of one question, for another coordinator."""
    question, key = BY_ASKED[type(asked)], asked.key
    return question.request_of(key.group_id, [question.topic_of(key.topic_id, [question.message_of(asked)])])


def reply(asked: Any, response: Any) -> Any:
    """What the response to `request` says: a reply of the operation, or a KafkaError."""
    if not response.results:  # of a request that names no group
        return KafkaError(ErrorCode.INVALID_REQUEST)
    result = response.results[0].partitions[0]
    code = ErrorCode(result.error_code)
    return KafkaError(code, result.error_message) if code else BY_ASKED[type(asked)].reply_of(result)
