"""Requests about several resources, of which the user may use some; each user has the rules of one case and no others.

Resources are those of probes.py, and the topics team-a and team-b; missing and the like do not exist. Everybody may read
the topic public.
"""

import zlib
from collections.abc import Callable
from typing import NamedTuple

from tests.access import probes
from tests.access.asked import TopicId
from tests.access.probes import BROKER, GROUP, TOPIC
from tests.support.wire import Values

NAME, ID = "name", "topic_id"


class Case(NamedTuple):
    """A request of a user with these rules."""

    name: str
    rules: str
    api: str
    version: int
    ask: Callable[[str], Values]

    @property
    def user(self) -> str:
        """A name that no other case has."""
        return f"u-{zlib.crc32(self.name.encode()):08x}"


def names(*topics: str, field: str = NAME) -> list[Values]:
    return [{field: topic} for topic in topics]


def ids(*topics: str, field: str = ID) -> list[Values]:
    return [{field: TopicId(topic)} for topic in topics]


CASES: list[Case] = []
OPEN_CASES: list[Case] = []
"""Those of a server with allow.everyone.if.no.acl.found, on which somebody else has the rules OWNED."""
OWNED = "READ topic:mine; READ topic:team-*; !READ topic:yours; READ group:g-mine; WRITE txn:x-mine"


def case(name: str, rules: str, api: str, version: int, ask: Values | Callable[[str], Values]) -> None:
    CASES.append(Case(name, rules, api, version, ask if callable(ask) else lambda _: ask))


def open_case(name: str, rules: str, api: str, version: int, ask: Values) -> None:
    OPEN_CASES.append(Case(f"open: {name}", rules, api, version, lambda _: ask))


# fmt: off
READS_MINE = "READ group:g-mine; READ topic:mine"
THREE = names("yours", "mine", "missing")
THREE_IDS = ids("yours", "mine", "missing")

# --- commits ---
for version in (2, 5, 9):
    case(f"commit v{version} of three topics", READS_MINE, "OffsetCommit", version, probes.commit("g-mine", *THREE))
case("commit by id", READS_MINE, "OffsetCommit", 10, probes.commit("g-mine", *THREE_IDS))
case("commit, no topic", "READ group:g-mine", "OffsetCommit", 9, probes.commit("g-mine", *THREE))
case("commit by id, no topic", "READ group:g-mine", "OffsetCommit", 10, probes.commit("g-mine", *THREE_IDS))
case("commit, no group", "READ topic:mine", "OffsetCommit", 9, probes.commit("g-mine", *THREE))
case("commit by id, no group", "READ topic:mine", "OffsetCommit", 10, probes.commit("g-mine", *THREE_IDS))
case("commit of nothing", "READ topic:mine", "OffsetCommit", 9, probes.commit("g-mine"))
case("commit, missing topics", f"{READS_MINE}; READ topic:miss*", "OffsetCommit", 9, probes.commit("g-mine", *THREE))
case("commit in no group", "READ topic:mine; READ group:*", "OffsetCommit", 9, probes.commit("", *names("mine")))
case("commit of a member that is unknown", "READ group:classic; READ topic:mine", "OffsetCommit", 9,
    probes.commit("classic", *THREE, generation_id_or_member_epoch=1, member_id="nobody"))
case("commit of a member that is unknown, no topic", "READ group:classic", "OffsetCommit", 9,
    probes.commit("classic", *THREE, generation_id_or_member_epoch=1, member_id="nobody"))
case("commit of one topic twice", READS_MINE, "OffsetCommit", 9,
    probes.commit("g-mine", *names("mine", "yours", "mine", "yours")))

# --- fetches of offsets ---
SEES_MINE = "DESCRIBE group:g-mine; DESCRIBE topic:mine"
WANTED = [each | {"partition_indexes": [0, 9]} for each in THREE]
WANTED_IDS = [each | {"partition_indexes": [0, 9]} for each in THREE_IDS]
for version in (1, 5, 7):
    asked = {"group_id": "g-mine", "topics": WANTED}
    case(f"offsets v{version} of three topics", SEES_MINE, "OffsetFetch", version, asked)
    case(f"offsets v{version}, no group", "DESCRIBE topic:mine", "OffsetFetch", version, asked)
    if version > 1:
        case(f"offsets v{version} of all", SEES_MINE, "OffsetFetch", version, asked | {"topics": None})
TWO_GROUPS = [{"group_id": "g-yours"}, {"group_id": "g-mine"}, {"group_id": "g-missing"}]
for version, topics in ((8, WANTED), (9, WANTED), (10, WANTED_IDS)):
    asked = {"groups": [each | {"topics": topics} for each in TWO_GROUPS], "require_stable": version == 9}
    case(f"offsets v{version} of groups", SEES_MINE, "OffsetFetch", version, asked)
    everything = {"groups": [each | {"topics": None} for each in TWO_GROUPS]}
    case(f"offsets v{version} of groups, all", SEES_MINE, "OffsetFetch", version, everything)
case("offsets of missing topics", f"{SEES_MINE}; DESCRIBE topic:missing", "OffsetFetch", 7,
    {"group_id": "g-mine", "topics": WANTED})
