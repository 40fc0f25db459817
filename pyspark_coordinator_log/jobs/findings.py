"""Results derived from judged commits: sums per group and policy, and broken invariants.

A request is one event, so all its partitions are in the same batch of judging.py, and statements about requests
(policy_replay, the rule `verdict`) need no other batch. Each task sums up its batches as it goes (`Findings`) and emits one
row per group and policy, plus the broken rows. The sums of all tasks are few enough to be added up on the driver (`Sums`),
which has held the intervals of all members before.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_coordinator_log.jobs.assignment_history import NONE, Ints, Mask
from pyspark_coordinator_log.jobs.judging import NO_VERDICT, JudgedBatch
from pyspark_coordinator_log.jobs.vocabulary import (
    ACCEPTED,
    EVENT_DISAGREES,
    EVENT_LOG,
    FAILED,
    IN_FORCE,
    POLICIES,
    REFUSED,
    UNCLAIMED,
    UNKNOWN,
    UNOWNED,
    VERDICT,
    ZOMBIE_ACCEPTED,
    ZOMBIES,
)

PARTITION_COUNTS = (
    "decisions", "accepted", "refused", "failed", "zombies_accepted", "zombies_refused", "unowned_accepted",
    "unowned_refused", "unclaimed", "cannot_say", "classic", "by_event_alone",
)  # fmt: skip
_REQUEST_COUNTS = ("requests", "requests_unknown")
REQUEST_TALLIES = (
    "refused_rightly", "refused_wrongly", "refused_unknown", "accepted_zombies", "accepted_zombie_partitions",
    "accepted_unowned", "accepted_unowned_partitions",
)  # fmt: skip
_REFUSALS = 3
"""How many of the tallies, from the first on, count refusals."""
REPLAYED = (*POLICIES, IN_FORCE)
COUNTERS = (*PARTITION_COUNTS, *_REQUEST_COUNTS, *(f"{name}:{what}" for name in REPLAYED for what in REQUEST_TALLIES))
"""The counters in a sum: partitions, requests, and requests per policy (`in force`: as answered)."""
BROKEN = pa.struct([
    ("rule", pa.string()), ("log_id", pa.string()), ("shard", pa.int32()), ("group", pa.string()),
    ("member_id", pa.string()), ("other_member_id", pa.string()), ("topic_key", pa.string()), ("partition", pa.int32()),
    ("log", pa.string()), ("offset", pa.int64()), ("until_offset", pa.int64()), ("time_ms", pa.int64()),
    ("detail", pa.string()),
])  # fmt: skip
"""The schema of the table invariants_broken."""
SUMS = pa.struct([
    ("log_id", pa.string()), ("shard", pa.int32()), ("group", pa.string()), ("policy", pa.string()),
    ("counts", pa.list_(pa.int64())),
])  # fmt: skip
FINDINGS = pa.schema([("sums", SUMS), ("broken", BROKEN)])
"""Each row has exactly one of the two."""
_BROKEN_AT_ONCE = 10_000


REPLAY = pa.schema([
    ("log_id", pa.string()), ("shard", pa.int32()), ("group", pa.string()), ("policy_in_force", pa.string()),
    ("replayed", pa.string()),
    *((name, pa.int64()) for name in ("requests", "cannot_say", "refused", *REQUEST_TALLIES)),
])  # fmt: skip
"""The schema of the table policy_replay."""


class Findings:
    """Accumulates the sums and the broken rows of one task."""

    def __init__(self) -> None:
        self._sums: dict[tuple[Any, ...], Ints] = {}
        self._broken: list[dict[str, Any]] = []

    def add(self, judged: JudgedBatch) -> Iterator[Any]:
        """Adds a batch. Yields broken rows as soon as there are many."""
        requests = _Requests(judged)
        self._count(judged, requests)
        self._broken += _zombies_accepted(judged)
        self._broken += _event_disagreements(judged)
        self._broken += _verdicts_differ(judged, requests)
        if len(self._broken) >= _BROKEN_AT_ONCE:
            yield self._rows("broken", self._broken)
            self._broken = []

    def end(self) -> Iterator[Any]:
        """Yields the remaining rows."""
        sums = [
            {**dict(zip(SUMS.names, key, strict=False)), "counts": counts.tolist()}
            for key, counts in self._sums.items()
        ]
        if sums:
            yield self._rows("sums", sums)
        if self._broken:
            yield self._rows("broken", self._broken)

    @staticmethod
    def _rows(what: str, rows: list[dict[str, Any]]) -> Any:
        other = "broken" if what == "sums" else "sums"
        columns = {
            what: pa.array(rows, FINDINGS.field(what).type),
            other: pa.nulls(len(rows), FINDINGS.field(other).type),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in FINDINGS.names], schema=FINDINGS)

    def _count(self, judged: JudgedBatch, requests: "_Requests") -> None:
        policies = len(judged.policy.values) + 1
        # Keyed by group, not by member, so there are few distinct keys.
        groups = list(dict.fromkeys(each[:3] for each in judged.who))
        number = {each: place for place, each in enumerate(groups)}
        of_group = np.array([number[each[:3]] for each in judged.who], np.int64)[judged.of_who]
        key = of_group * policies + judged.policy.codes + 1
        size = len(groups) * policies
        counts = np.empty((size, len(COUNTERS)), np.int64)
        partition_key = key[judged.of]
        for place, values in enumerate(_partition_counts(judged)):
            counts[:, place] = np.bincount(partition_key[values], minlength=size)
        for place, (values, weights) in enumerate(requests.counts(), len(PARTITION_COUNTS)):
            chosen = None if weights is None else weights[values]
            counts[:, place] = np.bincount(key[values], chosen, minlength=size)
        for place in np.flatnonzero(counts[:, 0]).tolist():
            group, policy = divmod(place, policies)
            name = judged.policy.values[policy - 1] if policy else None
            so_far = self._sums.setdefault((*groups[group], name), np.zeros(len(COUNTERS), np.int64))
            so_far += counts[place]


def _partition_counts(judged: JudgedBatch) -> Iterator[Mask]:
    """Masks in the order of COUNTERS."""
    accepted, refused = judged.is_outcome(ACCEPTED), judged.is_outcome(REFUSED)
    yield np.ones(len(judged), bool)
    yield accepted
    yield refused
    yield judged.is_outcome(FAILED)
    for which in (judged.is_truth(*ZOMBIES), judged.is_truth(UNOWNED)):
        yield which & accepted
        yield which & refused
    yield judged.is_truth(UNCLAIMED)
    yield judged.is_truth(UNKNOWN)
    yield judged.is_classic[judged.of]
    yield ~judged.by_state[judged.of]


class _Requests:
    """Aggregates a batch by request. A partition that failed for its content does not affect the others."""

    __slots__ = (
        "accepts",
        "in_force",
        "is_failed",
        "is_unclaimed",
        "is_unknown",
        "judged",
        "some",
        "unowned",
        "zombies",
    )

    def __init__(self, judged: JudgedBatch) -> None:
        self.judged = judged
        self.some = np.flatnonzero(np.diff(np.append(judged.first, len(judged))))
        failed = judged.is_outcome(FAILED)
        sound = ~failed
        self.zombies = self._sum(judged.is_truth(*ZOMBIES) & sound)
        self.unowned = self._sum(judged.is_truth(UNOWNED) & sound)
        self.is_unknown = self._sum(judged.is_truth(UNKNOWN)) > 0
        self.is_unclaimed = self._all(judged.is_truth(UNCLAIMED))
        self.is_failed = self._all(failed)
        self.in_force = self._all(judged.is_outcome(ACCEPTED) | failed)
        self.accepts = tuple(self._all((each != 0) | failed) for each in judged.accepts)

    def _sum(self, values: Mask) -> Ints:
        out = np.zeros(len(self.judged.first), np.int64)
        out[self.some] = np.add.reduceat(values.astype(np.int64), self.judged.first[self.some])
        return out

    def _all(self, values: Mask) -> Mask:
        out = np.zeros(len(self.judged.first), bool)
        out[self.some] = np.logical_and.reduceat(values, self.judged.first[self.some])
        return out

    @property
    def is_replayed(self) -> Mask:
        """Requests a policy decides on: a member of a group with policies sent them, and their content was valid."""
        judged = self.judged
        there = np.zeros(len(judged.first), bool)
        there[self.some] = True
        has_kind = judged.has_kind & ~judged.is_classic
        return there & has_kind & ~self.is_unclaimed & ~self.is_failed

    def counts(self) -> Iterator[tuple[Mask, Ints | None]]:
        """Yields (which requests, weight of each) in the order of COUNTERS."""
        replayed = self.is_replayed
        yield replayed, None
        yield replayed & self.is_unknown, None
        zombies, unowned = self.zombies > 0, self.unowned > 0
        wrong = zombies | unowned
        for accepts in (*self.accepts, self.in_force):
            refused, accepted = replayed & ~accepts, replayed & accepts
            yield refused & wrong, None
            yield refused & ~wrong & ~self.is_unknown, None
            yield refused & ~wrong & self.is_unknown, None
            yield accepted & zombies, None
            yield accepted, self.zombies
            yield accepted & unowned, None
            yield accepted, self.unowned


def _broken(rule: str, row: Mapping[str, Any], detail: str, *, partition: bool) -> dict[str, Any]:
    columns = {name: row[name] for name in ("log_id", "shard", "group", "member_id", "offset", "time_ms")}
    if partition:
        columns |= {name: row[name] for name in ("topic_key", "partition")}
    return columns | {"rule": rule, "log": EVENT_LOG, "detail": detail}


def _text_or(value: Any, instead: str) -> Any:
    return instead if value is None else value


def _zombies_accepted(judged: JudgedBatch) -> Iterator[dict[str, Any]]:
    """Yields accepted commits that no policy should accept."""
    for place in np.flatnonzero(judged.is_truth(*ZOMBIES) & judged.is_outcome(ACCEPTED)).tolist():
        row = judged.row(place)
        yield _broken(
            ZOMBIE_ACCEPTED,
            row,
            f"{row['truth']}: committed offset {row['committed_offset']} with epoch {row['commit_epoch']}; the member's was "
            f"{_text_or(row['member_epoch'], 'none')}, the partition its since {_text_or(row['owned_since'], 'never')}",
            partition=True,
        )


def _event_disagreements(judged: JudgedBatch) -> Iterator[dict[str, Any]]:
    """Yields commits of members of consumer groups where the event contradicts the state log.

    A watcher knows since when the owner has had a partition, and not that the owner committed.
    """
    of = judged.of
    reported, actual = judged.reported_epoch[of], np.where(judged.epoch >= 0, judged.epoch, NONE)
    epochs_differ, ownership_differs = reported != actual, (judged.reported_since != NONE) != judged.is_owned
    wrong = (epochs_differ | ownership_differs) & judged.is_consumer[of] & judged.by_state[of]
    wrong &= ~judged.is_truth(UNCLAIMED)
    for place in np.flatnonzero(wrong).tolist():
        row = judged.row(place)
        said = []
        if epochs_differ[place]:
            said.append(
                f"the event's member epoch is {_text_or(row['told_member_epoch'], 'none')}, the log's "
                f"{_text_or(row['member_epoch'], 'none')}"
            )
        if ownership_differs[place]:
            said.append(
                "the event says that it did not own it" if row["is_owned"] else "the event says that it owned it"
            )
        yield _broken(EVENT_DISAGREES, row, "; ".join(said), partition=True)


def _verdicts_differ(judged: JudgedBatch, requests: _Requests) -> Iterator[dict[str, Any]]:
    """Yields requests whose recorded verdict differs from the replayed one."""
    # With `fencing.require.ownership` the recorded verdicts consider ownership, which the replay of the bare policies does not.
    comparable = requests.is_replayed & judged.is_consumer & judged.by_state & (requests.unowned == 0)
    differs = [
        comparable & (reported != NO_VERDICT) & (reported != accepts)
        for reported, accepts in zip(judged.reported_accepts, requests.accepts, strict=True)
    ]
    for request in np.flatnonzero(np.logical_or.reduce(differs)).tolist():
        row = judged.row(int(judged.first[request]))
        said = [
            f"{name}: the event says {'accepts' if reported[request] else 'refuses'}"
            for name, reported, wrong in zip(POLICIES, judged.reported_accepts, differs, strict=True)
            if wrong[request]
        ]
        yield _broken(VERDICT, row, "; ".join(said), partition=False)


class Sums:
    """The sums of all tasks, for each group and policy in force (None in classic groups)."""

    def __init__(self, rows: Any) -> None:
        """`rows`: a table with the columns of SUMS."""
        keys = list(zip(*(rows.column(name).to_pylist() for name in SUMS.names[:-1]), strict=True))
        number: dict[tuple[Any, ...], int] = {}
        of = np.array([number.setdefault(key, len(number)) for key in keys], np.int64)
        self._keys = list(number)
        self._counts = np.zeros((len(number), len(COUNTERS)), np.int64)
        counts = rows.column("counts").combine_chunks().flatten().to_numpy(zero_copy_only=False)
        np.add.at(self._counts, of, counts.reshape(-1, len(COUNTERS)))

    @cached_property
    def replay(self) -> Any:
        """One row per group and policy, including `in force`: how many requests were rightly or wrongly decided."""
        with_requests = np.flatnonzero(self._totals_of("requests"))
        keys = [self._keys[place] for place in with_requests.tolist() for _ in REPLAYED]
        if not keys:
            return REPLAY.empty_table()
        columns = [pa.array(values, field.type) for values, field in zip(zip(*keys, strict=True), REPLAY, strict=False)]
        columns.append(pa.array([*REPLAYED] * len(with_requests)))
        columns += [
            pa.array(np.repeat(self._totals_of(name)[with_requests], len(REPLAYED)))
            for name in ("requests", "requests_unknown")
        ]
        tallies = [
            np.stack([self._totals_of(f"{replayed}:{what}")[with_requests] for replayed in REPLAYED], axis=1).ravel()
            for what in REQUEST_TALLIES
        ]
        columns += [pa.array(each) for each in (sum(tallies[:_REFUSALS]), *tallies)]
        return pa.Table.from_arrays(columns, schema=REPLAY)

    def commits(self) -> dict[str, int]:
        """Counts partitions of commits: all decided ones, and the zombies among them."""
        return {name: int(self._totals_of(name).sum()) for name in PARTITION_COUNTS}

    def policies(self) -> list[dict[str, Any]]:
        """`replay`, summed over all groups."""
        numbers = REPLAY.names[REPLAY.names.index("replayed") + 1 :]
        found = self.replay.group_by("replayed").aggregate([(name, "sum") for name in numbers])
        rows = found.rename_columns([name.removesuffix("_sum") for name in found.column_names]).to_pylist()
        return sorted(
            ({name: row[name] for name in ("replayed", *numbers)} for row in rows), key=lambda row: str(row["replayed"])
        )

    def _totals_of(self, name: str) -> Ints:
        return self._counts[:, COUNTERS.index(name)]
