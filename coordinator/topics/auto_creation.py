"""Topics that applications need and that the server makes for them: the internal topics of Kafka Streams.

A member of a streams group is told which topics are missing, in every heartbeat, and each of these heartbeats wants them
made. So a topic is asked for by many, again and again, until it is there; and if it cannot be made (more replicas than
brokers, a setting that does not exist) it would be tried as often. Here a topic is made for all who want it at once, and
what went wrong is kept for a while: so long it is told to whoever wants the topic, and not tried again.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CreateTopicsRequest, CreateTopicsResponse
from coordinator.topics.create import create_topics
from coordinator.topics.engine import Topics

Creatable = CreateTopicsRequest.CreatableTopic
FAILURES_MAX = 1_000
"""As many are kept; of more, those that would be forgotten first are."""


class _Failure(NamedTuple):
    until_ms: int
    name: str
    reason: str


class WantedTopics:
    """What is being made, and what could not be."""

    def __init__(self, topics: Topics, now_ms: Callable[[], int]) -> None:
        self._topics = topics
        self._now_ms = now_ms
        self._making: set[str] = set()
        self._failures: dict[str, _Failure] = {}

    def make(self, wanted: Iterable[Creatable], keep_ms: int) -> None:
        """Begins to make topics that are neither being made nor failed lately. `keep_ms`: how long a failure is kept."""
        new = [topic for topic in wanted if topic.name not in self._making and not self.failures([topic.name])]
        if not new:
            return
        self._making.update(topic.name for topic in new)

        def made(answer: CreateTopicsResponse) -> None:
            until_ms = self._now_ms() + keep_ms
            for each in answer.topics:
                self._making.discard(each.name)
                if each.error_code:
                    self._keep(_Failure(until_ms, each.name, each.error_message or ErrorCode(each.error_code).name))

        create_topics(self._topics, CreateTopicsRequest(topics=new), made)

    def failures(self, names: Iterable[str]) -> dict[str, str]:
        """Topic -> why it could not be made, of those of them that failed lately."""
        now_ms = self._now_ms()
        kept = ((name, self._failures.get(name)) for name in names)
        return {name: failure.reason for name, failure in kept if failure is not None and failure.until_ms > now_ms}

    def _keep(self, failure: _Failure) -> None:
        self._failures[failure.name] = failure
        if len(self._failures) > FAILURES_MAX:
            del self._failures[min(self._failures.values()).name]
