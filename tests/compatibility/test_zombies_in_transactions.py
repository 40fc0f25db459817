"""A zombie's TxnOffsetCommit, counted over 200 rebalances for each policy: refused if its partition was taken from it.

The zombie is a member that was away when its group rebalanced: its producer, which nobody fenced, commits offsets with
the previous epoch. Whether it lost the partition permanently or got it back, its offsets predate another member's.
Conversely, an epoch from before a rebalance that revoked nothing is as good as a newer one, which `revocation-epoch`
and `assignment-epoch` accept and `strict` does not.

Each round is a transaction that commits. The group's final offsets are therefore exactly those accepted last.
"""

from collections.abc import Callable

import pytest

from tests.compatibility.transaction_programs import Rounds
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

ROUNDS = 50
REBALANCES_PER_ROUND = 4
POLICIES = ("strict", "revocation-epoch", "assignment-epoch")


def test_a_zombie_commits_nothing_of_what_was_taken_from_it(
    coordinator_process: Callable[..., ServerProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    server = coordinator_process(settings={"group.consumer.assignment.interval.ms": 0, "durability": "write"})
    with Connection(server.bootstrap) as link:
        topic = {"name": "t", "num_partitions": 4, "replication_factor": 1}
        (made,) = link.call("CreateTopics", 7, topics=[topic], timeout_ms=10_000)["topics"]
        for policy in POLICIES:
            group = Rounds(link, policy, "t", made["topic_id"])
            group.join("ann", "t")
            group.epoch = 2
            for _ in range(ROUNDS):
                group.round()
                assert group.visible() == group.accepted
            (described,) = link.call("ConsumerGroupDescribe", 1, group_ids=[group.group])["groups"]
            assert described["group_epoch"] >= ROUNDS * REBALANCES_PER_ROUND
            with capsys.disabled():
                print(f"\n  {policy}, {described['group_epoch']} rebalances:", end="")
                for (what, accepted), count in sorted(group.counts.items()):
                    print(f" {what}: {count} {'accepted' if accepted else 'refused'};", end="")
            refused = {what for what, accepted in group.counts if not accepted}
            assert group.counts["the partition was taken", False] == 2 * ROUNDS
            assert group.counts["taken, and given back", False] == ROUNDS
            assert ("nothing was taken since" in refused) is (policy == "strict")
            assert ("another partition was taken" in refused) is (policy != "assignment-epoch")
