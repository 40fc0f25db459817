"""Earlier releases of Kafka: which versions of which APIs they serve, and which features they have.

`protocol_schemas/releases/releases.json` has what a broker of each release answered to ApiVersions. It goes from the newest
release to the oldest, and says of each what differs from the one before; the first differs from the release that this server
is. Releases before 3.3 answered with ZooKeeper, later ones with KRaft. Requests between brokers are left out.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from coordinator.protocol.schema import SCHEMAS

NEWEST = "4.4"
"""The release that the server is by default."""
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Behaviours:
    """What earlier releases do otherwise although the versions of the requests are the same. The default is 4.4."""

    unknown_instance_is_ignored: bool = False
    """A member that names an instance id which the group does not have is judged by its member id alone."""
    commit_to_no_group_is_old: bool = False
    """OffsetCommit answers ILLEGAL_GENERATION to a member of a group that does not exist, in every version."""
    txn_commit_to_no_group_is_unknown: bool = False
    """TxnOffsetCommit answers UNKNOWN_MEMBER_ID to a member of a group that does not exist."""
    txn_commit_is_fenced_by_what_it_names: bool = False
    """TxnOffsetCommit checks instance id, member id and generation each on its own, if it is set."""
    commit_without_generation_names_no_member: bool = False
    """A commit without a generation that names a member gets UNKNOWN_MEMBER_ID from a group that does not exist or is empty."""
    assignments_are_shown_in_stable_only: bool = False
    """DescribeGroups shows the assignments of a group only while it is Stable."""
    offset_delete_ends_an_empty_group: bool = False
    """OffsetDelete deletes a group without members that it leaves without offsets."""
    pending_members_leave_without_a_rebalance: bool = False
    """A member that was given an id and has not joined with it leaves without starting a rebalance."""
    states_are_filtered_by_case: bool = False
    """ListGroups finds a state only as it is spelled in answers."""
    no_client_id_is_null: bool = False
    """The member id of a client without a client id begins with "null"."""
    txn_commits_are_verified: bool = True
    """Whether TxnOffsetCommit asks the transaction coordinator if the group is part of the transaction (KIP-890)."""


AS_NEWEST = Behaviours()


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Kafka, as its clients see it."""

    name: str
    """Such as "3.6"."""
    recorded: str
    """The patch release that was asked."""
    versions: Mapping[str, Range | None]
    """Name of an API -> its first and last version, or None if the release does not have it. Others are as in 4.4."""
    refused: frozenset[str]
    """APIs that the release lists, and whose requests it answers with UNSUPPORTED_VERSION as long as it is not configured
    otherwise."""
    behaviours: Behaviours
    supported_features: Mapping[str, Range]
    feature_levels: Mapping[str, int]
    """The finalized level of each feature that is not at 0."""
    features_epoch: int
    """The epoch of these levels; -1: the release has none."""

    def range_of(self, api: str, newest: Range) -> Range | None:
        """The versions of an API that has these in 4.4."""
        return self.versions.get(api, newest)


@cache
def releases() -> Mapping[str, Release]:
    """All earlier releases by name, from the newest to the oldest."""
    return read_releases(json.loads((SCHEMAS / "releases" / "releases.json").read_bytes()))


def read_releases(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Release]:
    """The releases of a table in the form of releases.json."""
    found: dict[str, Release] = {}
    versions: dict[str, Range | None] = {}
    refused: frozenset[str] = frozenset()
    behaviours = AS_NEWEST
    for row in rows:
        versions = versions | {
            name: None if each is None else (each[0], each[1]) for name, each in row["versions"].items()
        }
        refused = frozenset(row.get("refused", refused))
        behaviours = replace(behaviours, **row.get("behaviours", {}))
        features = row["features"]
        found[row["release"]] = Release(
            row["release"],
            row["recorded"],
            versions,
            refused,
            behaviours,
            {name: (first, last) for name, (first, last, _) in features.items()},
            {name: level for name, (_, _, level) in features.items() if level},
            row["features_epoch"],
        )
    return found


class View(NamedTuple):
    """What clients see of a release."""

    versions: Mapping[str, Range]
    """By the name of the API."""
    features: Mapping[str, str]
    behaviours: Behaviours

    def facts(self) -> dict[str, str]:
        """Everything by name, as text."""
        behaviours = {name: str(value).lower() for name, value in asdict(self.behaviours).items()}
        return (
            {name: f"{first}-{last}" for name, (first, last) in self.versions.items()} | {**self.features} | behaviours
        )


def views(newest: Mapping[str, Range], features: Mapping[str, tuple[int, int, int]]) -> dict[str, View]:
    """All releases, from the newest to the oldest.

    `newest`, `features`: the APIs of the server and their versions, its features with their range and level.
    """
    found = {NEWEST: View(newest, _features(features), AS_NEWEST)}
    for name, release in releases().items():
        versions = {api: given for api, own in newest.items() if (given := release.range_of(api, own)) is not None}
        levels = release.feature_levels
        older = {each: (*given, levels.get(each, 0)) for each, given in release.supported_features.items()}
        found[name] = View(versions, _features(older), release.behaviours)
    return found


def _features(features: Mapping[str, tuple[int, int, int]]) -> dict[str, str]:
    return {name: f"{first}-{last}, finalized {level}" for name, (first, last, level) in features.items()}
