"""Which APIs and versions a server in front of a cluster offers, and what ApiVersions says about it.

Groups and offsets are ours, with our versions. All else is the broker's, with the versions of the broker, as each API declares
it (`Api.overlay`). Some versions are left out, because their responses carry the addresses of brokers:

    Fetch 16 and later           name the new leader and its address; earlier ones name its id, and clients ask for Metadata
    DescribeQuorum 2 and later   list the listeners of the controllers

All other APIs are hidden: those of share groups, and of delegation tokens, which a client of these listeners could not use.
"""

from collections.abc import Mapping
from typing import Any

from coordinator.api.declaration import HERE, Api, Forwarded
from coordinator.groups.kinds import Kind
from coordinator.protocol.messages import ApiVersionsResponse

Versions = Mapping[int, tuple[int, int]]

_BROKERS_ALONE = {64: "UnregisterBroker", 71: "GetTelemetrySubscriptions", 72: "PushTelemetry"}
"""APIs that brokers answer and this server does not have."""
GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION = "group.version", "share.version", "streams.version"


class Offer:
    """Who answers which API."""

    def __init__(self, apis: Mapping[int, Api[Any]]) -> None:
        brokers_alone = {key: Api(key, name, (0, 0), (), _never, _never) for key, name in _BROKERS_ALONE.items()}
        self.forwarded: dict[int, tuple[Api[Any], Forwarded]] = {
            key: (api, api.overlay)
            for key, api in (brokers_alone | dict(apis)).items()
            if isinstance(api.overlay, Forwarded)
        }
        self.ours = frozenset(key for key, api in apis.items() if api.overlay is HERE)

    def ours_or_not(self) -> frozenset[int]:
        """The APIs of which some requests are ours."""
        return frozenset(key for key, (_, each) in self.forwarded.items() if each.is_ours is not None)

    def ours_on_main(self) -> frozenset[int]:
        """The APIs that are ours on the main listener alone."""
        return frozenset(key for key, (_, each) in self.forwarded.items() if each.is_ours_on_main)

    def forwarded_versions(self, brokers: Versions) -> dict[int, tuple[int, int]]:
        """The versions that are forwarded, of what a broker offers."""
        versions = {
            key: (low, high if each.last is None else min(high, each.last))
            for key, (_, each) in self.forwarded.items()
            if key in brokers
            for low, high in [brokers[key]]
        }
        return {key: (low, high) for key, (low, high) in versions.items() if low <= high}

    def versions(self, ours: Versions, brokers: Versions) -> dict[int, tuple[int, int]]:
        """What clients may send: `ours`, and what is forwarded of what the brokers offer."""
        versions = self.forwarded_versions(brokers) | {key: ours[key] for key in self.ours if key in ours}
        for key in self.ours_or_not() & versions.keys() & ours.keys():
            low, high = max(versions[key][0], ours[key][0]), min(versions[key][1], ours[key][1])
            versions[key] = (low, high)
        return dict(sorted(versions.items()))


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


def _never(*_arguments: Any) -> Any:
    """In place of the functions of an API whose requests only pass."""
    raise AssertionError
