"""What tests ask of a group with members of several client libraries: who has what, and that every record is read once."""

from typing import Any, Protocol

from tests.compatibility.members import Partition, Program, partitions_of, shared, wait_for_all
from tests.support.wire import Connection

SETTINGS = {
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 250,
    "group.consumer.assignment.interval.ms": 100,
}
PARTITIONS = 6


class Broker(Protocol):
    """This server, or a Kafka."""

    @property
    def bootstrap(self) -> str: ...


def all_of(*topics: str, count: int = PARTITIONS) -> set[Partition]:
    return {(topic, partition) for topic in topics for partition in range(count)}


def listed(server: Broker, group: str) -> dict[str, Any]:
    with Connection(server.bootstrap) as link:
        return next(one for one in link.call("ListGroups", 5)["groups"] if one["group_id"] == group)


def wait_to_share(server: Broker, members: list[Program], partitions: set[Partition]) -> None:
    """Whether each partition has one owner, each member has some, and no event is outstanding."""

    def settled() -> bool:
        stable = shared(members, partitions) and listed(server, members[0].group)["group_state"] == "Stable"
        return stable and shared(members, partitions)

    wait_for_all(members, settled, f"{len(members)} members to share")


def pass_records(producer: Program, members: list[Program], topic: str, prefix: str) -> None:
    """Two records to each partition; each is read by one member once, and committed."""
    before = {value for member in members for value in member.values()}
    sent = [f"{prefix}-{partition}-{number}" for partition in range(PARTITIONS) for number in range(2)]
    for partition in range(PARTITIONS):
        producer.call("produce", topic=topic, values=sent[2 * partition : 2 * partition + 2], partition=partition)

    def read() -> list[str]:
        return sorted(value for member in members for value in member.values() if value not in before)

    wait_for_all(members, lambda: len(read()) >= len(sent), f"records {prefix}")
    assert read() == sorted(sent)
    for member in members:
        member.call("commit")


def describe(server: Broker, group: str) -> dict[str, Any]:
    """By client id: member id, epoch and assignment."""
    with Connection(server.bootstrap) as link:
        (described,) = link.call("ConsumerGroupDescribe", 1, group_ids=[group])["groups"]
    assert described["error_code"] == 0, described
    keep = ("member_id", "member_epoch", "assignment", "member_type")
    members = {member["client_id"]: {key: member[key] for key in keep} for member in described["members"]}
    return {"state": described["group_state"], "epoch": described["group_epoch"], "members": members}


def assert_disjoint(programs: list[Program]) -> None:
    """Asserts that no partition was ever assigned to a member before another had given it up."""
    events = sorted(
        ((event["at_ns"], program, event) for program in programs for event in program.events if "partitions" in event),
        key=lambda each: each[0],
    )
    owners: dict[Partition, Program] = {}
    for _, program, event in events:
        for partition in partitions_of(event):
            if event["event"] == "assigned":
                owner = owners.setdefault(partition, program)
                assert owner is program, f"{partition} of {owner.name} was given to {program.name}:\n{owner}\n{program}"
            elif owners.get(partition) is program:
                del owners[partition]