case("offsets, no topic", "READ group:g-mine", "OffsetFetch", 8, {"groups": [{"group_id": "g-mine", "topics": WANTED}]})
case("offsets of a member that is unknown", "READ group:consumer; READ topic:mine", "OffsetFetch", 9,
    {"groups": [{"group_id": "consumer", "member_id": "nobody", "member_epoch": 3, "topics": WANTED}]})

# --- coordinators: what implies DESCRIBE, and what does not ---
for operation in ("READ", "DESCRIBE", "DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL"):
    case(f"coordinator with {operation.lower()}", f"{operation} group:g-mine", "FindCoordinator", 4,
        {"key_type": 0, "coordinator_keys": ["g-yours", "g-mine", ""]})
for operation in ("WRITE", "DESCRIBE"):
    case(f"coordinator of a transaction with {operation.lower()}", f"{operation} txn:x-mine", "FindCoordinator", 4,
        {"key_type": 1, "coordinator_keys": ["x-yours", "x-mine"]})
for version in (0, 2, 3):
    case(f"coordinator v{version}, no group", "", "FindCoordinator", version, {"key": "g-mine"})
case("coordinator of a share group", "READ group:g-mine", "FindCoordinator", 6,
    {"key_type": 2, "coordinator_keys": ["g"]})
case("coordinator of a share group, old", "", "FindCoordinator", 5, {"key_type": 2, "coordinator_keys": ["g"]})
case("coordinator of a bad type", "", "FindCoordinator", 4, {"key_type": 7, "coordinator_keys": ["g"]})

# --- groups ---
case("described groups", "DESCRIBE group:g-mine; READ group:classic; DESCRIBE_CONFIGS group:classic", "DescribeGroups",
    6, {"groups": ["g-yours", "classic", "g-mine", "g-missing"], "include_authorized_operations": True})
case("described groups, old", "DESCRIBE group:g-mine", "DescribeGroups", 5,
    {"groups": ["g-missing", "g-mine", "g-yours"], "include_authorized_operations": False})
case("described groups, some twice", "DESCRIBE group:g-mine", "DescribeGroups", 5,
    {"groups": ["g-mine", "g-yours", "g-mine", "g-yours"], "include_authorized_operations": False})
case("described group without operations", "DELETE group:g-mine; !DELETE group:g-*", "DescribeGroups", 5,
    {"groups": ["g-mine"], "include_authorized_operations": True})
case("listed groups", "READ group:g-mine; DESCRIBE group:cons*", "ListGroups", 5, {})
case("listed groups, by type", "DESCRIBE group:*", "ListGroups", 5, {"types_filter": ["streams"]})
case("listed groups, by state", "DESCRIBE group:*; !DESCRIBE group:g-mine", "ListGroups", 4,
    {"states_filter": ["Empty"]})
case("listed groups of the cluster", "ALTER cluster", "ListGroups", 5, {})
case("listed groups, cluster denied", "DESCRIBE cluster; !DESCRIBE cluster; READ group:classic", "ListGroups", 3, {})
case("deleted groups", "DELETE group:g-missing; DELETE group:classic; DESCRIBE group:g-mine", "DeleteGroups", 2,
    {"groups_names": ["g-mine", "g-missing", "classic", "g-yours"]})
case("deleted groups, some twice", "DELETE group:g-missing", "DeleteGroups", 2,
    {"groups_names": ["g-yours", "g-missing", "g-yours", "g-missing"]})
case("deleted offsets", "DELETE group:g-mine; READ topic:mine; READ topic:missing", "OffsetDelete", 0,
    {"group_id": "g-mine", "topics": probes.with_partitions("yours", "team-a", "missing", "mine", partition_index=1)})
case("deleted offsets, no topic", "DELETE group:g-mine", "OffsetDelete", 0,
    {"group_id": "g-mine", "topics": probes.with_partitions("yours", "missing")})
case("deleted offsets of a missing group, no topic", "DELETE group:g-missing", "OffsetDelete", 0,
    {"group_id": "g-missing", "topics": probes.with_partitions("yours")})
case("deleted offsets, no group", "READ topic:yours", "OffsetDelete", 0,
    {"group_id": "g-mine", "topics": probes.with_partitions("yours")})
case("join by prefix", "READ group:team-*", "JoinGroup", 5, lambda user: probes.join(f"team-{user}"))
case("join outside of a prefix", "READ group:team-*", "JoinGroup", 5, lambda user: probes.join(f"tea-{user}"))
case("join of a prefix's own name", "READ group:team-*", "JoinGroup", 9, lambda user: probes.join("team-"))
case("join without a group", "READ group:*", "JoinGroup", 9, lambda user: probes.join(""))
case("join without a group, denied", "", "JoinGroup", 9, lambda user: probes.join(""))
for version in (0, 3, 5):
    who = {"members": [{"member_id": "nobody"}]} if version > 2 else {"member_id": "nobody"}
    case(f"leave v{version} with describe", "DESCRIBE group:classic", "LeaveGroup", version,
        {"group_id": "classic"} | who)
case("sync of another protocol, denied", "", "SyncGroup", 5,
    {"group_id": "classic", "generation_id": 1, "member_id": "m", "protocol_type": "connect", "protocol_name": "p"})
case("sync without a protocol, denied", "", "SyncGroup", 5,
    {"group_id": "classic", "generation_id": 1, "member_id": "m"})

# --- consumer groups ---
case("consumer of two topics", "READ group:c-*; DESCRIBE topic:mine", "ConsumerGroupHeartbeat", 1,
    lambda user: probes.consumer_heartbeat(f"c-{user}", "mine", "yours"))
