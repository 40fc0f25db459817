"""Every commit that was decided, beside what history says about it.

The event log says who committed what with which epoch, and what was answered. The state log says, independently, what the
member's epoch was at that moment and since when each partition was its. Put together, a commit of a partition is

    safe            the member had the partition in the epoch it commits with, and has had it ever since
    lost            it has it not, or got it again later: what it says may be older than what the next owner said (a zombie)
    ahead           its epoch is not the member's, and not an earlier one either (a zombie)
    not a member    nobody by that id was in the group (a zombie)
    unowned         its epoch is the member's of that moment, and the partition is not: every policy lets it through
    unclaimed       it does not claim to come from a member: a simple consumer, an admin's tool; not judged
    unknown         the log cannot say: a compacted past, an assignment in a protocol that nobody here knows, a classic
                    round that was not written yet

The policies are replayed on the same facts (groups/fencing.py has their words). A request is one decision, since one
partition that fails fails all of it; a policy refuses *rightly* if some partition of the request is a zombie's (or unowned,
where the group's settings look at that), and *wrongly* if none is. What history has is used before what the event tells; where
the state log was compacted, and for streams groups, whose records know tasks and not partitions, only the event is left, and
`evidence` says so.

Where the commits are, there they are judged: their intervals (holdings.py) are sent to the tasks that read them, and each
batch is judged as it is read (judging.py). No commit is sorted, moved, or looked at twice: the sums of policy_replay, what is
broken (findings.py), and the table itself come of one pass. The rules are there; what is here is the pass.
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

from coordinator.pipeline import judging
from coordinator.pipeline.assignment_history import MEMBER_COLUMNS, AssignmentHistory
from coordinator.pipeline.files import DayFiles
from coordinator.pipeline.findings import FINDINGS, Findings, Sums
from coordinator.pipeline.judging import Bounds, JudgedBatch, judge

ArrowBatches = Iterator[Any]
"""Of Arrow."""
CommitEvents = Callable[[Callable[[ArrowBatches], ArrowBatches], StructType], DataFrame]
"""Applies a function to the batches of the events, wherever those are: `judging.EVENTS` in, rows of the schema out."""
_TIME = "time_ms"
_SOUGHT = ("shard", "group", "offset", "state_offset", _TIME, "truth", "outcome")


@dataclass(frozen=True)
class VerdictPass:
    """The commits that were decided, to be judged.

    `members` are member intervals and `runs` is what they held (intervals.py). `complete_from` may have a column
    `settled_from`: what those say of the state before that offset is not whole, though they say how each ownership began
    that was left then.
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
        """What follows from the rows (findings.FOUND). With a folder, the tasks write the rows there, as files by day."""
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
    """What the tasks summed up."""
    return Sums(findings.where("sums is not null").select("sums.*").toArrow())


def broken_rules(findings: DataFrame) -> DataFrame:
    """Rows of invariants_broken."""
    return findings.where("broken is not null").select("broken.*")
