"""DescribeQuorum reports how much of the metadata log is durable."""

from coordinator.protocol.messages import DescribeQuorumRequest
from tests.support.asking import Server, answer
from tests.topics.data_plane import NOW_MS


def described(server):
    asked = DescribeQuorumRequest.TopicData(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)]
    )
    return answer(server, "DescribeQuorum", 2, topics=[asked]).topics[0].partitions[0]


def test_the_high_watermark_is_behind_the_last_durable_record():
    server = Server()
    server.plane.create("t", 3)
    before = described(server)
    assert before.high_watermark == before.current_voters[0].log_end_offset > 3
    server.plane.late = True
    server.plane.create("u", 2)
    server.plane.create("v", 2)
    during = described(server)
    assert during.high_watermark == before.high_watermark
    assert during.current_voters[0].log_end_offset > during.high_watermark
    server.plane.sync()
    after = described(server)
    assert after.high_watermark == after.current_voters[0].log_end_offset > before.high_watermark


def test_the_one_voter_has_just_fetched():
    partition = described(Server())
    (voter,) = partition.current_voters
    assert (partition.leader_id, voter.replica_id, partition.observers) == (1, 1, [])
    assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (NOW_MS, NOW_MS)