case("consumer of missing topics", "READ group:c-*; READ topic:miss*", "ConsumerGroupHeartbeat", 1,
    lambda user: probes.consumer_heartbeat(f"c-{user}", "missing"))
case("consumer of two topics, no group", "READ topic:*; DESCRIBE group:*", "ConsumerGroupHeartbeat", 0,
    lambda user: probes.consumer_heartbeat(f"c-{user}", "mine", "yours"))
case("consumer by pattern", "READ group:c-*; READ topic:mine; READ topic:team-a", "ConsumerGroupHeartbeat", 1,
    lambda user: probes.consumer_heartbeat(f"c-{user}", subscribed_topic_regex="mine|yours|team.*"))
case("consumer by a bad pattern", "READ group:c-*", "ConsumerGroupHeartbeat", 1,
    lambda user: probes.consumer_heartbeat(f"c-{user}", subscribed_topic_regex="("))
case("consumer by pattern and name", "READ group:c-*; READ topic:mine", "ConsumerGroupHeartbeat", 1,
    lambda user: probes.consumer_heartbeat(f"c-{user}", "yours", subscribed_topic_regex="mine"))
case("consumer without a group", "READ group:*", "ConsumerGroupHeartbeat", 1, probes.consumer_heartbeat("", "mine"))
case("consumer without a group, denied", "", "ConsumerGroupHeartbeat", 1, probes.consumer_heartbeat("", "mine"))
DESCRIBED = {"group_ids": ["g-yours", "consumer", "g-missing", "classic"], "include_authorized_operations": True}
case("described consumer groups",
    "DESCRIBE group:consumer; READ group:classic; DESCRIBE group:g-missing; DESCRIBE topic:*", "ConsumerGroupDescribe",
    1, DESCRIBED)
case("described consumer groups, one topic", "READ group:*; DESCRIBE topic:mine", "ConsumerGroupDescribe", 1, DESCRIBED)
case("described consumer groups, no topic", "READ group:*", "ConsumerGroupDescribe", 0,
    DESCRIBED | {"include_authorized_operations": False})
case("described consumer groups, one without a name", "READ group:*", "ConsumerGroupDescribe", 1,
    {"group_ids": ["", "g-yours"]})

# --- streams groups ---
STREAMS = "READ group:s-*; DESCRIBE topic:mine"


def streams(name: str, rules: str, *sources: str, **subtopology: object) -> None:
    case(name, rules, "StreamsGroupHeartbeat", 1,
        lambda user: probes.streams_heartbeat(f"s-{user}", *sources, **subtopology))


streams("streams of two topics", STREAMS, "mine", "yours")
streams("streams of a topic", STREAMS, "mine")
streams("streams of a missing topic", "READ group:s-*; DESCRIBE topic:*", "missing")
streams("streams of a topic, no group", "DESCRIBE topic:mine", "mine")
streams("streams of an internal topic", STREAMS, "__consumer_offsets")
streams("streams of a bad name", STREAMS, "bad name")
CHANGELOG = [{"name": "doomed-changelog-of-streams"}]
REPARTITIONED = [{"name": "doomed-repartition", "partitions": 2}]
streams("streams with a changelog, no topic", STREAMS, "mine", state_changelog_topics=CHANGELOG)
streams("streams with a changelog that it may describe", f"{STREAMS}; DESCRIBE topic:doomed-*", "mine",
    state_changelog_topics=CHANGELOG)
streams("streams with a changelog that it may create only", f"{STREAMS}; CREATE topic:doomed-*", "mine",
    state_changelog_topics=[{"name": "doomed-changelog-created"}])
streams("streams with topics that it may create", f"{STREAMS}; CREATE topic:doomed-*; DESCRIBE topic:doomed-*", "mine",
    repartition_source_topics=[{"name": "doomed-repartition-created", "partitions": 2}])
streams("streams with topics of the cluster", f"{STREAMS}; CREATE cluster; DESCRIBE topic:doomed-*", "mine",
    state_changelog_topics=[{"name": "doomed-changelog-of-cluster"}])
streams("streams with a source that it repartitions, no topic", STREAMS, "mine",
    repartition_source_topics=REPARTITIONED, repartition_sink_topics=["doomed-repartition"])
case("streams without a topology", "READ group:s-*", "StreamsGroupHeartbeat", 1,
    lambda user: probes.streams_heartbeat(f"s-{user}") | {"topology": None, "member_epoch": 1})
DESCRIBED_STREAMS = {"group_ids": ["g-yours", "streams", "g-missing", "classic"], "include_authorized_operations": True}
case("described streams groups", "DESCRIBE group:streams; DESCRIBE group:g-missing; DESCRIBE topic:*",
    "StreamsGroupDescribe", 1, DESCRIBED_STREAMS)
case("described streams groups, one without a name", "READ group:*", "StreamsGroupDescribe", 1,
    {"group_ids": ["", "g-yours"]})
case("share of two topics", "READ group:h-*; DESCRIBE topic:mine", "ShareGroupHeartbeat", 1,
    probes.share_heartbeat("h-two", "mine", "yours"))
case("share without a group", "READ group:*", "ShareGroupHeartbeat", 1, probes.share_heartbeat("", "mine"))
case("share without a member id", "READ topic:*", "ShareGroupHeartbeat", 1,
    probes.share_heartbeat("h-none", "mine") | {"member_id": ""})
