"""Classic and consumer groups: topics that change while they are read."""

from coordinator_testing.certify.event import Allows, Source, event
from coordinator_testing.certify.stage import Stage

_METADATA = Source(
    "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator.rejoinNeededOrPending",
    "the leader joins again when the metadata of its topics has changed since the last assignment",
)
_TOPIC_ID = Source(
    "KIP-516", "a topic that was deleted and made again is another topic; its offsets mean nothing for it"
)


@event(
    "partitions-added",
    protocols=("classic", "consumer"),
    happens="The topic grows by one partition for each instance.",
    right_client="assigns and reads the new partitions when it refreshes its metadata",
    provoked="CreatePartitions; NOT_LEADER_OR_FOLLOWER to a Fetch of each instance, so that all refresh their metadata; "
    "a forced rebalance",
    sources=(_METADATA,),
    allows=Allows(rebalances=3),
)
async def partitions_added(stage: Stage) -> None:
    await stage.add_partitions(stage.producer.partitions + len(stage.instances))
    mark = stage.mark()
    faults = [await stage.fault(each, api="Fetch", error="NOT_LEADER_OR_FOLLOWER") for each in stage.instances]
    for instance, fault in zip(stage.instances, faults, strict=True):
        await stage.acted(fault)
        await stage.request("Metadata", instance, since=mark)
    await stage.rebalance()
    await stage.progress()


@event(
    "topic-recreated",
    protocols=("classic", "consumer"),
    happens="The topic is read to its end, deleted, and made again with the same name.",
    right_client="reads the new topic from its beginning",
    provoked="DeleteTopics and CreateTopics",
    sources=(_TOPIC_ID,),
    allows=Allows(rebalances=None, stall_s=45),
)
async def topic_recreated(stage: Stage) -> None:
    await stage.recreate_topic()
    await stage.progress()


EVENTS = (partitions_added, topic_recreated)
