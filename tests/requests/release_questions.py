"""A question for each behaviour that only earlier releases have: from the answer one sees whether the broker has it.

A question makes a group of its own, through sockets, with versions that all releases since 2.6 have. It knows nothing of the
server that it is put to, so a broker of the release can be asked as well.
"""

import struct
import uuid
from collections.abc import Callable
from typing import Any

from coordinator.protocol.errors import ErrorCode
from tests.support.wire import Connection, api_key

SUBSCRIPTION = struct.pack(">hih6si", 0, 1, 6, b"orders", -1)
SESSION = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer"}


class Asked:
    """One broker and one group that is asked about, with a connection for each of its clients."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.group = f"g-{uuid.uuid4().hex}"
        self.link = Connection(bootstrap)
        self.other = Connection(bootstrap, "other")
        self.served = {
            each["api_key"]: (each["min_version"], each["max_version"])
            for each in self.link.call("ApiVersions", 0)["api_keys"]
        }

    def close(self) -> None:
        self.link.close()
        self.other.close()

    def has(self, api: str, version: int) -> bool:
        return api_key(api) in self.served and self.served[api_key(api)][1] >= version

    # --- the state of the group ---

    def join(self, link: Connection, version: int = 3, member_id: str = "") -> dict[str, Any]:
        protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
        values = {"group_id": self.group, "member_id": member_id, **SESSION, "protocols": protocols}
        return link.call("JoinGroup", version, **values)

    def stable(self) -> dict[str, Any]:
        """Makes the group Stable with one member, whose assignment is `part`; returns what names the member."""
        member = {"generation_id": 1, "member_id": self.join(self.link)["member_id"]}
        given = [{"member_id": member["member_id"], "assignment": b"part"}]
        assert self.link.call("SyncGroup", 2, group_id=self.group, **member, assignments=given)["error_code"] == 0
        return member

    def described(self) -> dict[str, Any]:
        (group,) = self.other.call("DescribeGroups", 4, groups=[self.group])["groups"]
        return group

    def consumer_heartbeat(self, member_id: str, epoch: int, topics: list[str] | None = None) -> dict[str, Any]:
        """Of a member of the consumer protocol; with topics it says everything."""
        values: dict[str, Any] = {"group_id": self.group, "member_id": member_id, "member_epoch": epoch}
        if topics is not None:
            values |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": topics, "topic_partitions": []}
        return self.link.call("ConsumerGroupHeartbeat", 0, **values)

    # --- commits ---

    def commit(self, version: int, **who: Any) -> str:
        answer = self.link.call("OffsetCommit", version, group_id=self.group, topics=OFFSETS, **who)
        return error_of(answer["topics"][0]["partitions"][0])

    def commit_in_transaction(self, version: int, *, is_added: bool = True, **who: Any) -> str:
        name = {"transactional_id": self.group}
        made = self.link.call("InitProducerId", 1, **name, transaction_timeout_ms=60_000)
        producer = {**name, "producer_id": made["producer_id"], "producer_epoch": made["producer_epoch"]}
        if is_added:
            added = self.link.call("AddOffsetsToTxn", 1, **producer, group_id=self.group)
            assert added["error_code"] == 0, added
        answer = self.link.call("TxnOffsetCommit", version, **producer, group_id=self.group, topics=OFFSETS, **who)
        self.link.call("EndTxn", 1, **producer, committed=False)
        return error_of(answer["topics"][0]["partitions"][0])


OFFSETS = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}]


def error_of(answer: dict[str, Any]) -> str:
    return ErrorCode(answer["error_code"]).name


def heartbeat_with_an_unknown_instance(asked: Asked) -> str:
    member = asked.stable()
    return error_of(asked.link.call("Heartbeat", 3, group_id=asked.group, **member, group_instance_id="unknown"))


def commit_of_a_member_of_no_group(asked: Asked) -> str:
    version = 9 if asked.has("OffsetCommit", 9) else 8
    return asked.commit(version, member_id="m", generation_id_or_member_epoch=0)


def commit_of_a_member_without_generation(asked: Asked) -> str:
    return asked.commit(7, member_id="m", generation_id_or_member_epoch=-1)


def transactional_commit_of_a_member_of_no_group(asked: Asked) -> str:
    return asked.commit_in_transaction(3, member_id="m", generation_id_or_member_epoch=0)


def transactional_commit_of_a_generation_alone(asked: Asked) -> str:
    asked.stable()
    return asked.commit_in_transaction(3, member_id="", generation_id_or_member_epoch=1)


def transactional_commit_of_a_group_that_was_not_added(asked: Asked) -> str:
    return asked.commit_in_transaction(2, is_added=False)


def assignment_while_another_joins(asked: Asked) -> str:
    member = asked.stable()
    with Connection(asked.bootstrap) as newcomer:
        joining = asked.join(newcomer, 4)["member_id"]
        protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
        newcomer.send(
            "JoinGroup", 4, {"group_id": asked.group, "member_id": joining, **SESSION, "protocols": protocols}
        )
        while (shown := asked.described())["group_state"] == "Stable":
            pass
        (found,) = (each for each in shown["members"] if each["member_id"] == member["member_id"])
        return f"{shown['group_state']}: {found['member_assignment'].decode()}"


def group_whose_last_offset_is_deleted(asked: Asked) -> str:
    assert asked.commit(7, member_id="", generation_id_or_member_epoch=-1) == "NONE"
    topics = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
    assert asked.link.call("OffsetDelete", 0, group_id=asked.group, topics=topics)["error_code"] == 0
    return asked.described()["group_state"]


def group_whose_pending_member_leaves(asked: Asked) -> str:
    asked.stable()
    pending = asked.join(asked.other, 4)["member_id"]
    assert asked.other.call("LeaveGroup", 2, group_id=asked.group, member_id=pending)["error_code"] == 0
    return asked.described()["group_state"]


def groups_of_a_state_in_lower_case(asked: Asked) -> str:
    asked.stable()
    groups = asked.other.call("ListGroups", 4, states_filter=["stable"])["groups"]
    return "found" if any(each["group_id"] == asked.group for each in groups) else "not found"


def member_id_without_a_client_id(asked: Asked) -> str:
    with Connection(asked.bootstrap, None) as link:
        member_id: str = asked.join(link)["member_id"]
        return member_id[: -len(str(uuid.UUID(int=0)))]


def first_epoch_of_a_consumer_group(asked: Asked) -> str:
    if not asked.has("ConsumerGroupHeartbeat", 0):
        return "no consumer groups"
    joined = asked.consumer_heartbeat("", 0, ["orders"])
    return str(joined["member_epoch"]) if not joined["error_code"] else error_of(joined)


def consumer_that_joins_again(asked: Asked) -> str:
    if not asked.has("ConsumerGroupHeartbeat", 0):
        return "no consumer groups"
    joined = asked.consumer_heartbeat("", 0, ["orders"])
    if joined["error_code"]:
        return error_of(joined)
    member_id, epoch = joined["member_id"], joined["member_epoch"]
    topics = ["orders", "others"]
    raised = asked.consumer_heartbeat(member_id, epoch, topics)["member_epoch"]
    while raised == epoch:  # an assignment may be delayed
        raised = asked.consumer_heartbeat(member_id, epoch)["member_epoch"]
    return error_of(asked.consumer_heartbeat(member_id, 0, topics))


QUESTIONS: dict[str, Callable[[Asked], str]] = {
    "unknown_instance_is_ignored": heartbeat_with_an_unknown_instance,
    "commit_to_no_group_is_old": commit_of_a_member_of_no_group,
    "commit_without_generation_names_no_member": commit_of_a_member_without_generation,
    "txn_commit_to_no_group_is_unknown": transactional_commit_of_a_member_of_no_group,
    "txn_commit_is_fenced_by_what_it_names": transactional_commit_of_a_generation_alone,
    "txn_commits_are_verified": transactional_commit_of_a_group_that_was_not_added,
    "assignments_are_shown_in_stable_only": assignment_while_another_joins,
    "offset_delete_ends_an_empty_group": group_whose_last_offset_is_deleted,
    "pending_members_leave_without_a_rebalance": group_whose_pending_member_leaves,
    "states_are_filtered_by_case": groups_of_a_state_in_lower_case,
    "no_client_id_is_null": member_id_without_a_client_id,
    "epochs_begin_at_0": first_epoch_of_a_consumer_group,
    "rejoining_is_fenced": consumer_that_joins_again,
}
"""Behaviour -> the question that shows it."""


def ask(bootstrap: str, behaviour: str) -> str:
    """What the broker at this address answers to the question of a behaviour."""
    asked = Asked(bootstrap)
    try:
        return QUESTIONS[behaviour](asked)
    finally:
        asked.close()
