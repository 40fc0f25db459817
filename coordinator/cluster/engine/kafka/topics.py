"""The topics of an engine: makes those that are missing, and refuses those that do not keep what they are given.

Each has one partition:

    CLUSTER-LOG              claims, pieces and covers of a log
    CLUSTER-LOG-snapshots    the parts of its snapshots; it is made for the first one
    CLUSTER-control          beats of workers, and who owns which log
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from coordinator.cluster.engine.engine import EngineRefused, EngineSettings, EngineUnavailable
from coordinator.cluster.engine.kafka.cluster import BrokerError, Cluster, Partition, refuse_error
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CreateTopicsRequest,
    DescribeConfigsRequest,
)

REPLICAS, IN_SYNC = 3, 2
SNAPSHOTS = "snapshots"
CLUSTER_NAME = re.compile(r"[a-zA-Z0-9._-]{1,100}")
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Only the engine removes records."""
TIMED = {"message.timestamp.type": "LogAppendTime"}
SMALL_SEGMENTS = {"segment.bytes": str(64 << 20)}
"""What is trimmed leaves the disk with its segment."""
IN_SYNC_MIN, UNCLEAN, BATCH_BYTES = "min.insync.replicas", "unclean.leader.election.enable", "max.message.bytes"
REPLICATED = {IN_SYNC_MIN: str(IN_SYNC), UNCLEAN: "false"}
_TOPIC = 2
"""The type of a resource."""
DESCRIBED_AT_ONCE = 200


