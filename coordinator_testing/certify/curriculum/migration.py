"""Events of groups that change their protocol while they read (KIP-848, online migration)."""

from coordinator_testing.certify.curriculum import acts
from coordinator_testing.certify.event import Allows, Source, event
from coordinator_testing.certify.releases import FIRST
from coordinator_testing.certify.stage import Stage

ROLLING = "no record is lost, and no partition has two readers, in any mixture of both protocols"


@event(
    "online-upgrade",
    protocols=("classic",),
    happens="The instances start again one after the other with GROUP_PROTOCOL=consumer, while the others read on.",
    right_client=f"joins the group that the coordinator converts; {ROLLING}",
    provoked="each instance is stopped and started with the other protocol",
    sources=(
        Source("GroupMetadataManager.validateOnlineUpgrade", "a classic group is converted by the first new member"),
    ),
    allows=Allows(rebalances=None, stall_s=40.0),
    since=FIRST["consumer"],
    time_limit_s=150.0,
)
async def online_upgrade(stage: Stage) -> None:
    await acts.migrate(stage, "consumer")


@event(
    "online-downgrade",
    protocols=("consumer",),
    happens="The instances start again one after the other with GROUP_PROTOCOL=classic, while the others read on.",
    right_client=f"joins the consumer group as a classic member; {ROLLING}",
    provoked="each instance is stopped and started with the other protocol",
    sources=(
        Source(
            "GroupMetadataManager.validateOnlineDowngradeWithFencedMembers",
            "the group is converted when its last member of the new protocol leaves",
        ),
    ),
    allows=Allows(rebalances=None, stall_s=40.0),
    time_limit_s=150.0,
)
async def online_downgrade(stage: Stage) -> None:
    await acts.migrate(stage, "classic")


EVENTS = (online_upgrade, online_downgrade)