case("described share groups, one topic", "READ group:*; DESCRIBE topic:mine", "ShareGroupDescribe", 1,
    {"group_ids": ["share", "", "g-missing"]})
case("described share groups, one group", "READ group:share; DESCRIBE topic:*", "ShareGroupDescribe", 1,
    {"group_ids": ["g-mine", "share"]})
case("described streams groups, one topic", "READ group:*; DESCRIBE topic:mine", "StreamsGroupDescribe", 1,
    DESCRIBED_STREAMS)

# --- records ---
for version in (3, 7, 9, 12):
    case(f"produce v{version} to topics", "WRITE topic:mine", "Produce", version, probes.produce(*THREE))
case("produce by id", "WRITE topic:mine", "Produce", 13, probes.produce(*THREE_IDS))
case("produce, no topic", "READ topic:mine", "Produce", 9, probes.produce(*names("mine", "missing")))
case("produce to missing topics", "WRITE topic:m*", "Produce", 9, probes.produce(*THREE))
case("produce with one ack", "WRITE topic:mine", "Produce", 9, probes.produce(*THREE, acks=1))
case("produce with bad acks", "WRITE topic:mine", "Produce", 9, probes.produce(*THREE, acks=3))
case("produce to an internal topic", "WRITE topic:*", "Produce", 9, probes.produce(*names("__consumer_offsets")))
case("produce with an idle transactional id", "WRITE topic:mine", "Produce", 9,
    probes.produce(*names("mine"), transactional_id="x-mine"))
case("produce without acks", "WRITE topic:mine", "Produce", 9, probes.produce(*names("mine", "yours"), acks=0))
case("produce without acks in a transaction", "WRITE topic:mine", "Produce", 9,
    probes.produce(*names("mine"), acks=0, transactional_id="x-mine", records=probes.TRANSACTIONAL_RECORDS))
for rule in (
    "WRITE txn:x-mine",
    "WRITE topic:mine",
    "WRITE topic:mine; DESCRIBE txn:x-mine",
    "WRITE topic:yours; WRITE txn:x-mine",
):
    case(f"produce in a transaction with {rule}", rule, "Produce", 9,
        probes.produce(*names("mine"), transactional_id="x-mine", records=probes.TRANSACTIONAL_RECORDS))
case("produce in a transaction without its id", "WRITE topic:mine; WRITE txn:*", "Produce", 9,
    probes.produce(*names("mine"), records=probes.TRANSACTIONAL_RECORDS))
case("produce idempotently", "WRITE topic:mine", "Produce", 9,
    probes.produce(*THREE, records=probes.IDEMPOTENT_RECORDS))
for version in (4, 7, 12):
    asked = probes.fetch(*names("yours", "mine", "missing", field="topic"))
    case(f"fetch v{version} of topics", "READ topic:mine", "Fetch", version, asked)
for version in (13, 17):
    case(f"fetch v{version} by id", "READ topic:mine", "Fetch", version, probes.fetch(*THREE_IDS))
case("fetch of missing topics", "READ topic:m*", "Fetch", 12,
    probes.fetch(*names("yours", "missing", "mine", field="topic")))
case("fetch as everybody", "", "Fetch", 12, probes.fetch(*names("public", "mine", field="topic")))
case("fetch as everybody but one", "!READ topic:public", "Fetch", 12, probes.fetch(*names("public", field="topic")))
case("fetch, no topic", "DESCRIBE topic:mine", "Fetch", 12, probes.fetch(*names("mine", field="topic")))
case("fetch by id, no topic", "DESCRIBE topic:mine", "Fetch", 17, probes.fetch(*ids("mine", "missing")))
case("fetch in a session", "READ topic:mine", "Fetch", 12,
    probes.fetch(*names("yours", "mine", field="topic"), session_epoch=0))
for rule in ("READ topic:mine", "CLUSTER_ACTION cluster"):
    case(f"fetch of a replica by {rule}", rule, "Fetch", 13, probes.fetch(*THREE_IDS, replica_id=1))
case("fetch of a replica, newer", "READ topic:*", "Fetch", 17,
    probes.fetch(*THREE_IDS, replica_state={"replica_id": 1, "replica_epoch": 1}))
for version in (1, 7, 10):
    asked = {"replica_id": -1, "topics": probes.with_partitions("yours", "mine", "missing", timestamp=-1)}
    case(f"end offsets v{version}", "READ topic:mine; DESCRIBE topic:missing", "ListOffsets", version, asked)
case("end offset of one partition twice", "READ topic:mine", "ListOffsets", 7, {"replica_id": -1,
    "topics": [{"name": "mine", "partitions": [{"partition_index": 0, "timestamp": -1}] * 2},
    *probes.with_partitions("yours", timestamp=-1)]})
for rule in ("", "READ topic:mine"):
    case(f"end offsets of an unknown isolation with {rule}", rule, "ListOffsets", 7,
        {"replica_id": -1, "isolation_level": 7, "topics": probes.with_partitions("yours", "mine", timestamp=-1)})
EPOCHS = [
    {"topic": topic, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 99}]}
    for topic in ("yours", "mine", "missing")
]
for rule in ("DESCRIBE topic:mine", "READ topic:miss*", "CLUSTER_ACTION cluster"):
    case(f"epochs with {rule}", rule, "OffsetForLeaderEpoch", 4, {"replica_id": -1, "topics": EPOCHS})
