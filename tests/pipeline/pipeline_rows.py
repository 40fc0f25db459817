"""Rows of the views as plain dictionaries, so that a test shows its whole history."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark_coordinator_log import columns

LOG = "log"
QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
"""For a few hundred rows Spark spends more time planning and compiling than running; interpreted plans take half as long."""


@contextmanager
def quick(spark: Any) -> Iterator[None]:
    """Applies these settings to the session for a while."""
    before = {name: spark.conf.get(name, None) for name in QUICK}
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def open_rows(table_format: str, folder: Path) -> Any:
    """All rows of a Delta or Iceberg table, as its own reader finds them, in an Arrow table."""
    import pyarrow as pa

    if table_format == "delta":
        from deltalake import DeltaTable

        return pa.table(DeltaTable(str(folder)).to_pyarrow_dataset().to_table())
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(folder)).scan().to_arrow()


_ENVELOPE = {
    "log_id": LOG,
    "shard": 0,
    "leader_epoch": 0,
    "producer_id": -1,
    "producer_epoch": -1,
    "is_transactional": False,
}


def frame(spark: Any, view: str, rows: list[dict[str, Any]]) -> Any:
    """A DataFrame with the columns of a view; missing values are null."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = columns.SCHEMAS[view]
    full = [_ENVELOPE | row for row in rows]
    assert all(set(row) <= set(schema.names) for row in full), [set(row) - set(schema.names) for row in full]
    values = [tuple(row.get(name) for name in schema.names) for row in full]
    return spark.createDataFrame(values, from_arrow_schema(schema))


