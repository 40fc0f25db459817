"""Judges a batch of commits: applies the rules of verdicts.py to all its commits at once.

    CommitDecided events  --judge-->  one row per partition  --findings.py-->  sums per group and policy, broken invariants
                              ^ AssignmentHistory

Spark is not used here. A batch is an Arrow record batch with the columns `EVENTS`, in any order. Where a table has null, the
NumPy arrays have NONE, which is smaller than every number and equal to none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_coordinator_log.jobs.assignment_history import (
    MEMBER_COLUMNS,
    NONE,
    AssignmentHistory,
    EncodedColumn,
    Ints,
    Mask,
    MemberStates,
    Ownerships,
    integers,
    unique_combinations,
)
from pyspark_coordinator_log.jobs.vocabulary import (
    ACCEPTED,
    AHEAD,
    CLASSIC,
    COMMIT_DECIDED,
    CONSUMER,
    FAILED,
    FENCING_ERRORS,
    LOST,
    NOT_A_MEMBER,
    POLICIES,
    REFUSED,
    SAFE,
    STREAMS,
    UNCLAIMED,
    UNKNOWN,
    UNOWNED,
)

EVENTS = (
    "log_id", "shard", "offset", "type", "problem", "group", "group_kind", "member_id", "epoch", "state_offset", "time_ms",
    "member_epoch", "revocation_epoch", "error", "policy", "strict_accepts", "revocation_epoch_accepts",
    "assignment_epoch_accepts", "client_id", "transactional_id", "commit_producer_id", "partitions",
)  # fmt: skip
"""The columns needed from the view `events`."""
TRUTHS = (SAFE, LOST, AHEAD, NOT_A_MEMBER, UNOWNED, UNCLAIMED, UNKNOWN)
OUTCOMES = (ACCEPTED, REFUSED, FAILED)
_SAFE, _LOST, _AHEAD, _NOT_A_MEMBER, _UNOWNED, _UNCLAIMED, _UNKNOWN = range(len(TRUTHS))
_ACCEPTED, _REFUSED, _FAILED = range(len(OUTCOMES))
NO_VERDICT = 2
"""The third value of a verdict, besides 0 and 1."""
_TEXTS = ("log_id", "group", "member_id", "policy", "client_id", "transactional_id")
_CODED = (*_TEXTS, "shard", "group_kind", "error")

SCHEMA = pa.schema([
    ("log_id", pa.string()), ("shard", pa.int32()), ("group", pa.string()), ("kind", pa.string()),
    ("member_id", pa.string()), ("offset", pa.int64()), ("state_offset", pa.int64()), ("time_ms", pa.int64()),
    ("request_partitions", pa.int32()), ("topic_key", pa.string()), ("topic", pa.string()), ("partition", pa.int32()),
    ("committed_offset", pa.int64()), ("commit_epoch", pa.int32()), ("error", pa.string()), ("policy", pa.string()),
    ("evidence", pa.string()), ("member_epoch", pa.int32()), ("revocation_epoch", pa.int32()), ("is_owned", pa.bool_()),
    ("owned_since", pa.int32()), ("recorded_since", pa.int32()), ("told_member_epoch", pa.int32()),
    ("told_since", pa.int32()), ("told_strict_accepts", pa.bool_()), ("told_revocation_epoch_accepts", pa.bool_()),
    ("told_assignment_epoch_accepts", pa.bool_()), ("client_id", pa.string()), ("transactional_id", pa.string()),
    ("producer_id", pa.int64()), ("truth", pa.string()), ("strict_accepts", pa.bool_()),
    ("revocation_epoch_accepts", pa.bool_()), ("assignment_epoch_accepts", pa.bool_()), ("outcome", pa.string()),
])  # fmt: skip
"""The schema of the table commit_verdicts."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets from which a shard's state log, and the assignment history made of it, are complete. None: nowhere."""

    complete_from: int | None
    settled_from: int | None

    @property
    def known_from(self) -> int:
        """Before this offset only the event itself is reliable."""
        known = self.complete_from if self.settled_from is None else self.settled_from
        return 1 << 62 if known is None else known


