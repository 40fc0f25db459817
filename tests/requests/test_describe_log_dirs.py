"""DescribeLogDirs reports the sizes of the files on the disk."""

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeLogDirsRequest
from tests.support.asking import Server, answer
from tests.topics.data_plane import FOLDER, batch


def asked(**partitions):
    return [
        DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=numbers)
        for name, numbers in partitions.items()
    ]


def sizes(result):
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }


def test_sizes_are_those_of_requested_partitions_that_exist():
    server = Server()
    server.plane.create("t", 3)
    server.plane.create("u")
    data = batch(b"x" * 50)
    server.plane.produce(data, partition=1)
    (result,) = answer(server, "DescribeLogDirs", 5, topics=asked(t=[0, 1, 7], none=[0])).results
    assert sizes(result) == {("t", 0): 0, ("t", 1): len(data)}
    assert (result.error_code, result.log_dir, result.is_cordoned) == (ErrorCode.NONE, FOLDER, False)
    (result,) = answer(server, "DescribeLogDirs", 5, topics=None).results
    assert sizes(result) == {("t", 0): 0, ("t", 1): len(data), ("t", 2): 0, ("u", 0): 0}
    assert answer(server, "DescribeLogDirs", 1, topics=[]).results[0].topics == []


def test_free_and_total_space_are_reported():
    server = Server()
    server.plane.disk.capacity_bytes = server.plane.disk.used_bytes() + 1000
    (result,) = answer(server, "DescribeLogDirs", 4, topics=[]).results
    assert (result.total_bytes - server.plane.disk.used_bytes(), result.usable_bytes) == (1000, 1000)