class History:
    """A state log and an event log in one shard, written record by record. Time is the offset times one hundred."""

    def __init__(self, group: str = "g", shard: int = 0) -> None:
        self.group = group
        self.shard = shard
        self.state: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.commits: list[dict[str, Any]] = []
        self.markers: list[dict[str, Any]] = []
        self.end = 0

    def _record(self, **fields: Any) -> int:
        offset = self.end
        self.end += 1
        row = {"offset": offset, "state_offset": offset, "timestamp_ms": offset * 100, "group": self.group}
        row["shard"] = self.shard
        self.state.append(row | {"tombstone": False} | fields)
        return offset

    def metadata(self, member: str, tombstone: bool = False, instance: str | None = None) -> int:
        return self._record(type="ConsumerGroupMemberMetadata", group_kind="consumer", member_id=member,
                            tombstone=tombstone, client_id=f"client of {member}", instance_id=instance)  # fmt: skip

    def group_epoch(self, epoch: int | None) -> int:
        return self._record(type="ConsumerGroupMetadata", group_kind="consumer", epoch=epoch, tombstone=epoch is None)

    def target_epoch(self, epoch: int | None) -> int:
        return self._record(type="ConsumerGroupTargetAssignmentMetadata", group_kind="consumer", target_epoch=epoch,
                            epoch=epoch, tombstone=epoch is None)  # fmt: skip

    def current(
        self, member: str, epoch: int, held: dict[int, int], *, pending: dict[int, int] | None = None,
        revocation_epoch: int | None = 0, state: str = "STABLE", previous: int = -1,
    ) -> int:  # fmt: skip
        """`held`, `pending`: partition of topic t -> assignment epoch."""

        def listed(partitions: dict[int, int]) -> list[dict[str, Any]]:
            return [(None, "id-of-t", partition, since) for partition, since in partitions.items()]

        return self._record(type="ConsumerGroupCurrentMemberAssignment", group_kind="consumer", member_id=member,
                            member_epoch=epoch, previous_member_epoch=previous, revocation_epoch=revocation_epoch,
                            state=state, assignment=listed(held), pending_revocation=listed(pending or {}))  # fmt: skip

    def gone(self, member: str) -> int:
        self._record(type="ConsumerGroupCurrentMemberAssignment", group_kind="consumer", member_id=member,
                     tombstone=True)  # fmt: skip
        return self.metadata(member, tombstone=True)

    def generation(
        self, generation: int | None, members: dict[str, Any], instances: dict[str, str] | None = None
    ) -> int:
        """A classic group's record (None: its tombstone).

        `members`: id -> partitions of topic t, or bytes of an unknown protocol. `instances`: instance ids of static members.
        """
        if generation is None:
            return self._record(type="GroupMetadata", group_kind="classic", tombstone=True)
        rows = [
            (member, (instances or {}).get(member), f"client of {member}", "/127.0.0.1",
             None if isinstance(held, bytes) else [("t", None, partition, None) for partition in held],
             held if isinstance(held, bytes) else None)
            for member, held in members.items()
        ]  # fmt: skip
        return self._record(type="GroupMetadata", group_kind="classic", generation=generation, epoch=generation,
                            leader=next(iter(members), None), protocol="range" if members else None,
                            protocol_type="consumer", members=rows)  # fmt: skip

    def forming(self, generation: int, members: list[str] | None, instances: dict[str, str] | None = None) -> int:
        """The record of a generation that members know and that has no assignment; `members` None: its tombstone."""
        if members is None:
            return self._record(type="ClassicGroupGeneration", group_kind="classic", tombstone=True)
        rows = [
            (member, (instances or {}).get(member), f"client of {member}", "/127.0.0.1", None, None)
            for member in members
        ]
        return self._record(type="ClassicGroupGeneration", group_kind="classic", generation=generation, epoch=generation,
                            leader=members[0], protocol="range", protocol_type="consumer", members=rows)  # fmt: skip

    def forced(self, generation: int) -> int:
        """The record that the group must rebalance after this generation."""
        return self._record(type="ClassicGroupForcedRebalance", group_kind="classic", generation=generation)

    def offset(self, partition: int, committed: int | None, *, producer: int = -1) -> int:
        offset = self.end
        self.end += 1
        self.commits.append({
            "offset": offset, "timestamp_ms": offset * 100, "group": self.group, "topic": "t",
            "partition": partition, "committed_offset": committed, "producer_id": producer, "producer_epoch": 0,
            "is_transactional": producer >= 0,
        })  # fmt: skip
        return offset

    def marker(self, producer: int, *, commit: bool) -> int:
        offset = self.end
        self.end += 1
        self.markers.append({
            "offset": offset, "timestamp_ms": offset * 100, "producer_id": producer, "producer_epoch": 0,
            "is_transactional": True, "is_control": True, "control_type": int(commit),
        })  # fmt: skip
        return offset

    def event(self, name: str, *, at: int | None = None, **fields: Any) -> int:
        offset = len(self.events)
        position = self.end if at is None else at
        row = {"offset": offset, "timestamp_ms": position * 100, "time_ms": position * 100, "state_offset": position}
        named = {"type": name, "shard": self.shard, "group": self.group, "group_kind": "consumer"}
        self.events.append(row | named | fields)
        return offset

    def commit_decided(
        self, member: str, epoch: int, partitions: dict[int, int | None], error: str | None = None, **fields: Any
    ) -> int:
        """A commit. `partitions`: partition of topic t -> the assignment epoch in the event."""
        listed = [("t", "id-of-t", partition, 1, error, since, None, None) for partition, since in partitions.items()]
        return self.event("CommitDecided", member_id=member, epoch=epoch, error=error, partitions=listed,
                          policy=fields.pop("policy", "revocation-epoch"), **fields)  # fmt: skip

    def frames(self, spark: Any) -> tuple[Any, Any]:
        return frame(spark, columns.STATE, self.state), frame(spark, columns.EVENTS, self.events)


def complete_from(spark: Any, offset: int = 0, shards: int = 1) -> Any:
    rows = [(LOG, shard, offset) for shard in range(shards)]
    return spark.createDataFrame(rows, "log_id string, shard int, complete_from bigint")