@dataclass(slots=True)
class JudgedBatch:
    """The rows of a batch, grouped by request. `first` is the first row of each request, `of` the request of each row."""

    columns: dict[str, Any]
    """Arrow columns; text is dictionary-encoded."""
    of: Ints
    first: Ints
    who: list[tuple[Any, ...]]
    """The distinct (log_id, shard, group, member) of the requests; `of_who` is the index for each request."""
    of_who: Ints
    policy: EncodedColumn
    has_kind: Mask
    is_classic: Mask
    is_consumer: Mask
    truth: npt.NDArray[np.int8]
    outcome: npt.NDArray[np.int8]
    by_state: Mask
    accepts: tuple[npt.NDArray[np.int8], ...]
    reported_accepts: tuple[npt.NDArray[np.int8], ...]
    """Per request."""
    reported_epoch: Ints
    epoch: Ints
    reported_since: Ints
    is_owned: Mask

    def __len__(self) -> int:
        return len(self.of)

    def is_truth(self, *words: str) -> Mask:
        """Mask of the rows with one of these values of `truth`."""
        return _among(self.truth, TRUTHS, words)

    def is_outcome(self, *words: str) -> Mask:
        """Mask of the rows with one of these outcomes."""
        return _among(self.outcome, OUTCOMES, words)

    def batch(self) -> Any:
        """The rows with the columns of the table; text stays dictionary-encoded."""
        return pa.RecordBatch.from_arrays([self.columns[name] for name in SCHEMA.names], SCHEMA.names)

    def as_table(self) -> Any:
        """The rows with the exact schema of the table."""
        columns = [self.columns[field.name].cast(field.type) for field in SCHEMA]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def row(self, place: int) -> dict[str, Any]:
        """One row."""
        return {name: column[place].as_py() for name, column in self.columns.items()}


def _among(codes: npt.NDArray[np.int8], all_words: Sequence[str], words: Iterable[str]) -> Mask:
    found: Mask = np.array([word in words for word in all_words])[codes]
    return found


