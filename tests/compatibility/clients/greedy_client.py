"""kafka-python with an assignor that gives every partition to every member, until the command `mend`."""

import sys
from typing import Any

from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka_python_client import ASSIGNORS, KafkaPython


class GreedyAssignor(RangePartitionAssignor):
    name = "greedy"
    is_mended = False

    @classmethod
    def assign(cls, cluster: Any, members: Any) -> Any:
        if cls.is_mended:
            return super().assign(cluster, members)
        topics = {topic for member in members for topic in member.metadata.topics}
        everything = [(topic, sorted(cluster.partitions_for_topic(topic) or ())) for topic in sorted(topics)]
        return {member.member_id: ConsumerProtocolAssignment(cls.version, everything, b"") for member in members}


class Greedy(KafkaPython):
    def do_mend(self) -> None:
        GreedyAssignor.is_mended = True


ASSIGNORS["greedy"] = GreedyAssignor
Greedy(sys.argv[1]).run()
