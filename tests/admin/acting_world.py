"""Members and commits of groups that admin HTTP acts on."""

from contextlib import ExitStack
from typing import Any

from tests.support.group_members import NONE, Classic, Consumer, Streams
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

SETTINGS: dict[str, Any] = {
    "admin.control.enable": True,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
    "group.streams.assignment.interval.ms": 0,
    "topics": '[{"name": "t", "partitions": 2}, {"name": "u", "partitions": 1}]',
}


Kind = type[Classic | Consumer | Streams]


def member(server: ServerProcess, kind: Kind, group: str, closing: ExitStack, **options: Any) -> Any:
    """A member that has joined the group."""
    joined = kind(server, group, **options)
    closing.callback(joined.connection.close)
    joined.join()
    assert joined.beat() == NONE
    return joined


def commit(server: ServerProcess, group: str, *topics: str) -> None:
    with Connection(server.bootstrap) as connection:
        partitions = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        answer = connection.call(
            "OffsetCommit", 8, group_id=group, generation_id_or_member_epoch=-1,
            topics=[{"name": topic, "partitions": partitions} for topic in topics],
        )  # fmt: skip
        assert not any(each["error_code"] for topic in answer["topics"] for each in topic["partitions"])
