"""A zombie's TxnOffsetCommit, counted over 200 rebalances for each policy: refused if its partition was taken from it.

The zombie is a member that was away when its group rebalanced: its producer, which nobody fenced, commits offsets with
the previous epoch. Whether it lost the partition permanently or got it back, its offsets predate another member's.
Conversely, an epoch from before a rebalance that revoked nothing is as good as a newer one, which `revocation-epoch`
and `assignment-epoch` accept and `strict` does not.

Each round is a transaction that commits. The group's final offsets are therefore exactly those accepted last.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

ROUNDS = 50
REBALANCES_PER_ROUND = 4
GROUP_RESOURCE = 32
NONE, ILLEGAL_GENERATION, UNSTABLE_OFFSET_COMMIT, STALE_MEMBER_EPOCH = 0, 22, 88, 113
VERSIONS = (3, 5, 6)
"""Versions of TxnOffsetCommit, used in turn."""
POLICIES = ("strict", "revocation-epoch", "assignment-epoch")
KEPT, TAKEN = 0, 3
"""Partitions out of four; a second member gets the upper half."""


class Rounds:
    """One group, whose members are moved step by step, and the producer of the one that turns into a zombie now and
    then.
    """

    def __init__(self, link: Connection, policy: str, topic: str, topic_id: bytes) -> None:
        self.link, self.policy, self.topic, self.topic_id = link, policy, topic, topic_id
        self.group = f"group-{policy}"
        self.epoch = 0
        self.next_offset = 0
        self.accepted = {KEPT: -1, TAKEN: -1}
        self.counts: Counter[tuple[str, bool]] = Counter()
        config = {"name": "consumer.fencing.policy", "config_operation": 0, "value": policy}
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": self.group, "configs": [config]}
        (set_,) = link.call("IncrementalAlterConfigs", 1, resources=[resource])["responses"]
        assert set_["error_code"] == NONE, set_
        self.transactional_id = f"tx-{policy}"
        response = link.call(
            "InitProducerId", 4, transactional_id=self.transactional_id, transaction_timeout_ms=60_000,
            producer_id=-1, producer_epoch=-1,
        )  # fmt: skip
        assert response["error_code"] == NONE, response
        self.producer_id, self.producer_epoch = response["producer_id"], response["producer_epoch"]

    # --- members ---

    def beat(self, member: str, epoch: int, **more: Any) -> dict[str, Any]:
        response = self.link.call(
            "ConsumerGroupHeartbeat", 1, group_id=self.group, member_id=member, member_epoch=epoch, **more
        )
        assert response["error_code"] == NONE, response
        return response

    def join(self, member: str, topic: str) -> None:
        self.beat(member, 0, rebalance_timeout_ms=30_000, subscribed_topic_names=[topic], topic_partitions=[])

    def catch_up(self) -> int:
        """The member confirms its assignment until it no longer changes; then its epoch is up to date."""
        while True:
            response = self.beat("ann", self.epoch)
            if response["assignment"] is not None:
                response = self.beat(
                    "ann", response["member_epoch"], topic_partitions=response["assignment"]["topic_partitions"]
                )
            if response["member_epoch"] == self.epoch and response["assignment"] is None:
                return self.epoch
            self.epoch = response["member_epoch"]

    # --- its producer ---

    def commits(self, what: str, epoch: int, partition: int, *, accepted: bool) -> None:
        """Commits one partition with that epoch, by name or by id in turn; counts whether it was accepted."""
        self.next_offset += 1
        version = VERSIONS[self.next_offset % len(VERSIONS)]
        topic: dict[str, Any] = {"topic_id": self.topic_id} if version == 6 else {"name": self.topic}
        topic["partitions"] = [
            {"partition_index": partition, "committed_offset": self.next_offset, "committed_metadata": what}
        ]
        response = self.link.call(
            "TxnOffsetCommit", version, transactional_id=self.transactional_id, group_id=self.group,
            producer_id=self.producer_id, producer_epoch=self.producer_epoch, member_id="ann",
            generation_id_or_member_epoch=epoch, topics=[topic],
        )  # fmt: skip
        error = response["topics"][0]["partitions"][0]["error_code"]
        stale = STALE_MEMBER_EPOCH if version == 6 else ILLEGAL_GENERATION
        assert error == (NONE if accepted else stale), f"{self.policy}: {what}, epoch {epoch} of {self.epoch}: {error}"
        self.counts[what, accepted] += 1
        if accepted:
            self.accepted[partition] = self.next_offset

    def end(self) -> None:
        response = self.link.call(
            "EndTxn", 5, transactional_id=self.transactional_id, producer_id=self.producer_id,
            producer_epoch=self.producer_epoch, committed=True,
        )  # fmt: skip
        assert response["error_code"] == NONE, response
        self.producer_id, self.producer_epoch = response["producer_id"], response["producer_epoch"]

    def begin(self) -> None:
        """Begins the transaction with a commit that names the member's current epoch (v5 adds the group to it)."""
        self.next_offset += -self.next_offset % len(VERSIONS)
        self.commits("at its epoch", self.epoch, KEPT, accepted=True)

    def visible(self) -> dict[int, int]:
        topics = [{"name": self.topic, "partition_indexes": [KEPT, TAKEN]}]
        while True:
            response = self.link.call(
                "OffsetFetch", 8, groups=[{"group_id": self.group, "topics": topics}], require_stable=True
            )
            partitions = response["groups"][0]["topics"][0]["partitions"]
            if not any(each["error_code"] == UNSTABLE_OFFSET_COMMIT for each in partitions):
                return {each["partition_index"]: each["committed_offset"] for each in partitions}

    # --- a round ---

    def round(self) -> None:
        lenient = self.policy != "strict"
        by_partition = self.policy == "assignment-epoch"
        before = self.catch_up()
        self.begin()
        self.join("guest", "nowhere")
        window = self.catch_up()
        assert window > before
        self.commits("nothing was taken since", before, KEPT, accepted=lenient)
        self.commits("nothing was taken since", before, TAKEN, accepted=lenient)
        self.join("ben", self.topic)
        after = self.catch_up()
        assert after > window
        self.commits("the partition was taken", window, TAKEN, accepted=False)
        self.commits("the partition was taken", before, TAKEN, accepted=False)
        self.commits("another partition was taken", window, KEPT, accepted=by_partition)
        self.beat("ben", -1)
        self.beat("guest", -1)
        self.catch_up()
        self.commits("taken, and given back", window, TAKEN, accepted=False)
        self.commits("at its epoch", self.epoch, TAKEN, accepted=True)
        self.end()


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
