"""Earlier releases of Kafka: which versions of which APIs they serve, and which features they have.

`protocol_schemas/releases/releases.json` has what a broker of each release answered to ApiVersions, and `configs.json` beside
it what to DescribeConfigs. They go from the newest release to the oldest, and say of each what differs from the one before;
the first differs from the release that this server is. Releases before 3.3 answered with ZooKeeper, later ones with KRaft.
Requests between brokers are left out.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from coordinator.protocol.schema import SCHEMAS

NEWEST = "4.4"
"""The release that the server is by default."""
PREVIEW_PROTOCOLS = frozenset({"classic", "consumer"})
"""With these as `group.coordinator.rebalance.protocols` the preview of KIP-848 is on in 3.8 and 3.9."""
Range = tuple[int, int]
ConfigRow = tuple[str | None, str, bool]
"""The default of a config, the name of its type, such as "INT", and whether it is read-only."""
Configs = Mapping[str, Mapping[str, ConfigRow | None] | None]
"""Type of a resource, such as "TOPIC" -> name of a config -> its row; None: the release does not have it."""


@dataclass(frozen=True, slots=True)
class Behaviours:
    """What earlier releases do otherwise although the versions of the requests are the same. The default is 4.4."""

    absent_members_hold_places: bool = False
    """A member that has yet to rejoin takes a place of `group.max.size`; one that joins with an id it was given needs none."""
    assignments_are_shown_in_stable_only: bool = False
    """DescribeGroups shows the assignments of a group only while it is Stable."""
    classic_members_always_join: bool = False
    """A consumer group with members takes classic members although `group.consumer.migration.policy` is `disabled`."""
    commit_to_no_group_is_old: bool = False
    """OffsetCommit answers ILLEGAL_GENERATION to a member of a group that does not exist, in every version."""
    commit_without_generation_names_no_member: bool = False
    """A commit without a generation that names a member gets UNKNOWN_MEMBER_ID from a group that does not exist or is empty."""
    completing_groups_refuse_heartbeats: bool = False
    """Heartbeat answers REBALANCE_IN_PROGRESS while the group is CompletingRebalance."""
    empty_groups_keep_an_assignment_epoch: bool = False
    """A consumer or streams group that has become empty shows the assignment epoch of its last target (KAFKA-20442)."""
    epochs_begin_at_0: bool = False
    """The first member of a consumer group gets epoch 1, not 2."""
    groups_have_no_config_operations: bool = False
    """DescribeGroups leaves the operations on configs out of those that a client is authorized to perform."""
    invalid_names_are_unknown: bool = False
    """Metadata answers UNKNOWN_TOPIC_OR_PARTITION for a name that no topic can have, unless it may create topics."""
    joining_without_topics_is_invalid: bool = False
    """ConsumerGroupHeartbeat answers INVALID_REQUEST to a member that joins and subscribes to nothing."""
    later_epochs_end_transactions: bool = False
    """EndTxn accepts an epoch that the producer does not have yet."""
    malformed_subscriptions_are_unexpected: bool = False
    """A consumer group answers UNKNOWN_SERVER_ERROR to a classic member whose subscription cannot be read."""
    no_client_id_is_null: bool = False
    """The member id of a client without a client id begins with "null"."""
    offset_delete_ends_an_empty_group: bool = False
    """OffsetDelete deletes a group without members that it leaves without offsets."""
    offsets_of_no_groups_are_not_sent: bool = False
    """OffsetFetch 8 and 9 without groups gets no answer, and neither does what follows it on the connection."""
    only_classic_members_leave_by_name: bool = False
    """LeaveGroup answers UNKNOWN_MEMBER_ID for members of the consumer protocol."""
    pending_members_leave_without_a_rebalance: bool = False
    """A member that was given an id and has not joined with it leaves without starting a rebalance."""
    preferring_an_assignor_is_no_reason: bool = False
    """A heartbeat that changes nothing but the preferred assignor does not raise the epoch of a consumer group."""
    rejoining_is_fenced: bool = False
    """ConsumerGroupHeartbeat answers FENCED_MEMBER_EPOCH to a member that joins again, once its epoch was raised."""
    states_are_filtered_by_case: bool = False
    """ListGroups finds a state only as it is spelled in answers."""
    static_members_return_to_a_round: bool = False
    """A static member that comes back while the group is CompletingRebalance receives this generation."""
    static_members_return_with_any_protocol: bool = False
    """A static member that comes back to a Stable group starts no rebalance, whatever protocols it offers."""
    static_members_turn_classic_alone: bool = False
    """A group stays a consumer group when a classic member takes the place of its last member of the consumer protocol."""
    streams_groups_are_basic: bool = False
    """StreamsGroupHeartbeat refuses static members, task offsets and warm-up tasks (INVALID_REQUEST), and members that join
    again while the group is full."""
    successors_need_a_place: bool = False
    """A full consumer group refuses a static member that takes the place of another."""
    txn_commit_is_fenced_by_what_it_names: bool = False
    """TxnOffsetCommit checks instance id, member id and generation each on its own, if it is set."""
    txn_commit_to_no_group_is_unknown: bool = False
    """TxnOffsetCommit answers UNKNOWN_MEMBER_ID to a member of a group that does not exist."""
    unknown_instance_is_ignored: bool = False
    """A member that names an instance id which the group does not have is judged by its member id alone."""
    unknown_key_types_are_unexpected: bool = False
    """FindCoordinator answers UNKNOWN_SERVER_ERROR for a type of key that it does not know."""
    unrequested_operations_are_0: bool = False
    """DescribeGroups and Metadata answer 0 for authorized operations that the client did not ask for."""
    upgrade_drops_user_data: bool = False
    """A classic group becomes a consumer group although its assignor keeps data of its own in assignments."""
    upgrade_needs_assignments: bool = False
    """A classic group becomes a consumer group only if each member has an assignment."""
    txn_commits_are_verified: bool = True
    """Whether TxnOffsetCommit asks the transaction coordinator if the group is part of the transaction (KIP-890)."""


AS_NEWEST = Behaviours()


@dataclass(frozen=True, slots=True)
class Preview:
    """The preview of KIP-848 in a release. Where it is switched on, another coordinator serves all groups."""

    behaviours: Behaviours
    defaults: Mapping[str, Any]
    """Settings that have other defaults than in the release without it."""


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
    defaults: Mapping[str, Any]
    """Settings that have other defaults than in 4.4, as far as clients notice them."""
    preview: Preview | None
    """None: the release has none."""
    supported_features: Mapping[str, Range]
    feature_levels: Mapping[str, int]
    """The finalized level of each feature that is not at 0."""
    features_epoch: int
    """The epoch of these levels; -1: the release has none."""

    def range_of(self, api: str, newest: Range) -> Range | None:
        """The versions of an API that has these in 4.4."""
        return self.versions.get(api, newest)

    def configured(self, protocols: Iterable[str]) -> "Release":
        """The release with these `group.coordinator.rebalance.protocols`."""
        preview = self.preview
        if preview is None or set(protocols) != PREVIEW_PROTOCOLS:
            return self
        defaults = {**self.defaults, **preview.defaults}
        return replace(self, refused=frozenset(), behaviours=preview.behaviours, defaults=defaults)


@cache
def releases() -> Mapping[str, Release]:
    """All earlier releases by name, from the newest to the oldest."""
    return read_releases(_read("releases.json"))


@cache
def shown_configs() -> Mapping[str, Configs]:
    """Release -> the configs that its DescribeConfigs shows otherwise than that of 4.4; 4.4 -> what it shows of these itself.

    It is read when it is first needed: every start of a server reads `releases`.
    """
    changes = _read("configs.json")
    found: dict[str, Configs] = {NEWEST: changes.pop(NEWEST)}
    configs: Configs = {}
    for release, kinds in changes.items():
        for kind, rows in kinds.items():
            configs = {**configs, kind: None if rows is None else {**(configs.get(kind) or {}), **rows}}
        found[release] = configs
    return found


def _read(name: str) -> Any:
    return json.loads((SCHEMAS / "releases" / name).read_bytes())


def read_releases(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Release]:
    """The releases of a table in the form of releases.json."""
    found: dict[str, Release] = {}
    versions: dict[str, Range | None] = {}
    refused: frozenset[str] = frozenset()
    behaviours, preview = AS_NEWEST, Preview(AS_NEWEST, {})
    defaults: Mapping[str, Any] = {}
    for row in rows:
        versions = versions | {
            name: None if each is None else (each[0], each[1]) for name, each in row["versions"].items()
        }
        refused = frozenset(row.get("refused", refused))
        behaviours = replace(behaviours, **row.get("behaviours", {}))
        defaults = {**defaults, **row.get("defaults", {})}
        changed = row.get("preview", {})
        preview = Preview(
            replace(preview.behaviours, **changed.get("behaviours", {})),
            {**preview.defaults, **changed.get("defaults", {})},
        )
        features = row["features"]
        found[row["release"]] = Release(
            row["release"],
            row["recorded"],
            versions,
            refused,
            behaviours,
            defaults,
            preview if "preview" in row else None,
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
    configs: Mapping[str, str]
    """Default values of the configs that not all releases show alike."""
    behaviours: Behaviours
    preview: Behaviours | None = None

    def facts(self) -> dict[str, str]:
        """Everything by name, as text."""
        versions = {name: f"{first}-{last}" for name, (first, last) in self.versions.items()}
        behaviours = {name: str(value).lower() for name, value in asdict(self.behaviours).items()}
        preview = asdict(self.preview) if self.preview else {}
        return {
            **versions, **self.features, **self.configs, **behaviours,
            **{f"preview: {name}": str(value).lower() for name, value in preview.items()},
        }  # fmt: skip


def views(newest: Mapping[str, Range], features: Mapping[str, tuple[int, int, int]]) -> dict[str, View]:
    """All releases, from the newest to the oldest.

    `newest`, `features`: the APIs of the server and their versions, its features with their range and level.
    """
    configs = shown_configs()
    shown = configs[NEWEST]
    found = {NEWEST: View(newest, _features(features), _defaults(shown, {}), AS_NEWEST)}
    for name, release in releases().items():
        versions = {api: given for api, own in newest.items() if (given := release.range_of(api, own)) is not None}
        levels = release.feature_levels
        older = {each: (*given, levels.get(each, 0)) for each, given in release.supported_features.items()}
        preview = release.preview.behaviours if release.preview else None
        found[name] = View(versions, _features(older), _defaults(shown, configs[name]), release.behaviours, preview)
    return found


def _defaults(shown: Configs, changed: Configs) -> dict[str, str]:
    """The defaults of a release. `shown`: by 4.4; `changed`: what the release shows otherwise."""
    return {
        f"{kind.lower()} config {name}": row[0] or ""
        for kind, rows in shown.items()
        if (others := changed.get(kind, {})) is not None
        for name, row in {**(rows or {}), **others}.items()
        if row is not None
    }


def _features(features: Mapping[str, tuple[int, int, int]]) -> dict[str, str]:
    return {name: f"{first}-{last}, finalized {level}" for name, (first, last, level) in features.items()}
