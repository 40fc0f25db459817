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

Commits are judged where they are read: the intervals (assignment_history.py) are broadcast to the tasks, which judge each
batch as they read it (judging.py). No commit is sorted, moved or read twice: the sums of policy_replay, the broken
invariants (findings.py) and the table itself come from one pass, which this module implements.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pyspark_coordinator_log.jobs import judging
from pyspark_coordinator_log.jobs.assignment_history import MEMBER_COLUMNS, AssignmentHistory
from pyspark_coordinator_log.jobs.files import DayFiles
from pyspark_coordinator_log.jobs.findings import FINDINGS, Findings, Sums
from pyspark_coordinator_log.jobs.judging import Bounds, JudgedBatch, judge

ArrowBatches = Iterator[Any]
"""Iterators over Arrow record batches."""
CommitEvents = Callable[[Callable[[ArrowBatches], ArrowBatches], StructType], DataFrame]
"""Applies a function to the batches of commit events, wherever they are: `judging.EVENTS` in, rows of the schema out."""
_TIME = "time_ms"
_SOUGHT = ("shard", "group", "offset", "state_offset", _TIME, "truth", "outcome")


@dataclass(frozen=True)
class VerdictPass:
    """One pass over the decided commits.

    `members`: member intervals; `runs`: the partitions the members held (intervals.py). `complete_from` may have a column
    `settled_from`: the intervals do not cover the state before that offset, except that they show how each ownership still
    open then began.
    """

    commit_events: CommitEvents
    members: DataFrame
    runs: DataFrame
    complete_from: DataFrame

    @cached_property
    def _known(self) -> tuple[Any, dict[tuple[str, int], Bounds]]:
        holds = F.col("held").isNotNull().alias("holds")
        members = self.members.select(
            *MEMBER_COLUMNS, "from_offset", "to_offset", "epoch", "revocation_epoch", holds
        ).toArrow()
        held = self.runs.select(
            *MEMBER_COLUMNS, "from_offset", "to_offset", "topic_key", "partition", "since",
            F.col("acquired.epoch").alias("acquired"),
        ).toArrow()  # fmt: skip
        found = [row.asDict() for row in self.complete_from.collect()]
        bounds = {(row["log_id"], row["shard"]): Bounds(row["complete_from"], row.get("settled_from")) for row in found}
        return self.members.sparkSession.sparkContext.broadcast(AssignmentHistory(members, held)), bounds

    def rows(self) -> DataFrame:
        """The table: one row per partition of each CommitDecided event."""
        judged = self._judged()

        def verdict_rows(events: ArrowBatches) -> ArrowBatches:
            for each in judged(events):
                yield each.as_table()

        return self.commit_events(verdict_rows, from_arrow_schema(judging.SCHEMA))

    def findings(self, into: Path | None = None) -> DataFrame:
        """The findings (findings.FINDINGS). With a folder, the tasks also write the rows there, by day."""
        judged = self._judged()

        def collected(events: ArrowBatches) -> ArrowBatches:
            noted = Findings()
            for each in judged(events):
                yield from noted.add(each)
            yield from noted.end()

        def written(events: ArrowBatches) -> ArrowBatches:
            noted, context = Findings(), TaskContext.get()
            assert into is not None
            assert context is not None
            with DayFiles(into, context.partitionId(), _TIME, _SOUGHT) as files:
                for each in judged(events):
                    files.add(each.batch())
                    yield from noted.add(each)
            yield from noted.end()

        return self.commit_events(collected if into is None else written, from_arrow_schema(FINDINGS))

    def _judged(self) -> Callable[[ArrowBatches], Iterator[JudgedBatch]]:
        history, bounds = self._known

        def judged(events: ArrowBatches) -> Iterator[JudgedBatch]:
            for batch in events:
                each = judge(batch, history.value, bounds)
                if each is not None:
                    yield each

        return judged


def sums(findings: DataFrame) -> Sums:
    """The sums of all tasks."""
    return Sums(findings.where("sums is not null").select("sums.*").toArrow())


def broken_rules(findings: DataFrame) -> DataFrame:
    """The rows of invariants_broken that come from commits."""
    return findings.where("broken is not null").select("broken.*")