def judge(batch: Any, history: AssignmentHistory, bounds: Mapping[tuple[str, int], Bounds]) -> JudgedBatch | None:
    """Judges every partition of every commit in a batch of events; None if there are none."""
    batch = _decisions(batch)
    requests = {name: batch.column(name) for name in EVENTS}
    requests["member_id"] = pc.fill_null(requests["member_id"], "")
    of, first, items = _exploded(requests["partitions"])
    if not len(of):
        return None
    at = pa.array(of)
    coded = {name: requests[name].dictionary_encode() for name in _CODED}
    who, of_who = unique_combinations([EncodedColumn(coded[name]) for name in MEMBER_COLUMNS])
    position = integers(requests["state_offset"])
    kind = EncodedColumn(coded["group_kind"])
    is_classic, is_consumer = _is(kind, CLASSIC), _is(kind, CONSUMER)
    known_from = np.array([bounds.get(each[:2], _NOWHERE).known_from for each in who], np.int64)[of_who]
    # A streams group's records contain tasks; which partitions those read is only in the event.
    by_state = (position >= known_from) & ~_is(kind, STREAMS)

    member = history.numbers(who)[of_who]
    now = history.members_at(member, position)
    topic_key = _topic_keys(items, is_classic[of])
    partition = integers(items["partition"])
    had = history.ownerships_at(member[of], EncodedColumn(topic_key), partition, position[of])

    reported_epoch = integers(requests["member_epoch"])
    reported_since = integers(items["assignment_epoch"])
    commit_epoch = integers(requests["epoch"])[of]
    facts = _facts(
        now, had, by_state, of, reported_epoch, integers(requests["revocation_epoch"]), reported_since, is_classic
    )
    truth = _truth(commit_epoch, reported_epoch[of], facts, is_classic[of])
    has_policy = kind.codes[of] >= 0
    has_policy &= ~is_classic[of] & (truth != _UNCLAIMED)
    accepts = tuple(np.where(has_policy, each, NO_VERDICT).astype(np.int8) for each in _accepts(commit_epoch, facts))
    reported_accepts = tuple(_truth_values(requests[f"{name}_accepts"]) for name in POLICIES)
    error = _first_of(items["error"], coded["error"].take(at))
    outcome = _outcome(EncodedColumn(error), EncodedColumn(coded["error"]), of)
    columns = {name: coded[name].take(at) for name in _TEXTS}
    columns |= {name: requests[name].take(at) for name in ("shard", "offset", "state_offset", "time_ms")}
    columns |= {
        "kind": coded["group_kind"].take(at),
        "request_partitions": pa.array(np.diff(np.append(first, len(of)))[of].astype(np.int32)),
        "topic_key": topic_key,
        "topic": items["topic"],
        "partition": items["partition"],
        "committed_offset": items["committed_offset"],
        "commit_epoch": requests["epoch"].take(at),
        "error": error,
        "evidence": _coded(["event", "state"], by_state[of]),
        "member_epoch": _numbers(facts.epoch),
        "revocation_epoch": _numbers(facts.revocation_epoch),
        "is_owned": pa.array(facts.is_owned),
        "owned_since": _numbers(facts.since),
        "recorded_since": _numbers(facts.recorded),
        "told_member_epoch": requests["member_epoch"].take(at),
        "told_since": items["assignment_epoch"],
        "producer_id": requests["commit_producer_id"].take(at),
        "truth": _coded(TRUTHS, truth),
        "outcome": _coded(OUTCOMES, outcome),
    }
    for place, name in enumerate(POLICIES):
        columns[f"{name}_accepts"] = _truths(accepts[place])
        columns[f"told_{name}_accepts"] = requests[f"{name}_accepts"].take(at)
    return JudgedBatch(
        columns=columns,
        of=of,
        first=first,
        who=who,
        of_who=of_who,
        policy=EncodedColumn(coded["policy"]),
        has_kind=kind.codes >= 0,
        is_classic=is_classic,
        is_consumer=is_consumer,
        truth=truth,
        outcome=outcome,
        by_state=by_state,
        accepts=accepts,
        reported_accepts=reported_accepts,
        reported_epoch=reported_epoch,
        epoch=facts.epoch,
        reported_since=reported_since,
        is_owned=facts.is_owned,
    )


_NOWHERE = Bounds(None, None)


def _decisions(batch: Any) -> Any:
    """The commit events that could be decoded."""
    wanted = pc.and_(pc.equal(batch.column("type"), COMMIT_DECIDED), pc.is_null(batch.column("problem")))
    return batch if pc.all(wanted).as_py() else batch.filter(pc.fill_null(wanted, fill_value=False))


def _exploded(lists: Any) -> tuple[Ints, Ints, dict[str, Any]]:
    """Flattens lists of structs: the list of each element, the index of each list's first element, and the fields."""
    length = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    elements = lists.flatten()
    names = [elements.type.field(place).name for place in range(elements.type.num_fields)]
    fields = dict(zip(names, elements.flatten(), strict=True))
    # A request without partitions contributes no rows.
    return np.repeat(np.arange(len(length)), length), np.cumsum(length) - length, fields


def _is(kind: EncodedColumn, name: str) -> Mask:
    found: Mask = kind.mapped([value == name for value in kind.values], 0) > 0
    return found


def _topic_keys(items: Mapping[str, Any], is_classic: Mask) -> Any:
    """Classic groups' records identify a topic by name, all others by id."""
    ids, names = items["topic_id"].dictionary_encode(), items["topic"]
    if not ids.null_count and not is_classic.any():
        return ids
    by_id = pc.coalesce(ids.dictionary_decode(), names)
    by_name = pc.coalesce(names, by_id)
    return pc.if_else(pa.array(is_classic), by_name, by_id).dictionary_encode()


def _first_of(text: Any, coded: Any) -> Any:
    """The text, or the other column's value where it is null."""
    if text.null_count == len(text):
        return coded
    return pc.coalesce(text, coded.dictionary_decode()).dictionary_encode()


