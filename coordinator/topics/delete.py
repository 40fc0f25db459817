"""DeleteTopics: by name, and since version 6 also by id; every topic is validated by itself.

This is Kafka's ControllerApis.deleteTopics and ReplicationControlManager.deleteTopics.

The response waits until the topic and its folders are gone, so that a test that deletes a topic and creates it again in the
next line gets an empty one. Internal topics are the coordinator's memory and cannot be deleted.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse
from coordinator.topics import names
from coordinator.topics.allowed import IsAllowed, everything
from coordinator.topics.registry import NO_ID, Topic
from coordinator.topics.topics import CountMutation, Topics, at_once, nobody_counts

_Result = DeleteTopicsResponse.DeletableTopicResult
_DISABLED_SINCE = 3
_PIECE_TOPICS = 20
"""Topics that are deleted in about a millisecond."""
_PIECE_LOOKUPS = 500
"""Entries that are looked up in less than that."""


class _Wanted(NamedTuple):
    """One entry of the request: a topic by name or by id."""

    name: str | None
    topic_id: bytes


class Rights(NamedTuple):
    """Which topics the client may see and delete."""

    may_describe: IsAllowed = everything
    may_delete: IsAllowed = everything


class _Denied(KafkaError):
    """The client may not delete the topic."""

    def __init__(self, name: str | None) -> None:
        """`name`: the name in the response; None hides it from a client that only knows the topic's id."""
        super().__init__(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
        self.name = name


class _NamedTwice(KafkaError):
    """The request names the topic by its id, too."""

    def __init__(self, topic_id: bytes) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.")
        self.topic_id = topic_id


def delete_topics(
    topics: Topics,
    request: DeleteTopicsRequest,
    api_version: int,
    reply: Callable[[DeleteTopicsResponse], None],
    rights: Rights = Rights(),  # noqa: B008 - immutable
    count_mutation: CountMutation = nobody_counts,
    run: Callable[[Iterator[None]], None] = at_once,
    asked_by: str = "",
) -> None:
    """Calls `reply` when all valid topics are deleted. `run` does the work, which may be in slices. `asked_by`: for people.

    The response has the errors of the others:

        INVALID_REQUEST               neither or both of name and id, a duplicate, or an internal topic
        TOPIC_AUTHORIZATION_FAILED
        UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID
        THROTTLING_QUOTA_EXCEEDED     `count_mutation` raises it
        KAFKA_STORAGE_ERROR           the metadata log cannot be written
        NOT_CONTROLLER                another server that shares it was quicker

    Raises TOPIC_DELETION_DISABLED (before version 3: INVALID_REQUEST) if the settings forbid deletion.
    """
    if not topics.config.delete_topic_enable:
        has_code = api_version >= _DISABLED_SINCE
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED if has_code else ErrorCode.INVALID_REQUEST)
    metadata = topics.metadata
    metadata.when_leading(
        lambda: run(metadata.steps(_delete(topics, request, reply, rights, count_mutation, asked_by)))
    )


def _delete(
    topics: Topics,
    request: DeleteTopicsRequest,
    reply: Callable[[DeleteTopicsResponse], None],
    rights: Rights,
    count_mutation: CountMutation,
    asked_by: str,
) -> Iterator[None]:
    """Validates and deletes a few topics in each step."""
    asked = Counter(wanted(request))
    named_by_id = {entry.topic_id for entry in asked if entry.name is None}
    for number, entry in enumerate([*asked], 1):
        if not number % _PIECE_LOOKUPS:
            yield
        topic = topics.registry.by_id.get(entry.topic_id)
        if (
            entry.name is None
            and topic is not None
            and _Wanted(topic.name, NO_ID) in asked
            and rights.may_delete(topic.name)
        ):
            # It is also named by its name: that entry gets the error and this one no result, as in Kafka.
            del asked[entry]
    results: list[_Result] = []
    left = 1

    def finished(result: _Result, error: ErrorCode) -> None:
        result.error_code = error
        done()

    def done() -> None:
        nonlocal left
        left -= 1
        if not left:
            reply(DeleteTopicsResponse(responses=results))

    for number, (entry, count) in enumerate(asked.items(), 1):
        if not number % _PIECE_TOPICS:
            yield
        try:
            found = _found(topics, entry, count, named_by_id, rights)
            count_mutation(found.partitions)
        except KafkaError as error:
            name = error.name if isinstance(error, _Denied) else entry.name
            topic_id = error.topic_id if isinstance(error, _NamedTwice) else entry.topic_id
            results.append(_Result(name, topic_id, error.code, error.message))
        else:
            result = _Result(found.name, found.topic_id)
            results.append(result)
            left += 1
            topics.remove(found, partial(finished, result), asked_by)
    done()


def wanted(request: DeleteTopicsRequest) -> list[_Wanted]:
    """The entries of a request of any version."""
    by_name = [_Wanted(name, NO_ID) for name in request.topic_names]
    return by_name + [_Wanted(state.name, state.topic_id) for state in request.topics]


def _found(topics: Topics, entry: _Wanted, count: int, named_by_id: set[bytes], rights: Rights) -> Topic:
    """The topic of an entry. No error of a topic that the client may not see depends on whether it exists."""
    name, topic_id = entry
    if name is None:
        if topic_id == NO_ID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        if count > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
        topic = topics.registry.by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        if not rights.may_delete(topic.name):
            raise _Denied(topic.name if rights.may_describe(topic.name) else None)
    else:
        if topic_id != NO_ID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        if count > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        if not rights.may_describe(name):
            raise _Denied(name)
        topic = topics.registry.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        if not rights.may_delete(name):
            raise _Denied(name)
        if topic.topic_id in named_by_id:
            raise _NamedTwice(topic.topic_id)
    if topic.is_internal:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic {topic.name} is internal and cannot be deleted.")
    if names.collision_key(topic.name) in topics.claimed:
        # Another request is deleting it already.
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return topic