class Topics:
    """The topics of one cluster of coordinators."""

    def __init__(self, cluster: Cluster, settings: EngineSettings) -> None:
        if CLUSTER_NAME.fullmatch(settings.cluster) is None:
            raise EngineRefused(
                f"journal.cluster is {settings.cluster}, and topics are named after it;"
                " it must have letters, digits, '.', '_' and '-', at most 100"
            )
        self._cluster = cluster
        self._prefix = settings.cluster
        self._is_replicated = settings.replication == "required"
        self._reads_only = settings.reads_only
        self._names = rf"{re.escape(self._prefix)}-.*-\d+(-{SNAPSHOTS})?"
        self._checked: dict[str, int] = {}
        """The largest batch of each topic, in bytes."""
        self.control = Partition(f"{self._prefix}-control", 0)

    def pieces_of(self, log: str) -> Partition:
        """The partition of a log's claims, pieces and covers."""
        return Partition(f"{self._prefix}-{log}", 0)

    def parts_of(self, log: str) -> Partition:
        """The partition of the parts of a log's snapshots."""
        return Partition(f"{self._prefix}-{log}-{SNAPSHOTS}", 0)

    def batch_bytes(self, partition: Partition) -> int:
        """The largest batch that the topic takes."""
        return self._checked[partition.topic]

    async def open(self) -> None:
        """Makes the control topic, and checks all topics. Raises: EngineRefused; EngineUnavailable."""
        found = await self._cluster.refresh(None)
        if self._reads_only:
            if self.control.topic not in found:
                raise EngineRefused(f"there is no topic {self.control.topic} of a coordinator: journal.cluster")
            return
        if self.control.topic not in found:
            # Once there are topics, a missing broker is one that will come back: they say how many replicas they have.
            if self._is_replicated and self._cluster.brokers < REPLICAS:
                raise EngineRefused(
                    f"the cluster has {self._cluster.brokers} brokers, and {REPLICAS} are needed so that nothing is lost with"
                    " one; add brokers, or set journal.replication to optional"
                )
            await self._make([self.control.topic])
            found = await self._cluster.refresh(None)
        await self._check({name: replicas for name, replicas in found.items() if self._is_mine(name)})

    def _is_mine(self, name: str) -> bool:
        """Whether a topic that has the prefix is the engine's: another one may be called so by chance."""
        return name == self.control.topic or re.fullmatch(self._names, name) is not None

    async def ensure(self, partitions: Iterable[Partition]) -> None:
        """Makes the topics that are missing, and checks each once. Raises: EngineUnavailable."""
        topics = [each.topic for each in partitions if each.topic not in self._checked]
        if not topics:
            return
        try:
            found = await self._cluster.refresh(topics)
            missing = [topic for topic in topics if topic not in found]
            if missing:
                await self._make(missing)
                found |= await self._cluster.repeat(lambda: self._made(missing))
            await self._check(found)
        except EngineRefused as error:
            raise EngineUnavailable(str(error)) from None

    async def exists(self, log: str) -> bool:
        """Whether the log was ever claimed."""
        topic = self.pieces_of(log).topic
        return topic in self._checked or topic in await self._cluster.refresh([topic])

    # --- making -------------------------------------------------------------------------------------------------------

    async def _make(self, names: Iterable[str]) -> None:
        request = CreateTopicsRequest([*map(self._wanted, names)], round(self._cluster.attempt_s * 1000))

        async def ask() -> None:
            answer = await self._cluster.ask_any("topics", request)
            for made in answer.topics:
                if made.error_code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
                    continue
                if not ErrorCode(made.error_code).retriable:
                    reason = made.error_message or ErrorCode(made.error_code).name
                    raise EngineRefused(f"the topic {made.name} is missing and cannot be made: {reason}")
                refuse_error(f"CreateTopics of {made.name}", made.error_code)

        await self._cluster.repeat(ask)

    def _wanted(self, name: str) -> CreateTopicsRequest.CreatableTopic:
        settings = KEPT | TIMED | SMALL_SEGMENTS | (REPLICATED if self._is_replicated else {})
        if name == self.control.topic:
            # It has only what is written again all the time, and workers live while one replica does.
            settings |= {IN_SYNC_MIN: "1"}
        return CreateTopicsRequest.CreatableTopic(
            name,
            1,
            REPLICAS if self._is_replicated else -1,
            configs=[CreateTopicsRequest.CreatableTopicConfig(*each) for each in settings.items()],
        )

    async def _made(self, topics: Collection[str]) -> dict[str, int]:
        """What metadata say about topics that were just made. Raises: BrokerError, until brokers know them."""
        found = await self._cluster.refresh(topics)
        for topic in topics:
            if topic not in found:
                raise BrokerError(f"the topic {topic}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    # --- checking -----------------------------------------------------------------------------------------------------

    async def _check(self, topics: Mapping[str, int]) -> None:
        names = list(topics)
        for start in range(0, len(names), DESCRIBED_AT_ONCE):
            described = await self._cluster.repeat(partial(self._describe, names[start : start + DESCRIBED_AT_ONCE]))
            for name, settings in described.items():
                fault = self._fault(name, topics[name], settings)
                if fault is not None:
                    raise EngineRefused(f"the topic {name} {fault}")
                self._checked[name] = int(settings[BATCH_BYTES])

    async def _describe(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        keys = [*KEPT, *TIMED, *REPLICATED, BATCH_BYTES]
        resources = [DescribeConfigsRequest.DescribeConfigsResource(_TOPIC, name, keys) for name in names]
        answer = await self._cluster.ask_any("topics", DescribeConfigsRequest(resources))
        for result in answer.results:
            if result.error_code and not ErrorCode(result.error_code).retriable:
                raise EngineRefused(
                    f"the settings of {result.resource_name} cannot be read: {ErrorCode(result.error_code).name}"
                )
            refuse_error(f"DescribeConfigs of {result.resource_name}", result.error_code)
        return {
            each.resource_name: {config.name: config.value or "" for config in each.configs} for each in answer.results
        }

    def _fault(self, name: str, replicas: int, settings: Mapping[str, str]) -> str | None:
        """Why a topic does not keep what it is given; None: it does."""
        for setting, wanted in (KEPT | TIMED if name == self.control.topic else KEPT).items():
            if settings.get(setting, wanted) != wanted:
                return (
                    f"has {setting}={settings[setting]}, so the cluster removes or changes records; set it to {wanted}"
                )
        if not self._is_replicated:
            return None
        or_optional = "or set journal.replication to optional"
        if replicas < REPLICAS:
            return (
                f"has {replicas} replicas, and {REPLICAS} are needed so that nothing is lost with one;"
                f" add some, {or_optional}"
            )
        if settings.get(UNCLEAN, "false") != "false":
            return f"has {UNCLEAN}=true, so a new leader may lack what was acknowledged; set it to false, {or_optional}"
        # Brokers that always wait for a majority have no such setting.
        if name != self.control.topic and int(settings.get(IN_SYNC_MIN, IN_SYNC)) < IN_SYNC:
            return (
                f"has {IN_SYNC_MIN}={settings[IN_SYNC_MIN]}, so what is acknowledged may be on one broker only;"
                f" set it to {IN_SYNC}, {or_optional}"
            )
        return None