@dataclass(slots=True)
class _Facts:
    """The facts: from the state log where it is complete, else from the event."""

    epoch: Ints
    revocation_epoch: Ints
    is_owned: Mask
    since: Ints
    recorded: Ints
    ownership_is_known: Mask


def _facts(
    now: MemberStates,
    had: Ownerships,
    by_state: Mask,
    of: Ints,
    reported_epoch: Ints,
    reported_revocation_epoch: Ints,
    reported_since: Ints,
    is_classic: Mask,
) -> _Facts:
    epoch = np.where(by_state, now.epoch, reported_epoch)[of]
    lost = np.where(by_state, now.revocation_epoch, reported_revocation_epoch)[of]
    known = np.where(by_state, now.holds | ~now.is_there, ~is_classic)[of]
    if by_state.all():
        return _Facts(epoch, lost, had.is_owned, had.acquired, had.recorded, known)
    here = by_state[of]
    return _Facts(
        epoch, lost, np.where(here, had.is_owned, reported_since != NONE), np.where(here, had.acquired, reported_since),
        np.where(here, had.recorded, reported_since), known,
    )  # fmt: skip


def _truth(commit_epoch: Ints, reported_epoch: Ints, facts: _Facts, is_classic: Mask) -> npt.NDArray[np.int8]:
    """Applies the rules listed in verdicts.py; the first match wins."""
    e, now, since = commit_epoch, facts.epoch, facts.since
    no_member = now == NONE
    # The event of a classic group may know a generation that was not written to the log yet.
    unwritten = is_classic & (e == reported_epoch) & (e != NONE)
    rules = (
        (no_member & (e < 0), _UNCLAIMED),
        (no_member & unwritten, _UNKNOWN),
        (no_member, _NOT_A_MEMBER),
        (unwritten & (e > now), _UNKNOWN),
        (e > now, _AHEAD),
        (~facts.ownership_is_known & (e < now), _LOST),
        (~facts.ownership_is_known, _UNKNOWN),
        (~facts.is_owned & (e == now), _UNOWNED),
        (~facts.is_owned, _LOST),
        (e == now, _SAFE),
        (since == NONE, _UNKNOWN),
        (since <= e, _SAFE),
    )
    conditions, choices = zip(*rules, strict=True)
    return np.select(conditions, [np.int8(choice) for choice in choices], np.int8(_LOST))


def _accepts(commit_epoch: Ints, facts: _Facts) -> tuple[Mask, ...]:
    """Replays POLICIES for each partition. They see ownership as the member's record has it."""
    e, now, lost = commit_epoch, facts.epoch, facts.revocation_epoch
    is_now = (e == now) & (e != NONE)
    had_it_then = (e < now) & facts.is_owned & (facts.recorded != NONE) & (facts.recorded <= e)
    return is_now, is_now | (had_it_then & (lost >= 0) & (lost < e)), is_now | had_it_then


def _outcome(error: EncodedColumn, request_error: EncodedColumn, of: Ints) -> npt.NDArray[np.int8]:
    """Classifies each row: accepted; refused because of its sender; failed because of its content."""
    own = error.mapped([value in FENCING_ERRORS for value in error.values], 0) > 0
    fenced = request_error.mapped([value in FENCING_ERRORS for value in request_error.values], -1)[of]
    refused = np.where(fenced >= 0, fenced > 0, own)
    return np.where(error.codes < 0, _ACCEPTED, np.where(refused, _REFUSED, _FAILED)).astype(np.int8)


def _coded(words: Iterable[str], codes: Any) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8)), pa.array(list(words), pa.string()))


def _numbers(values: Ints) -> Any:
    missing = values == NONE
    return pa.array(values.astype(np.int32), mask=missing if missing.any() else None)


def _truths(values: npt.NDArray[np.int8]) -> Any:
    missing = values == NO_VERDICT
    return pa.array(values == 1, mask=missing if missing.any() else None)


def _truth_values(column: Any) -> npt.NDArray[np.int8]:
    values = integers(column)
    return np.where(values == NONE, NO_VERDICT, values).astype(np.int8)
