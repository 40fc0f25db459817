"""Which API is answered here and which is forwarded, in which versions, and what ApiVersions says about it.

Groups and offsets are ours, with our versions. All else is the broker's, with the versions of the broker. Some versions are
left out, because their responses carry the addresses of brokers:

    Fetch 16 and later           name the new leader and its address; earlier ones name its id, and clients ask for Metadata
    DescribeQuorum 2 and later   list the listeners of the controllers

APIs that are not in this file are hidden. Share groups are not served, so their APIs are hidden, too; so are delegation tokens,
which a client of these listeners could not use.
"""

from collections.abc import Mapping

from coordinator.groups.kinds import Kind
from coordinator.protocol.messages import ApiVersionsResponse

Versions = Mapping[int, tuple[int, int]]

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 3, 10, 18
LIST_GROUPS, DESCRIBE_CLUSTER, LIST_TRANSACTIONS = 16, 60, 66
DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS, LIST_CONFIG_RESOURCES = 32, 33, 44, 74

OURS = frozenset({8, 9, 11, 12, 13, 14, 15, LIST_GROUPS, 17, API_VERSIONS, 28, 36, 42, 47, 68, 69, 88, 89})
"""Groups, offsets, authentication, versions."""
OF_GROUPS_OR_NOT = frozenset(
    {FIND_COORDINATOR, DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS, LIST_CONFIG_RESOURCES}
)
"""Ours if the request is about groups."""

FORWARDED = {
    PRODUCE: "Produce", FETCH: "Fetch", 2: "ListOffsets", METADATA: "Metadata", FIND_COORDINATOR: "FindCoordinator",
    19: "CreateTopics", 20: "DeleteTopics", 21: "DeleteRecords", 22: "InitProducerId", 23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn", 25: "AddOffsetsToTxn", 26: "EndTxn", 27: "WriteTxnMarkers",
    29: "DescribeAcls", 30: "CreateAcls", 31: "DeleteAcls",
    DESCRIBE_CONFIGS: "DescribeConfigs", ALTER_CONFIGS: "AlterConfigs", 34: "AlterReplicaLogDirs", 35: "DescribeLogDirs",
    37: "CreatePartitions", 43: "ElectLeaders", INCREMENTAL_ALTER_CONFIGS: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments", 46: "ListPartitionReassignments",
    48: "DescribeClientQuotas", 49: "AlterClientQuotas",
    50: "DescribeUserScramCredentials", 51: "AlterUserScramCredentials", 55: "DescribeQuorum", 57: "UpdateFeatures",
    DESCRIBE_CLUSTER: "DescribeCluster", 61: "DescribeProducers", 64: "UnregisterBroker", 65: "DescribeTransactions",
    LIST_TRANSACTIONS: "ListTransactions", 71: "GetTelemetrySubscriptions", 72: "PushTelemetry",
    LIST_CONFIG_RESOURCES: "ListConfigResources", 75: "DescribeTopicPartitions",
}  # fmt: skip
"""What brokers answer: API key -> name."""
CHANGE_TOPICS = frozenset({19, 20, 37})
"""After these the topics are looked up at once."""
_LAST = {
    PRODUCE: 13, FETCH: 15, METADATA: 13, FIND_COORDINATOR: 6, DESCRIBE_CONFIGS: 4, ALTER_CONFIGS: 2,
    INCREMENTAL_ALTER_CONFIGS: 1, 55: 1, DESCRIBE_CLUSTER: 2, LIST_CONFIG_RESOURCES: 1,
}  # fmt: skip
"""The last version that is forwarded, of APIs whose requests or responses are read here."""
GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION = "group.version", "share.version", "streams.version"


def forwarded(brokers: Versions) -> dict[int, tuple[int, int]]:
    """The versions that are forwarded, of what a broker offers."""
    versions = {key: (low, min(high, _LAST.get(key, high))) for key, (low, high) in brokers.items() if key in FORWARDED}
    return {key: (low, high) for key, (low, high) in versions.items() if low <= high}


def common(brokers: list[Versions]) -> dict[int, tuple[int, int]]:
    """The versions that all these brokers have."""
    if not brokers:
        return {}
    first, *others = brokers
    shared = {
        key: (
            max(low, *(other[key][0] for other in others), low),
            min(high, *(other[key][1] for other in others), high),
        )
        for key, (low, high) in first.items()
        if all(key in other for other in others)
    }
    return {key: (low, high) for key, (low, high) in shared.items() if low <= high}


def offered(ours: Versions, brokers: Versions) -> dict[int, tuple[int, int]]:
    """What clients may send: `ours`, and what is forwarded of what the brokers offer."""
    versions = forwarded(brokers) | {key: ours[key] for key in OURS if key in ours}
    for key in OF_GROUPS_OR_NOT & versions.keys() & ours.keys():
        low, high = max(versions[key][0], ours[key][0]), min(versions[key][1], ours[key][1])
        versions[key] = (low, high)
    return dict(sorted(versions.items()))


def add_features(response: ApiVersionsResponse, broker: ApiVersionsResponse, protocols: tuple[str, ...]) -> None:
    """Adds the features of the broker, but those of groups as this server has them. `protocols`: the group protocols served."""
    levels = {
        GROUP_VERSION: int(Kind.CONSUMER.label in protocols),
        STREAMS_VERSION: int(Kind.STREAMS.label in protocols),
        SHARE_VERSION: 0,
    }
    response.supported_features = [each for each in broker.supported_features if levels.get(each.name, 1)]
    response.finalized_features_epoch = broker.finalized_features_epoch
    finalized = [each for each in broker.finalized_features if each.name not in levels]
    finalized += [
        ApiVersionsResponse.FinalizedFeatureKey(name, level, level) for name, level in levels.items() if level
    ]
    response.finalized_features = finalized
