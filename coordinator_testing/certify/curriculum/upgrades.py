"""Classic and consumer groups: a broker that becomes another release of Kafka, before its features are finalized and after."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from coordinator.operations.client import Client, refuse_error
from coordinator.protocol.messages import ApiVersionsRequest, UpdateFeaturesRequest
from coordinator.protocol.releases import NEWEST
from coordinator_testing.certify.event import Allows, Protocol, Source, event
from coordinator_testing.certify.records import ANSWERED_WITHIN_S
from coordinator_testing.certify.releases import is_before
from coordinator_testing.certify.stage import Stage

BOTH: tuple[Protocol, ...] = ("classic", "consumer")
_EARLIER = {"classic": "3.9", "consumer": "4.1"}
"""GROUP_PROTOCOL -> the last release that serves it and lacks features of the newest."""
_LATE_FEATURES = {
    "classic": ("group.version", "streams.version", "transaction.version"),
    "consumer": ("streams.version",),
}
"""GROUP_PROTOCOL -> the features that this release lacks."""
_UPGRADE, _SAFE_DOWNGRADE = 1, 2

_VERSIONS = Source("KIP-35", "versions belong to a connection: a client asks again when it connects again")
_REPLACED = Source("NetworkClient.handleApiVersionsResponse", "the versions of a node are replaced on each connection")
_FINALIZED = Source(
    "KIP-584",
    "a broker that supports a feature does not use it until it is finalized, which an administrator does after the upgrade",
)
_TRANSACTIONS = Source(
    "TransactionManager.isTransactionV2Enabled",
    "a producer follows the finalized transaction.version, and may be switched between two transactions",
)


@event(
    "versions-change",
    protocols=BOTH,
    happens="The broker is rolled back to an earlier release and forward again: all connections end, and after each reconnect "
    "ApiVersions has other versions.",
    right_client="asks for ApiVersions on each connection, and notices nothing else",
    provoked="POST /v1/emulation: 3.9 (4.1 for consumer groups), and the release from before; with --emulate of an earlier one "
    "4.4, and back",
    sources=(_VERSIONS, _REPLACED),
    allows=Allows(rebalances=0),
    is_alone=True,
)
async def versions_change(stage: Stage) -> None:
    earlier, later = await _pair(stage)
    former = (await stage.control.emulation()).release
    await _become(stage, later if former == earlier else earlier)
    await stage.reads_on()
    await _become(stage, former)
    await stage.reads_on()


@event(
    "broker-upgraded",
    protocols=BOTH,
    happens="The broker is upgraded from Kafka 3.9 (4.1 for consumer groups): all connections end, and it has more versions. "
    "Later its features are finalized.",
    right_client="uses on each connection what the broker says there, and a feature when it is finalized",
    provoked="POST /v1/emulation of the earlier release, with the features at its levels, and of the later one; then "
    "UpdateFeatures",
    sources=(_VERSIONS, _FINALIZED, _TRANSACTIONS),
    allows=Allows(rebalances=0, stall_s=30.0),
    is_alone=True,
)
async def broker_upgraded(stage: Stage) -> None:
    earlier, later = await _pair(stage)
    async with _unfinalized(stage) as levels:
        await _become(stage, earlier)
        await stage.reads_on()
        await _become(stage, later)
        await stage.reads_on()
        await _finalize(stage, levels)
        await stage.reads_on()


@event(
    "downgraded-before-finalized",
    protocols=BOTH,
    happens="The broker is upgraded from Kafka 3.9 (4.1 for consumer groups), and goes back before its features are finalized. "
    "Connections end each time.",
    right_client="goes back to the versions of the earlier release, and has used no feature that is not there now",
    provoked="POST /v1/emulation of the earlier release, with the features at its levels, of the later one, and of the earlier "
    "one again",
    sources=(_VERSIONS, _FINALIZED, _TRANSACTIONS),
    allows=Allows(rebalances=0, stall_s=30.0),
    is_alone=True,
)
async def downgraded_before_finalized(stage: Stage) -> None:
    earlier, later = await _pair(stage)
    async with _unfinalized(stage):
        for release in (earlier, later, earlier):
            await _become(stage, release)
            await stage.reads_on()


async def _pair(stage: Stage) -> tuple[str, str]:
    """An earlier and a later release that serve the group. One of them is what the server is."""
    release, earlier = (await stage.control.emulation()).release, _EARLIER[stage.first.environment["GROUP_PROTOCOL"]]
    return (earlier, release) if is_before(earlier, release) else (release, NEWEST)


async def _become(stage: Stage, release: str) -> None:
    """The server is a release for the instances until the end of the event, or the next one."""
    stage.note(f"the broker is Kafka {release}")
    await stage.control.emulate(release)


@asynccontextmanager
async def _unfinalized(stage: Stage) -> AsyncIterator[Mapping[str, int]]:
    """The late features are at level 0, and in the end at the levels that they had: these. Raises OperationFailed."""
    names = _LATE_FEATURES[stage.first.environment["GROUP_PROTOCOL"]]
    with Client(stage.server.bootstrap, ANSWERED_WITHIN_S) as client:
        request = ApiVersionsRequest(client_software_name="certify", client_software_version="1")
        answer = await asyncio.to_thread(client.any().ask, request)
        refuse_error(answer.error_code, "cannot ask for the features")
    levels = {each.name: each.max_version_level for each in answer.finalized_features if each.name in names}
    await _finalize(stage, dict.fromkeys(levels, 0))
    try:
        yield levels
    finally:
        await _finalize(stage, levels)


async def _finalize(stage: Stage, levels: Mapping[str, int]) -> None:
    """Gives features these levels, which may be what they have. Raises OperationFailed."""
    stage.note(f"finalized: {', '.join(f'{name}={level}' for name, level in levels.items())}")
    updates = [
        UpdateFeaturesRequest.FeatureUpdateKey(
            feature=name, max_version_level=level, upgrade_type=_UPGRADE if level else _SAFE_DOWNGRADE
        )
        for name, level in levels.items()
    ]

    def ask() -> None:
        with Client(stage.server.bootstrap, ANSWERED_WITHIN_S) as client:
            answer = client.any().ask(UpdateFeaturesRequest(timeout_ms=client.timeout_ms, feature_updates=updates))
        refuse_error(answer.error_code, "cannot finalize features", answer.error_message)

    await asyncio.to_thread(ask)


EVENTS = (versions_change, broker_upgraded, downgraded_before_finalized)