case("deleted records", "DELETE topic:mine; DELETE topic:missing", "DeleteRecords", 2,
    {"topics": probes.with_partitions("yours", "mine", "missing", "gone", offset=0), "timeout_ms": 10_000})
case("producers", "READ topic:team-a; DESCRIBE topic:yours; READ topic:missing", "DescribeProducers", 0,
    {"topics": [{"name": name, "partition_indexes": [0]} for name in ("yours", "team-a", "missing")]})
case("producers of a bad name", "READ topic:team-a; READ topic:missing", "DescribeProducers", 0,
    {"topics": [{"name": name, "partition_indexes": [0]} for name in ("yours", "team-a", "bad name", "missing")]})

# --- metadata ---
OPERATIONS = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
NO_NEW = {"allow_auto_topic_creation": False}
for version in (0, 1, 4, 8, 9, 12):
    more = (NO_NEW if version >= 4 else {}) | ({"include_topic_authorized_operations": True} if version >= 8 else {})
    rules_ = "READ topic:mine; ALTER topic:mine; DESCRIBE topic:missing; !READ topic:team-a; READ topic:team-*"
    case(f"metadata v{version} of topics", rules_, "Metadata", version,
        {"topics": [*THREE, *names("team-a", "gone")]} | more)
    everything = [] if version == 0 else None
    case(f"metadata v{version} of all", rules_, "Metadata", version, {"topics": everything} | more)
case("metadata by id", "DESCRIBE topic:mine", "Metadata", 12,
    {"topics": [{"name": None} | each for each in THREE_IDS], **NO_NEW, "include_topic_authorized_operations": True})
for rule in ("DESCRIBE cluster; CREATE cluster", "CREATE cluster", "ALL cluster; !ALTER cluster", "ALTER cluster"):
    case(f"metadata with {rule}", rule, "Metadata", 9, {"topics": []} | OPERATIONS)
    case(f"cluster with {rule}", rule, "DescribeCluster", 1, {"include_cluster_authorized_operations": True})
case("cluster without operations", "", "DescribeCluster", 1, {"include_cluster_authorized_operations": False})
case("cluster of controllers", "", "DescribeCluster", 1, {"endpoint_type": 2})
CREATES = {"topics": names("mine", "new one", "missing"), "allow_auto_topic_creation": True}
case("metadata creates nothing", "DESCRIBE topic:*", "Metadata", 9, CREATES)
case("metadata creates what it may not describe", "CREATE topic:*; DESCRIBE topic:mine", "Metadata", 9, CREATES)
case("metadata creates, bad name", "CREATE cluster; DESCRIBE topic:*", "Metadata", 9,
    {"topics": names("mine", "new one"), "allow_auto_topic_creation": True})
case("metadata of topics that nobody may have", "DESCRIBE topic:bad*", "Metadata", 9,
    {"topics": names("__consumer_offsets", "bad name", "missing")} | NO_NEW)
case("metadata of internal topics", "DESCRIBE topic:__*", "Metadata", 9, {"topics": None} | OPERATIONS)
PAGES = {"topics": names("missing", "yours", "mine", "team-a"), "response_partition_limit": 2}
case("partitions of topics", "DESCRIBE topic:mine; READ topic:team-a; DESCRIBE topic:missing",
    "DescribeTopicPartitions", 0, PAGES)
case("partitions of topics, the next one denied", "DESCRIBE topic:mine", "DescribeTopicPartitions", 0,
    PAGES | {"topics": names("mine", "yours")})
case("partitions of all topics", "DESCRIBE topic:mine; READ topic:team-a", "DescribeTopicPartitions", 0,
    PAGES | {"topics": []})
case("partitions from a cursor", "DESCRIBE topic:mine; READ topic:team-a", "DescribeTopicPartitions", 0,
    PAGES | {"cursor": {"topic_name": "mine", "partition_index": 1}})
case("partitions from a cursor, denied", "READ topic:team-a", "DescribeTopicPartitions", 0,
    PAGES | {"cursor": {"topic_name": "mine", "partition_index": 1}})

# --- topics ---
for version in (2, 4, 7):
    case(f"create v{version} topics", "CREATE topic:new-*", "CreateTopics", version,
        probes.create_topics("other", "new-one", "mine", "bad name"))
case("create topics, existing ones", "CREATE topic:mine; CREATE topic:bad*", "CreateTopics", 7,
    probes.create_topics("yours", "mine", "bad name"))
case("create topics, configs seen", "CREATE topic:new-*; DESCRIBE_CONFIGS topic:new-one", "CreateTopics", 7,
    probes.create_topics("new-one", "new-two", configs=[{"name": "retention.ms", "value": "7"}]))
case("create topics of the cluster", "CREATE cluster; !CREATE topic:*", "CreateTopics", 7,
    probes.create_topics("new-one", "mine"))
case("create topics of Kafka's own names", "CREATE topic:new-*", "CreateTopics", 7,
    probes.create_topics("__cluster_metadata", "other", "new-one"))
case("create one topic twice", "CREATE topic:new-one", "CreateTopics", 7,
    probes.create_topics("other", "new-one", "other", "new-one"))
case("create a topic for real", "CREATE topic:doomed-*", "CreateTopics", 7,
    lambda user: probes.create_topics(f"doomed-new-{user}", "other", validate_only=False))
