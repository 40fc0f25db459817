"""Verdicts: every decided commit, compared with what history says about it.

The event log records who committed what with which epoch, and the response. Independently, the state log shows the member's
epoch at that moment, and since when it owned each partition. Together they classify each partition of a commit:

    safe            the member owned the partition in the epoch it commits with, and has owned it ever since
    lost            the member does not own it, or got it back later: the commit may be older than the next owner's (a zombie)
    ahead           the epoch is later than the member's (a zombie)
    not a member    no member with that id is in the group (a zombie)
    unowned         the epoch is current but the member does not own the partition; every policy accepts this
    unclaimed       not sent as a member (a simple consumer, an admin tool); not judged
    unknown         not in the log: a compacted past, an unknown assignment protocol, a classic generation not yet written

The policies (defined in groups/fencing.py) are replayed on the same facts. A request is one decision, because one fenced
partition fails the whole request. A refusal is *right* if some partition of the request came from a zombie (or is unowned,
where the group requires ownership), else *wrong*. History takes precedence over the event. Where the state log was compacted,
and for streams groups, whose records contain tasks instead of partitions, only the event is available; the column `evidence`
says which was used.

Commits are judged where they are read: Spark joins each shard's intervals (assignment_history.py) to the tasks that read its
commits, which judge each batch as they read it (judging.py). No commit is sorted or read twice: the sums of policy_replay, the
broken invariants (findings.py) and the table itself come from one pass, which this module implements.
"""

import pickle
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pyspark_coordinator_log.jobs import judging
from pyspark_coordinator_log.jobs.assignment_history import MEMBER_COLUMNS, AssignmentHistory
from pyspark_coordinator_log.jobs.files import DayFiles
from pyspark_coordinator_log.jobs.findings import FINDINGS, Findings, Sums
from pyspark_coordinator_log.jobs.intervals import SHARD, materialize
from pyspark_coordinator_log.jobs.judging import Bounds, JudgedBatch, judge

ArrowBatches = Iterator[Any]
"""Iterators over Arrow record batches."""
_TIME = "time_ms"
_SOUGHT = ("shard", "group", "offset", "state_offset", _TIME, "truth", "outcome")


@dataclass(frozen=True)
class VerdictPass:
    """One pass over the decided commits.

    `packets`: (log_id, shard, packet); a packet is pickled, and iterates over batches of commit events (`judging.EVENTS`).
    `members`: member intervals; `runs`: the partitions the members held (intervals.py). `complete_from` may have a column
    `settled_from`: the intervals do not cover the state before that offset, except that they show how each ownership still
    open then began.
    """

    packets: DataFrame
    members: DataFrame
    runs: DataFrame
    complete_from: DataFrame

    @cached_property
    def _known(self) -> tuple[DataFrame, dict[tuple[str, int], Bounds]]:
        holds = F.col("held").isNotNull().alias("holds")
        members = self.members.select(*MEMBER_COLUMNS, "from_offset", "to_offset", "epoch", "revocation_epoch", holds)
        held = self.runs.select(
            *MEMBER_COLUMNS, "from_offset", "to_offset", "topic_key", "partition", "since",
            F.col("acquired.epoch").alias("acquired"),
        )  # fmt: skip
        held = held.toDF(*held.columns)  # Columns of its own: both may come from the same frame.
        history = (
            members.groupBy(*SHARD)
            .cogroup(held.groupBy(*SHARD))
            .applyInArrow(_pack, "log_id string, shard int, history binary")
        )
        found = [row.asDict() for row in self.complete_from.collect()]
        bounds = {(row["log_id"], row["shard"]): Bounds(row["complete_from"], row.get("settled_from")) for row in found}
        return materialize(history), bounds

    def rows(self) -> DataFrame:
        """The table: one row per partition of each CommitDecided event."""
        schema = from_arrow_schema(judging.SCHEMA)
        return self._judged(lambda judged: (each.as_table() for each in judged), schema)

    def findings(self, into: Path | None = None) -> DataFrame:
        """The findings (findings.FINDINGS). With a folder, the tasks also write the rows there, by day."""

        def collected(judged: Iterator[JudgedBatch]) -> ArrowBatches:
            noted, context = Findings(), TaskContext.get()
            assert context is not None
            with nullcontext() if into is None else DayFiles(into, context.partitionId(), _TIME, _SOUGHT) as files:
                for each in judged:
                    if files is not None:
                        files.add(each.batch())
                    yield from noted.add(each)
            yield from noted.end()

        return self._judged(collected, from_arrow_schema(FINDINGS))

    def _judged(self, function: Callable[[Iterator[JudgedBatch]], ArrowBatches], schema: StructType) -> DataFrame:
        """Applies a function to what the tasks judge."""
        known, bounds = self._known

        def judged(rows: ArrowBatches) -> Iterator[JudgedBatch]:
            history: tuple[Any, AssignmentHistory] | None = None
            for row in (row for batch in rows for row in batch.to_pylist()):
                shard = row["log_id"], row["shard"]
                if history is None or history[0] != shard:
                    packed = row["history"]
                    history = shard, AssignmentHistory.empty() if packed is None else pickle.loads(packed)  # noqa: S301 - of _pack
                for batch in pickle.loads(row["packet"]):  # noqa: S301 - of this job
                    each = judge(batch, history[1], bounds)
                    if each is not None:
                        yield each

        # The side that is broadcast is small, and the packets stay in the partitions that they are in.
        joined = self.packets.join(F.broadcast(known), list(SHARD), "left")
        return joined.mapInArrow(lambda rows: function(judged(rows)), schema)


def _pack(shard: tuple[Any, ...], members: Any, held: Any) -> Any:
    row = {"log_id": shard[0], "shard": shard[1], "history": pickle.dumps(AssignmentHistory(members, held))}
    return pa.table({name: [value] for name, value in row.items()})


def sums(findings: DataFrame) -> Sums:
    """The sums of all tasks."""
    return Sums(findings.where("sums is not null").select("sums.*").toArrow())


def broken_rules(findings: DataFrame) -> DataFrame:
    """The rows of invariants_broken that come from commits."""
    return findings.where("broken is not null").select("broken.*")
