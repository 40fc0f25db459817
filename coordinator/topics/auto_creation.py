"""Creates the internal topics of Kafka Streams applications (Kafka's AutoTopicCreationManager.createStreamsInternalTopics).

Every heartbeat of a streams group whose internal topics are missing asks for them. So the same topic is requested many
times until it exists, and a topic that cannot be created (more replicas than brokers, an unknown setting) would be tried
just as often. Here each topic is created once for all requests, and a failure is remembered for a while: until then the topic
is not tried again, and heartbeats report the reason.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CreateTopicsRequest, CreateTopicsResponse

Creatable = CreateTopicsRequest.CreatableTopic
CreateTopics = Callable[[CreateTopicsRequest, Callable[[CreateTopicsResponse], None]], None]
"""`create(request, done)` calls `done` with the result of each topic."""
FAILURES_MAX = 1_000
"""The most failures that are remembered. Beyond that, the one that expires first is dropped."""


class _Failure(NamedTuple):
    until_ms: int
    name: str
    reason: str


class AutoTopicCreation:
    """The topics that are being created, and the recent failures."""

    def __init__(self, create_topics: CreateTopics, now_ms: Callable[[], int]) -> None:
        self._create_topics = create_topics
        self._now_ms = now_ms
        self._in_progress: set[str] = set()
        self._failures: dict[str, _Failure] = {}

    def create(self, requested: Iterable[Creatable], keep_ms: int) -> None:
        """Starts to create the topics that are not in progress and have not failed recently.

        `keep_ms`: how long a failure is remembered.
        """
        new = [topic for topic in requested if topic.name not in self._in_progress and not self.failures([topic.name])]
        if not new:
            return
        self._in_progress.update(topic.name for topic in new)

        def on_created(response: CreateTopicsResponse) -> None:
            until_ms = self._now_ms() + keep_ms
            for result in response.topics:
                self._in_progress.discard(result.name)
                if result.error_code:
                    reason = result.error_message or ErrorCode(result.error_code).name
                    self._remember(_Failure(until_ms, result.name, reason))

        self._create_topics(CreateTopicsRequest(topics=new), on_created)

    def failures(self, names: Iterable[str]) -> dict[str, str]:
        """The recent failures among these topics: name -> reason."""
        now_ms = self._now_ms()
        remembered = ((name, self._failures.get(name)) for name in names)
        return {
            name: failure.reason for name, failure in remembered if failure is not None and failure.until_ms > now_ms
        }

    def _remember(self, failure: _Failure) -> None:
        self._failures[failure.name] = failure
        if len(self._failures) > FAILURES_MAX:
            del self._failures[min(self._failures.values()).name]