GONE = {"timeout_ms": 10_000}
for version in (1, 5):
    case(f"delete v{version} topics", "DELETE topic:doomed-*; DESCRIBE topic:mine; DELETE topic:missing",
        "DeleteTopics", version,
        lambda user: {"topic_names": ["yours", f"doomed-{user}", "mine", "missing", "gone"]} | GONE)
case("delete topics by name", "DELETE topic:doomed-*; DESCRIBE topic:mine; DELETE topic:missing", "DeleteTopics", 6,
    lambda user: {"topics": names("yours", f"doomed-{user}", "mine", "missing", "gone")} | GONE)
case("delete topics by id", "DELETE topic:doomed-*; DESCRIBE topic:mine", "DeleteTopics", 6,
    lambda user: ({"topics": [{"name": None} | each for each in ids("yours", f"doomed-{user}", "mine",
    "missing")]} | GONE))
case("delete topics of the cluster", "DELETE cluster; !DELETE topic:*", "DeleteTopics", 6,
    lambda user: {"topics": names(f"doomed-{user}", "missing")} | GONE)
case("delete one topic twice", "DESCRIBE topic:*", "DeleteTopics", 6,
    {"topics": [*names("mine", "yours", "mine"), {"name": None, "topic_id": TopicId("yours")}]} | GONE)
case("delete one topic by name and id", "DELETE topic:doomed-*", "DeleteTopics", 6, lambda user: {"topics": [
    *names("yours", f"doomed-{user}"),
    *({"name": None} | each for each in ids("yours", f"doomed-{user}"))]} | GONE)
case("more partitions", "ALTER topic:mine; ALTER topic:missing; DESCRIBE topic:yours", "CreatePartitions", 3,
    {"topics": [{"name": name, "count": 3} for name in ("yours", "mine", "missing", "gone")], "timeout_ms": 10_000,
    "validate_only": True})
case("more partitions of one topic twice", "ALTER topic:mine", "CreatePartitions", 3,
    {"topics": [{"name": name, "count": 3} for name in ("yours", "mine", "yours", "mine")], "timeout_ms": 10_000,
    "validate_only": True})

# --- configs ---
EACH = ((TOPIC, "yours"), (TOPIC, "mine"), (BROKER, "1"), (GROUP, "g-mine"), (TOPIC, "missing"), (GROUP, "g-yours"))
case("configs, half", "DESCRIBE_CONFIGS topic:mine; DESCRIBE_CONFIGS group:g-mine; DESCRIBE_CONFIGS topic:missing",
    "DescribeConfigs", 4, probes.describe_configs(*EACH))
case("configs, old, half", "DESCRIBE_CONFIGS topic:mine; DESCRIBE_CONFIGS cluster", "DescribeConfigs", 1,
    probes.describe_configs(*EACH))
case("configs with alter", "ALTER_CONFIGS topic:mine; ALTER_CONFIGS cluster", "DescribeConfigs", 4,
    probes.describe_configs(*EACH[:3]))
case("configs of all brokers, denied", "", "DescribeConfigs", 4, probes.describe_configs((BROKER, "")))
case("configs of a bad type, denied", "", "DescribeConfigs", 4,
    {"resources": [{"resource_type": 77, "resource_name": "x", "configuration_keys": None}]})
