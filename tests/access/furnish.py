"""What a server has before its table is asked: rules, topics with records, groups with members and offsets, a transaction."""

from collections.abc import Iterable, Mapping

from tests.access import probes
from tests.access.asked import Asked
from tests.access.rules import creations
from tests.support.record_batch import Batch
from tests.support.waiting import wait_until
from tests.support.wire import Values

ROOT = "root"
"""The super user."""
TOPICS = {"mine": 2, "yours": 2, "team-a": 1, "team-b": 1, "public": 1, "written": 1}
SETTINGS = {
    "group.consumer.max.session.timeout.ms": "1800000",
    "group.consumer.session.timeout.ms": "1800000",
    "group.share.max.session.timeout.ms": "1800000",
    "group.share.session.timeout.ms": "1800000",
    "group.streams.max.session.timeout.ms": "1800000",
    "group.streams.session.timeout.ms": "1800000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.share.min.heartbeat.interval.ms": "5000",
    "group.share.heartbeat.interval.ms": "5000",
    "group.streams.heartbeat.interval.ms": "5000",
    "group.consumer.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "auto.create.topics.enable": "true",
    "num.partitions": "1",
    "delegation.token.secret.key": "key",
}
"""Members stay while the table is asked."""


def furnish(root: Asked, rules: Mapping[str, str], doomed: Iterable[str]) -> None:
    """`rules`: those of each user. `doomed`: more topics."""
    make_topics(root, TOPICS | dict.fromkeys(doomed, 1))
    wait_until(lambda: serves(root), "coordinators")
    make_rules(root, rules)
    for topic in ("mine", "yours"):
        records = [{"index": 0, "records": Batch(values=[b"1", b"2", b"3"]).encode()}]
        sent = {"acks": -1, "timeout_ms": 10_000, "topic_data": [{"name": topic, "partition_data": records}]}
        check(root.ask("Produce", 9, sent))
    for group in ("g-mine", "g-yours"):
        check(root.ask("OffsetCommit", 9, probes.commit(group, {"name": "mine"}, {"name": "yours"})))
    check(root.ask("CreateDelegationToken", 3, probes.TOKEN | {"owner_principal_name": "owner"}))
    make_members(root)
    for transactional_id in ("x-mine", "x-yours"):
        begin_transaction(root, transactional_id)


def check(answer: Values) -> Values:
    """The answer, in which no error may be."""

    def errors(value: object) -> Iterable[int]:
        if isinstance(value, dict):
            for key, each in value.items():
                yield from [each] if key == "error_code" else errors(each)
        elif isinstance(value, list):
            for each in value:
                yield from errors(each)

    assert not any(errors(answer)), answer
    return answer


def make_topics(root: Asked, counts: Mapping[str, int]) -> None:
    wanted = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in counts.items()]
    answer = check(root.link.call("CreateTopics", 7, topics=wanted, timeout_ms=60_000, within_s=60))
    root.names.update({each["topic_id"]: each["name"] for each in answer["topics"]})

    def lead() -> bool:
        asked = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in counts]
        found = root.link.call("ListOffsets", 7, replica_id=-1, topics=asked)
        return not any(each["partitions"][0]["error_code"] for each in found["topics"])

    wait_until(lead, "leaders")


def serves(root: Asked) -> bool:
    """Whether the internal topics exist and are loaded."""
    codes = [
        each["error_code"]
        for key_type in (0, 1)
        for each in root.link.call("FindCoordinator", 4, key_type=key_type, coordinator_keys=["ready"])["coordinators"]
    ]
    if not any(codes):
        codes += [
            root.link.call("InitProducerId", 1, transactional_id=each, transaction_timeout_ms=60_000)["error_code"]
            for each in (None, "ready")
        ]
        codes.append(root.link.call("DescribeGroups", 5, groups=["ready"])["groups"][0]["error_code"])
    return not any(codes)


def make_rules(root: Asked, rules: Mapping[str, str]) -> None:
    wanted = [each for user, text in rules.items() for each in creations(user, text)]
    for first in range(0, len(wanted), 500):
        check(root.link.call("CreateAcls", 3, creations=wanted[first : first + 500], within_s=60))


def make_members(root: Asked) -> None:
    """A member in each kind of group, for as long as the test takes."""
    wanted = probes.join("classic")
    joined = root.link.call("JoinGroup", 9, **wanted)
    joined = check(root.link.call("JoinGroup", 9, **wanted, member_id=joined["member_id"]))
    who = {"generation_id": joined["generation_id"], "member_id": joined["member_id"]}
    assigned = [{"member_id": joined["member_id"], "assignment": b"a"}]
    kind = {"protocol_type": "consumer", "protocol_name": "range"}
    check(root.link.call("SyncGroup", 5, group_id="classic", **who, **kind, assignments=assigned))
    check(root.ask("ConsumerGroupHeartbeat", 1, probes.consumer_heartbeat("consumer", "mine", "yours")))
    check(root.ask("StreamsGroupHeartbeat", 1, probes.streams_heartbeat("streams", "mine", "yours")))
    wait_until(lambda: has_partitions(root), "the share group to have its partitions")
    check(root.ask("AlterShareGroupOffsets", 0, probes.share_offsets("unused", "yours")))


def has_partitions(root: Asked) -> bool:
    """Whether the member of the share group reads both topics; in Kafka they are initialized one after the other."""
    answer = check(root.ask("ShareGroupHeartbeat", 1, probes.share_heartbeat("share", "mine", "yours")))
    return len(answer["assignment"]["topic_partitions"]) == 2


def begin_transaction(root: Asked, transactional_id: str) -> None:
    made = {"transactional_id": transactional_id, "transaction_timeout_ms": 900_000}
    own = check(root.link.call("InitProducerId", 4, **made))
    topics = [{"name": topic, "partitions": [0]} for topic in ("mine", "yours")]
    added = probes.add_partitions(transactional_id) | {
        "v3_and_below_producer_id": own["producer_id"],
        "v3_and_below_producer_epoch": own["producer_epoch"],
        "v3_and_below_topics": topics,
    }
    check(root.link.call("AddPartitionsToTxn", 3, **added))
    check(root.link.call("AddPartitionsToTxn", 3, **added))
