"""The features of the cluster and their levels (KIP-584; Kafka: `FeatureControlManager`).

    group.version         1: members may use the consumer protocol
    share.version         1: there are share groups; 2: and their dead-letter queues
    streams.version       1: there are streams groups
    transaction.version   the transaction protocol (TransactionsConfig)
    metadata.version      that of the records in the metadata log, always the same

A level is the configuration's until a client sets it by UpdateFeatures; that is kept in the metadata log. A level that needs a
group protocol which the configuration leaves out is 0.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coordinator.config.settings import ServerConfig
from coordinator.groups.kinds import Kind
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import FeatureLevelRecord
from coordinator.protocol.releases import Release
from coordinator.topics.registry import Registry

GROUP_VERSION, METADATA_VERSION = "group.version", "metadata.version"
SHARE_VERSION, STREAMS_VERSION, TRANSACTION_VERSION = "share.version", "streams.version", "transaction.version"
METADATA_LEVEL = 33
"""IBP_4_4_IV0, as of Kafka 4.4.0."""
SUPPORTED: Mapping[str, tuple[int, int]] = {
    GROUP_VERSION: (0, 1),
    METADATA_VERSION: (METADATA_LEVEL, METADATA_LEVEL),
    SHARE_VERSION: (0, 2),
    STREAMS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
_OF_KIND = {Kind.CONSUMER: GROUP_VERSION, Kind.STREAMS: STREAMS_VERSION, Kind.SHARE: SHARE_VERSION}
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""Kafka's codes of `FeatureUpdate.UpgradeType`."""
_FAILED = "The update failed for all features since the following feature had an error: "


class Update(NamedTuple):
    """What a client asks of one feature."""

    name: str
    level: int
    upgrade_type: int


def serves(config: ServerConfig, registry: Registry, kind: Kind) -> bool:
    """Whether members may use the protocol of this kind of group. For share groups the feature alone decides, as in Kafka."""
    is_configured = kind is Kind.SHARE or kind.label in config.groups.group_coordinator_rebalance_protocols
    return is_configured and registry.feature_levels.get(_OF_KIND[kind], 1) > 0


def has_dead_letters(registry: Registry) -> bool:
    """Whether share groups can have dead-letter queues."""
    latest = SUPPORTED[SHARE_VERSION][1]
    return registry.feature_levels.get(SHARE_VERSION, latest) >= latest


def supported(release: Release | None) -> Mapping[str, tuple[int, int]]:
    """The features, and the levels that clients of an emulated release may set; None: of this server.

    The level of the metadata is the server's own; so it stays where the release has it.
    """
    if release is None:
        return SUPPORTED
    levels = release.feature_levels
    return {
        name: (levels[name], levels[name]) if name == METADATA_VERSION else each
        for name, each in release.supported_features.items()
    }


def levels_as(release: Release | None, config: ServerConfig, registry: Registry) -> dict[str, int]:
    """The finalized levels as clients of an emulated release see them: no feature and no level that it does not have."""
    own = levels(config, registry)
    return {name: min(own[name], last) for name, (_, last) in supported(release).items()}


def levels(config: ServerConfig, registry: Registry) -> dict[str, int]:
    """The finalized level of each feature; 0 counts as not finalized."""
    set_by_clients = registry.feature_levels
    return {
        GROUP_VERSION: int(serves(config, registry, Kind.CONSUMER)),
        METADATA_VERSION: METADATA_LEVEL,
        SHARE_VERSION: set_by_clients.get(SHARE_VERSION, SUPPORTED[SHARE_VERSION][1]),
        STREAMS_VERSION: int(serves(config, registry, Kind.STREAMS)),
        TRANSACTION_VERSION: set_by_clients.get(TRANSACTION_VERSION, config.transactions.transaction_version),
    }


def plan(
    now: Mapping[str, int], updates: Iterable[Update], node_id: int, ranges: Mapping[str, tuple[int, int]] = SUPPORTED
) -> list[FeatureLevelRecord]:
    """The records of all updates. `now`: the levels; `ranges`: those that are supported.

    Raises INVALID_UPDATE_VERSION, after which no feature changes.
    """
    records = []
    for update in updates:
        why = _why_invalid(now.get(update.name, 0), update, node_id, ranges)
        if why is not None:
            text = f"Invalid update version {update.level} for feature {update.name}. {why}"
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, _FAILED + text)
        if update.level != now[update.name]:
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    return records


def _why_invalid(now: int, update: Update, node_id: int, ranges: Mapping[str, tuple[int, int]]) -> str | None:
    """Why a feature cannot be updated so, in Kafka's words and order of checks."""
    name, level, upgrade_type = update
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if name not in ranges:
        # Level 0 of a feature means that it is not there, which is so.
        return (
            f"Feature {name} not found." if not level else f"Local controller {node_id} does not support this feature."
        )
    first, last = ranges[name]
    if not first <= level <= last:
        return f"Local controller {node_id} only supports versions {first}-{last}"
    if level < now and upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    return "Can't downgrade to a newer version." if level > now and upgrade_type != UPGRADE else None