for kind, name, keys in ((8, "1", ["root"]), (16, "metrics", [])):
    for rule in ("", "DESCRIBE_CONFIGS cluster"):
        case(f"configs of type {kind} with {rule}", rule, "DescribeConfigs", 4,
            {"resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}]})
ALTERED = ((TOPIC, "yours"), (TOPIC, "mine"), (BROKER, "7"), (GROUP, "g-mine"), (TOPIC, "missing"), (GROUP, "g-yours"))
CHANGES_SOME = "ALTER_CONFIGS topic:mine; ALTER_CONFIGS group:g-mine; ALTER_CONFIGS topic:missing"
case("alter configs, half", CHANGES_SOME, "AlterConfigs", 2, probes.alter_configs(*ALTERED))
case("alter configs increments, half", CHANGES_SOME, "IncrementalAlterConfigs", 1, probes.alter_configs(*ALTERED))
case("alter configs, group denied", "ALTER_CONFIGS topic:*; !ALTER_CONFIGS topic:yours", "IncrementalAlterConfigs", 1,
    probes.alter_configs(*ALTERED[:2], *ALTERED[3:]))
case("alter configs of one topic twice", "ALTER_CONFIGS topic:mine", "IncrementalAlterConfigs", 1,
    probes.alter_configs(*ALTERED[:2], *ALTERED[:2]))
case("alter configs of a bad type, denied", "", "IncrementalAlterConfigs", 1,
    {"resources": [{"resource_type": 77, "resource_name": "x", "configs": []}], "validate_only": True})
LOGGER = {
    "resources": [{"resource_type": 8, "resource_name": "1", "configs": [{"name": "root", "value": "INFO"}]}],
    "validate_only": True,
}
case("alter log levels, denied", "", "IncrementalAlterConfigs", 1, LOGGER)
case("alter log levels and metrics, denied", "", "IncrementalAlterConfigs", 1, {"resources": [
    *LOGGER["resources"], {"resource_type": 8, "resource_name": "7", "configs": []},
    {"resource_type": 16, "resource_name": "metrics", "configs": [{"name": "interval.ms", "value": "1000"}]}]})
WRONG = {
    "a": [{"name": "retention.ms", "value": None}], "b": [{"name": "retention.ms", "value": "1"}] * 2,
    "c": [{"name": "retention.ms", "value": "1", "config_operation": 9}], "d": [],
}
case("alter configs that are wrong in themselves, denied", "", "IncrementalAlterConfigs", 1, {"resources": [
    *({"resource_type": TOPIC, "resource_name": name, "configs": configs} for name, configs in WRONG.items()),
    *[{"resource_type": TOPIC, "resource_name": "e", "configs": []}] * 2]})
case("config resources, denied", "DESCRIBE cluster", "ListConfigResources", 1, {"resource_types": [GROUP]})

# --- transactions ---
case("transactional producer, denied", "IDEMPOTENT_WRITE cluster; DESCRIBE txn:x-mine", "InitProducerId", 4,
    probes.producer("x-mine"))
case("producer without a name, denied", "WRITE txn:*", "InitProducerId", 4, probes.producer(""))
for rules_ in (
    "WRITE topic:mine",
    "WRITE topic:mi*",
    "WRITE topic:*",
    "ALL topic:mine",
    "READ topic:mine",
    "WRITE topic:mine; !WRITE topic:mine",
    "WRITE topic:mine; !WRITE topic:mi*",
    "WRITE topic:mi*; !WRITE topic:mine",
    "WRITE topic:mi*; !WRITE topic:m*",
    "WRITE topic:m*; !WRITE topic:mi*",
    "WRITE topic:*; !WRITE topic:mine",
    "WRITE topic:*; !WRITE topic:*",
    "WRITE topic:mine; !WRITE topic:*",
    "WRITE topic:mine; !ALL topic:*",
    "WRITE topic:mine; !READ topic:*",
    "WRITE topic:mine; !WRITE topic:* @10.0.0.1",
    "WRITE topic:mine @10.0.0.1",
    "WRITE topic:mine; WRITE topic:yours; !WRITE topic:mine",
    "IDEMPOTENT_WRITE cluster; !WRITE topic:*",
    "!IDEMPOTENT_WRITE cluster; WRITE topic:mine",
    "WRITE group:mine",
    "ALL cluster; !IDEMPOTENT_WRITE cluster",
):
    case(f"producer with {rules_}", rules_, "InitProducerId", 4, probes.producer(None))
case("added partitions, half", "WRITE txn:x-mine; WRITE topic:mine; WRITE topic:missing", "AddPartitionsToTxn", 3,
    probes.add_partitions("x-mine", "yours", "mine", "missing", "gone"))
case("added partitions, missing ones", "WRITE txn:x-mine; WRITE topic:m*", "AddPartitionsToTxn", 3,
    probes.add_partitions("x-mine", "mine", "missing"))
case("added partitions, internal", "WRITE txn:x-mine; WRITE topic:*", "AddPartitionsToTxn", 3,
    probes.add_partitions("x-mine", "mine", "__consumer_offsets"))
case("added partitions, transaction denied", "DESCRIBE txn:x-mine; WRITE topic:mine", "AddPartitionsToTxn", 3,
    probes.add_partitions("x-mine", "yours", "mine"))
case("added partitions of transactions", "WRITE txn:*; WRITE topic:*", "AddPartitionsToTxn", 5,
    probes.add_partitions_for_all("x-mine", "x-yours"))
for topic in ("__consumer_offsets", "__transaction_state"):
    case(f"{topic} added to a transaction", "CLUSTER_ACTION cluster; WRITE topic:*", "AddPartitionsToTxn", 5,
        {"transactions": [probes.in_transaction("x-mine", topics=[{"name": topic, "partitions": [0]}])]})
for rules_ in (
    "WRITE txn:x-mine",
    "READ group:g-mine",
    "WRITE txn:x-mine; DESCRIBE group:g-mine",
    "WRITE txn:x-mine; READ group:g-mine",
):
    case(f"offsets in a transaction with {rules_}", rules_, "AddOffsetsToTxn", 4,
        probes.in_transaction("x-mine", group_id="g-mine"))
for version in (0, 3, 5):
    for rules_ in (
        "WRITE txn:x-mine; READ topic:mine",
        f"{READS_MINE}; DESCRIBE txn:x-mine",
        "WRITE txn:x-mine; READ group:g-mine",
        f"WRITE txn:x-mine; {READS_MINE}",
        f"WRITE txn:x-mine; {READS_MINE}; READ topic:missing",
    ):
        case(f"transactional commit v{version} with {rules_}", rules_, "TxnOffsetCommit", version,
            probes.txn_commit("x-mine", "g-mine", "yours", "mine", "missing"))
case("end of a transaction with describe", "DESCRIBE txn:x-mine", "EndTxn", 5,
    probes.in_transaction("x-mine", committed=True))
case("end of a missing transaction, denied", "", "EndTxn", 3, probes.in_transaction("x-missing", committed=True))
case("described transactions", "DESCRIBE txn:x-mine; DESCRIBE topic:mine; WRITE txn:x-missing", "DescribeTransactions",
    0, {"transactional_ids": ["x-yours", "x-mine", "x-missing", ""]})
case("described transactions, some twice", "DESCRIBE txn:x-mine; DESCRIBE topic:*", "DescribeTransactions", 0,
    {"transactional_ids": ["x-mine", "x-yours", "x-mine", "x-yours"]})
case("described transactions, no topic", "WRITE txn:x-*", "DescribeTransactions", 0,
    {"transactional_ids": ["x-yours", "x-mine"]})
case("listed transactions", "WRITE txn:x-mine", "ListTransactions", 2, {})
case("listed transactions, by state", "DESCRIBE txn:*; !DESCRIBE txn:x-mine", "ListTransactions", 0,
    {"state_filters": ["Ongoing", "Odd"]})
for rules_ in ("", "ALTER cluster", "CLUSTER_ACTION cluster", "ALTER cluster; !ALTER cluster; CLUSTER_ACTION cluster"):
    case(f"markers with {rules_}", rules_, "WriteTxnMarkers", 1, probes.write_markers("written", "missing"))

# --- the cluster ---
case("leaders of all, denied", "", "ElectLeaders", 2,
    {"election_type": 0, "topic_partitions": None, "timeout_ms": 10_000})
for rules_ in ("", "ALTER cluster"):
    case(f"leaders v0 with {rules_}", rules_, "ElectLeaders", 0,
        {"topic_partitions": [{"topic": "mine", "partitions": [0]}], "timeout_ms": 10_000})
    case(f"reassignment with {rules_}", rules_, "AlterPartitionReassignments", 0,
        {"topics": probes.with_partitions("mine", "missing", replicas=None), "timeout_ms": 10_000})
    case(f"no reassignment with {rules_}", rules_, "AlterPartitionReassignments", 1,
        {"topics": [], "timeout_ms": 10_000})
    case(f"replicas with {rules_}", rules_, "AlterReplicaLogDirs", 1, {"dirs": [{"path": "/nowhere",
        "topics": [{"name": "mine", "partitions": [0]}, {"name": "missing", "partitions": [0, 1]}]}]})
    case(f"credentials with {rules_}", rules_, "AlterUserScramCredentials", 0,
        {"deletions": [{"name": "a", "mechanism": 1}, {"name": "b", "mechanism": 9}], "upsertions": []})
for rules_ in ("", "DESCRIBE cluster", "ALTER cluster"):
    case(f"reassignments with {rules_}", rules_, "ListPartitionReassignments", 0,
        {"topics": [{"name": "mine", "partition_indexes": [0]}], "timeout_ms": 10_000})
    case(f"folders v1 with {rules_}", rules_, "DescribeLogDirs", 1, {"topics": [{"topic": "mine", "partitions": [0]}]})
    case(f"described credentials with {rules_}", rules_, "DescribeUserScramCredentials", 0,
        {"users": [{"name": "a"}, {"name": "a"}]})
    case(f"quorum with {rules_}", rules_, "DescribeQuorum", 1,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]})

