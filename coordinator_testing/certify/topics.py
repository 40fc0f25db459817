"""The topics of the events: made, grown, deleted and read over the Kafka protocol."""

from collections.abc import Mapping

from coordinator.client.reading import LATEST
from coordinator.operations import topics as operations
from coordinator.operations.client import Client, refuse_error
from coordinator.operations.groups import positions
from coordinator.protocol.messages import CreatePartitionsRequest, ReadShareGroupStateSummaryRequest
from coordinator_testing.certify import records
from coordinator_testing.certify.case import InputRecord, OutputRecord, Truncation
from coordinator_testing.certify.content import Content
from coordinator_testing.certify.programs import now_ms
from coordinator_testing.certify.records import TopicReader

REPLICAS = -1
"""As many as the server gives by default: three, or as many as it has brokers."""


class Topics:
    """The input and the output topic of one event. Each call connects for itself. Raises OperationFailed."""

    def __init__(self, bootstrap: str, topic: str, output_topic: str | None, content: Content) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._output_topic = output_topic
        self._content = content
        self.recreated_ms: list[int] = []
        """When the input topic was deleted and made again."""
        self.truncations: list[Truncation] = []
        """What partitions of the input topic have lost."""
        self._inputs: dict[int, list[InputRecord]] = {}
        self._outputs: list[OutputRecord] = []
        self._input_reader = TopicReader(topic)
        self._output_reader = TopicReader(output_topic or "")
        self._input_partitions = 0

    def create(self, partitions: int) -> None:
        """Makes both topics."""
        self._input_partitions = partitions
        with self._client() as client:
            for name in (self._topic, self._output_topic):
                if name:
                    operations.create(client, name, partitions, REPLICAS, {})

    def grow(self, name: str, partitions: int) -> None:
        """Makes a topic have so many partitions."""
        topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        with self._client() as client:
            request = CreatePartitionsRequest(topics=[topic], timeout_ms=client.timeout_ms)
            [result] = client.any().ask(request).results
        refuse_error(result.error_code, f"cannot add partitions to {name}", result.error_message)
        if name == self._topic:
            self._input_partitions = partitions

    def recreate(self, name: str, partitions: int) -> None:
        """Deletes the input topic and makes it again; remembers what it held."""
        self.inputs()
        with self._client() as client:
            for problem in operations.delete(client, [name]).values():
                assert problem is None, problem
            operations.create(client, name, partitions, REPLICAS, {})
        self.recreated_ms.append(now_ms())
        self._input_reader = TopicReader(name)

    def truncated(self, truncation: Truncation) -> None:
        """A partition of the input topic has lost its end, which was read before."""
        partition, end_offset = truncation.partition, truncation.end_offset
        self.truncations.append(truncation)
        self._inputs[partition] = [
            each._replace(lost_ms=truncation.time_ms)
            if each.life == len(self.recreated_ms) and each.offset >= end_offset and each.lost_ms is None
            else each
            for each in self._inputs[partition]
        ]
        self._input_reader.go_back(partition, end_offset)

    def ends(self, name: str, partitions: int) -> Mapping[int, int]:
        """Partition -> end offset."""
        with self._client() as client:
            found = positions(client, {(name, partition): LATEST for partition in range(partitions)})
        return {partition: end for (_, partition), end in found.items()}

    def done(self, group: str) -> Mapping[int, int]:
        """Partition of the input topic -> how many records a share group is done with, as its share coordinators have it."""
        kind = ReadShareGroupStateSummaryRequest
        partitions = [kind.PartitionData(partition=each) for each in range(self._input_partitions)]
        found: dict[int, int] = {}
        with self._client() as client:
            topic_id = client.metadata([self._topic]).topics[0].topic_id
            topics = [kind.ReadStateSummaryData(topic_id=topic_id, partitions=partitions)]
            for broker in client.brokers():
                answer = client.to(broker).ask(kind(group_id=group, topics=topics))
                for each in (row for topic in answer.results for row in topic.partitions):
                    # The brokers that are not its share coordinator say so.
                    if not each.error_code and each.start_offset >= 0:
                        found[each.partition] = each.start_offset + max(each.delivery_complete_count, 0)
        return found

    def inputs(self) -> Mapping[int, list[InputRecord]]:
        """The records that the input topic holds or held."""
        with self._client() as client:
            rows = self._input_reader.read(client, self._input_partitions)
        for partition, found in records.inputs_of(
            rows, len(self.recreated_ms), self.truncations, self._content
        ).items():
            self._inputs.setdefault(partition, []).extend(found)
        return self._inputs

    def outputs(self) -> list[OutputRecord] | None:
        """The copies in the output topic; None if there is no such topic."""
        if not self._output_topic:
            return None
        with self._client() as client:
            count = len(client.metadata([self._output_topic]).topics[0].partitions)
            self._outputs += records.outputs_of(self._output_reader.read(client, count), self._content)
        return self._outputs

    def _client(self) -> Client:
        return Client(self._bootstrap, records.ANSWERED_WITHIN_S)
