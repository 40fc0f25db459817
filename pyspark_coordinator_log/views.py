"""Converts the records of a chunk to the columns of a view: the entry point of the decoder.

    piece of a log (batches.py) --find--> Records --select--> the requested ones --table--> an Arrow record batch

Only requested columns are decoded: a query for five columns pays for five.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_coordinator_log import assignments, commits, decisions, messages
from pyspark_coordinator_log.batches import Headers
from pyspark_coordinator_log.buffers import Buffer, Ints, Mask, numbers
from pyspark_coordinator_log.columns import COMMITS, ENVELOPE, EVENTS, HISTORY, RAW, SCHEMAS, SHARE_STATE, STATE
from pyspark_coordinator_log.records import Records, find

NO_TYPE = -1
"""The type of a control record, or of a key too short to have one. Kafka's types are not negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which records and columns are requested. Time ranges are half-open; None is no limit."""

    view: str
    columns: tuple[str, ...]
    groups: frozenset[str] | None
    since_ms: int | None
    until_ms: int | None
    key_types: frozenset[int] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns, in the requested order."""
        whole = SCHEMAS[self.view]
        return pa.schema([whole.field(name) for name in self.columns])


@dataclass(frozen=True, slots=True)
class Origin:
    """Where records come from. `is_state`: state log, not event log. `with_json`: `value_json` is requested."""

    shard: int
    log_id: str
    is_state: bool
    with_json: bool = True


def table(
    source: Buffer, headers: Headers, wanted: Wanted, origin: Origin, offset_from: int, offset_to: int | None
) -> pa.RecordBatch:
    """Converts complete, uncompressed batches to a record batch of `wanted.schema`, in log order.

    Only records of `[offset_from, offset_to)` are included. Raises BadBatch.
    """
    overlaps = headers.base_offset + headers.last_offset_delta >= offset_from
    if offset_to is not None:
        overlaps &= headers.base_offset < offset_to
    if wanted.since_ms is not None:
        overlaps &= headers.max_timestamp >= wanted.since_ms
    if not overlaps.all():
        headers = headers.select(overlaps)
    records = find(source, headers)
    types = key_types(records)
    keep = (records.offset >= offset_from) & _of_view(wanted.view, types, records)
    if offset_to is not None:
        keep &= records.offset < offset_to
    if wanted.since_ms is not None:
        keep &= records.timestamp >= wanted.since_ms
    if wanted.until_ms is not None:
        keep &= records.timestamp < wanted.until_ms
    if wanted.key_types is not None:
        keep &= np.isin(types, list(wanted.key_types))
    if not keep.all():
        records, types = records.select(keep), types[keep]
    if wanted.groups is not None and len(records):
        keep = _of_groups(records, types, wanted.groups)
        records, types = records.select(keep), types[keep]
    origin = replace(origin, with_json="value_json" in wanted.columns)
    makers = _envelope(records, origin) | _MAKERS[wanted.view](records, types, origin)
    return pa.RecordBatch.from_arrays([makers[name]() for name in wanted.columns], schema=wanted.schema)


def key_types(records: Records) -> Any:
    """The type of each record: the first number of its key; NO_TYPE for a control record, whose key also begins with 0."""
    types = records.source.at("i2", np.where(records.key_length >= 2, records.key_start, 0))
    typeless = records.key_length < 2
    if records.headers.is_control.any():
        typeless |= records.headers.is_control[records.batch]
    types[typeless] = NO_TYPE
    return types


def _of_view(view: str, types: Any, records: Records) -> Mask:
    if view == RAW:
        return np.ones(len(records), bool)
    if view == SHARE_STATE:
        return ~records.headers.is_control[records.batch]
    is_commit: Mask = types.view(np.uint16) <= max(commits.KEY_TYPES)
    if view == COMMITS:
        return is_commit
    return ~(is_commit | records.headers.is_control[records.batch])


def _of_groups(records: Records, types: Any, groups: frozenset[str]) -> Mask:
    """Selects by group. In every coordinator key the group follows the type; the few without a group are dropped."""
    source = records.source
    end = records.key_start + np.maximum(records.key_length, 0)
    at = np.minimum(records.key_start + 2, end)
    length = source.at("i2", at).astype(np.int64)
    fits = (types != NO_TYPE) & (length >= 0) & (at + 2 + length <= end)
    names = source.texts(at + 2, np.where(fits, length, 0), fits)
    wanted = pc.is_in(names, value_set=pa.array(sorted(groups), pa.string()))
    found: Mask = wanted.to_numpy(zero_copy_only=False).astype(bool)
    return found


Makers = dict[str, Callable[[], Any]]


def _envelope(records: Records, origin: Origin) -> Makers:
    headers, batch, count = records.headers, records.batch, len(records)
    return {
        "shard": lambda: pa.array(np.full(count, origin.shard, np.int32)),
        "log_id": lambda: pa.repeat(pa.scalar(origin.log_id), count),
        "leader_epoch": lambda: numbers(headers.leader_epoch[batch]),
        "offset": lambda: numbers(records.offset),
        "timestamp_ms": lambda: numbers(records.timestamp),
        "producer_id": lambda: numbers(headers.producer_id[batch]),
        "producer_epoch": lambda: numbers(headers.producer_epoch[batch]),
        "is_transactional": lambda: numbers(headers.is_transactional[batch]),
    }


def _raw(records: Records, types: Any, origin: Origin) -> Makers:
    source = records.source
    control = records.headers.is_control[records.batch]
    has_version = ~control & (records.value_length >= 2)
    has_marker = control & (records.key_length >= 4)
    return {
        "batch_offset": lambda: numbers(records.headers.base_offset[records.batch]),
        "is_control": lambda: numbers(control),
        "key": lambda: source.slices(records.key_start, records.key_length, records.key_length >= 0),
        "value": lambda: source.slices(records.value_start, records.value_length, records.value_length >= 0),
        "key_type": lambda: numbers(types, types != NO_TYPE),
        "value_version": lambda: numbers(source.at("i2", np.where(has_version, records.value_start, 0)), has_version),
        "control_type": lambda: numbers(source.at("i2", np.where(has_marker, records.key_start + 2, 0)), has_marker),
    }


def _commits(records: Records, types: Any, origin: Origin) -> Makers:
    source = records.source
    found = commits.decode(
        source, records.key_start, records.key_length, source, records.value_start, records.value_length
    )
    return commit_columns(found, source, source)


def commit_columns(found: commits.Commits, keys: Buffer, values: Buffer) -> Makers:
    """The columns of commits that need only keys and values."""
    present, sound = found.present, ~found.bad_key
    return {
        "group": lambda: keys.texts(found.group_start, found.group_length, sound),
        "topic": lambda: keys.texts(found.topic_start, found.topic_length, sound),
        "partition": lambda: numbers(found.partition, sound),
        "topic_id": lambda: commits.topic_ids(values, found.topic_id_start, found.has_topic_id),
        "committed_offset": lambda: numbers(found.offset, present),
        "leader_epoch_committed": lambda: numbers(found.leader_epoch, found.has_leader_epoch),
        "metadata": lambda: values.texts(found.metadata_start, found.metadata_length, present),
        "commit_timestamp_ms": lambda: numbers(found.commit_timestamp, present),
        "expire_timestamp_ms": lambda: numbers(found.expire_timestamp, found.has_expiry),
        "value_version": lambda: numbers(found.version, found.version >= 0),
        "problem": lambda: _problems(found),
    }


def _problems(found: commits.Commits) -> Any:
    count = len(found.version)
    if not (found.bad_key | found.bad_value | found.bad_version).any():
        return pa.nulls(count, pa.string())
    words: list[str | None] = [None] * count
    for mask, text in (
        (found.bad_value, "a value that is no commit of its version"),
        (found.bad_key, "a key that is no commit's"),
    ):
        for index in np.flatnonzero(mask).tolist():
            words[index] = text
    for index in np.flatnonzero(found.bad_version).tolist():
        words[index] = f"version {found.version[index]} is not known"
    return pa.array(words, pa.string())


def _records(records: Records, types: Any, origin: Origin) -> Makers:
    source = records.source
    keys, values = (source, records.key_start, records.key_length), (source, records.value_start, records.value_length)
    makers = record_columns(types, keys, values, with_json=origin.with_json)
    makers["is_state"] = lambda: pa.repeat(pa.scalar(origin.is_state), len(records))
    if origin.is_state:
        makers["state_offset"] = lambda: numbers(records.offset)
    return makers


def _share_states(records: Records, types: Any, origin: Origin) -> Makers:
    source = records.source
    keys, values = (source, records.key_start, records.key_length), (source, records.value_start, records.value_length)
    return share_state_columns(keys, values, with_json=origin.with_json)


Places = tuple[Buffer, Ints, Ints]
"""A buffer with the positions and lengths of values in it; a length of -1 is null."""


class _ColumnDecoded(Protocol):
    """Records decoded by column; `decoded` marks those that could be."""

    decoded: Mask

    def column(self, name: str, kind: pa.DataType) -> Any:
        """A column of the decoded records."""


def record_columns(types: Any, keys: Places, values: Places, *, with_json: bool = True) -> Makers:
    """The columns of state and events that need only keys and values; `value_json` only on request.

    Frequent types are decoded by column, all others record by record.
    """
    parts: list[_ColumnDecoded] = []
    places = []
    left = np.full(len(types), fill_value=True)
    for number, decode in _column_decoders(with_json=with_json):
        mask: Mask = types == number
        if mask.any():
            part = decode(*_select(keys, mask), *_select(values, mask))
            mask[mask] = part.decoded
            left &= ~mask
            parts.append(part)
            places.append(np.flatnonzero(mask))
    contents = zip(_contents(*_select(keys, left)), _contents(*_select(values, left)), strict=True)
    rows = [messages.row(key, value, with_json=with_json) for key, value in contents]
    order = np.empty(len(types), np.int64)
    order[np.concatenate([*places, np.flatnonzero(left)])] = np.arange(len(types))
    names = [name for name in SCHEMAS[HISTORY].names if name not in _ENVELOPE_NAMES and name != "is_state"]
    return {name: _column(name, parts, rows, order) for name in names}


def share_state_columns(keys: Places, values: Places, *, with_json: bool = True) -> Makers:
    """The columns of records of `__share_group_state` that need only keys and values."""
    rows = [
        messages.share_state_row(key, value, with_json=with_json)
        for key, value in zip(_contents(*keys), _contents(*values), strict=True)
    ]
    schema = SCHEMAS[SHARE_STATE]
    names = [name for name in schema.names if name not in _ENVELOPE_NAMES]
    return {name: partial(_share_state_column, rows, name, schema.field(name).type) for name in names}


def _share_state_column(rows: Sequence[messages.Row], name: str, kind: pa.DataType) -> Any:
    return pa.array([row.get(name) for row in rows], kind)


def _column_decoders(*, with_json: bool) -> Iterator[tuple[int, Callable[..., _ColumnDecoded]]]:
    yield decisions.RECORD_TYPE, decisions.decode
    if not with_json:
        # Only the codec can produce the JSON of an assignment.
        for number in (assignments.CURRENT, assignments.TARGET):
            yield number, partial(assignments.decode, number)


def _select(places: Places, mask: Mask) -> Places:
    source, start, length = places
    return source, start[mask], length[mask]


def _contents(source: Buffer, start: Ints, length: Ints) -> list[bytes | None]:
    """Values as Python bytes."""
    content = source.array.data
    return [
        None if size < 0 else bytes(content[at : at + size])
        for at, size in zip(start.tolist(), length.tolist(), strict=True)
    ]


def _column(name: str, parts: Sequence[_ColumnDecoded], rows: Sequence[messages.Row], order: Ints) -> Callable[[], Any]:
    kind = SCHEMAS[HISTORY].field(name).type

    def make() -> Any:
        found = [part.column(name, kind) for part in parts]
        if rows or not found:
            found.append(pa.array([row.get(name) for row in rows], kind))
        if len(found) == 1:
            return found[0]
        whole = pa.concat_arrays(found)
        return whole if whole.null_count == len(whole) else whole.take(pa.array(order))

    return make


_ENVELOPE_NAMES = {name for name, _ in ENVELOPE}


_MAKERS: dict[str, Callable[[Records, Any, Origin], Makers]] = {
    RAW: _raw,
    COMMITS: _commits,
    STATE: _records,
    EVENTS: _records,
    HISTORY: _records,
    SHARE_STATE: _share_states,
}