# --- rules ---
BEATS = {"group_id": "classic", "generation_id": 1, "member_id": "nobody"}
for rules_ in (
    "READ group:classic @127.0.0.1",
    "READ group:classic @10.0.0.1",
    "READ group:classic; !READ group:classic @127.0.0.1",
    "READ group:classic; !READ group:classic @10.0.0.1",
    "READ group:class*",
    "READ group:classical*",
    "READ group:classic*",
    "READ group:CLASSIC",
    "ALL group:classic",
    "READ group:*",
    "READ group:*; !READ group:classic",
    "READ group:*; !READ group:cl*",
    "READ group:*; !ALL group:*",
    "READ group:classic; !DESCRIBE group:classic",
    "READ group:classic; !DELETE group:classic",
    "READ topic:classic",
):
    case(f"heartbeat with {rules_}", rules_, "Heartbeat", 4, BEATS)
for rules_ in (
    "READ group:classic; !DESCRIBE group:classic",
    "DESCRIBE group:classic; !READ group:classic",
    "READ group:classic; !READ group:classic",
    "!DELETE group:classic; READ group:classic; ALL group:classic",
):
    case(f"described group with {rules_}", rules_, "DescribeGroups", 5,
        {"groups": ["classic"], "include_authorized_operations": True})

# --- allow.everyone.if.no.acl.found ---
open_case("fetch", "", "Fetch", 12, probes.fetch(*names("public", "mine", "team-a", "yours", "missing", field="topic")))
open_case("metadata", "", "Metadata", 9, {"topics": names("public", "mine", "team-a", "yours")} | NO_NEW | OPERATIONS)
open_case("metadata of all", "", "Metadata", 9, {"topics": None} | NO_NEW)
open_case("heartbeat", "", "Heartbeat", 4, BEATS)
open_case("heartbeat of another's group", "", "Heartbeat", 4, BEATS | {"group_id": "g-mine"})
open_case("groups", "", "ListGroups", 5, {})
open_case("coordinators", "", "FindCoordinator", 4, {"key_type": 1, "coordinator_keys": ["x-mine", "x-yours"]})
open_case("cluster", "", "DescribeCluster", 1, {"include_cluster_authorized_operations": True})
open_case("producer", "", "InitProducerId", 4, probes.producer(None))
open_case("producer, one topic denied", "!WRITE topic:team-z", "InitProducerId", 4, probes.producer(None))
open_case("new topics", "", "CreateTopics", 7, probes.create_topics("new-one", "team-new", "mine"))
open_case("rules", "", "DescribeAcls", 3, probes.rule_filter("User:somebody"))
