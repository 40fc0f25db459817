"""The Spark data source `format("coordinator_log")`, for batch and stream.

Spark creates these objects in a separate process on the driver, asks them for partitions, pickles them, and runs `read` in a
Python worker for each. The logic is in planning, positions and reading; this module is the interface that Spark calls.

The offset of a stream is a `Position` for each log that the view reads and each of its shards, together with the log's id.
The view `history` reads two logs as one. Its micro-batches are cut so that an event never comes before the state it was
decided on: that state is in the same micro-batch or an earlier one.

`pushFilters` is omitted on purpose: see options.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_coordinator_log import planning, positions
from pyspark_coordinator_log.columns import SCHEMAS
from pyspark_coordinator_log.folders import EVENT_TOPIC, DataFolder, ShardFolder
from pyspark_coordinator_log.options import LATEST, BadOption, Options, parse
from pyspark_coordinator_log.positions import Bound, Position
from pyspark_coordinator_log.reading import DataLoss, Range, Reading, read

FORMAT = "coordinator_log"
_OFFSET_VERSION = 1

_Logs = dict[str, dict[int, Position]]
"""Positions by topic and shard."""


class LogPartition(InputPartition):
    """The ranges that one task reads."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)


class _Reader:
    """The part that both readers run in a task."""

    def __init__(self, options: Options, columns: Sequence[str]) -> None:
        self.options = options
        self.how: Reading = options.reading(columns)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the record batches of a partition."""
        if isinstance(partition, LogPartition):
            for part in partition.ranges:
                yield from read(part, self.how)


class LogReader(_Reader, DataSourceReader):
    """A log as it was when planned. A DataFrame that is used twice sees the same state twice."""

    def partitions(self) -> Sequence[InputPartition]:
        """At least one, because Spark does not accept an empty list."""
        return [LogPartition(ranges) for ranges in planning.tasks(self.options)] or [LogPartition(())]


class LogStreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A log that grows."""

    def __init__(self, options: Options, columns: Sequence[str]) -> None:
        super().__init__(options, columns)
        self._bounds: dict[tuple[str, int], Bound] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query begins."""
        found = planning.folders(self.options)
        logs: _Logs = {}
        for folder in found:
            logs[folder.topic] = {}
            for number, shard in folder.shards.items():
                first = positions.earliest(shard)
                at_end = self.options.starting_offsets == LATEST
                logs[folder.topic][number] = positions.advance(shard, first, None, None) if at_end else first
        return _offset(planning.log_id(self.options, found), logs)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of a micro-batch."""
        limit = self.options.trigger_bytes_max
        return ReadAllAvailable() if limit is None else ReadMaxBytes(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Stores the current end of every log, so that a query with this trigger stops there."""
        self._bounds = {
            (folder.topic, number): positions.bound_of(shard)
            for folder in planning.folders(self.options)
            for number, shard in folder.shards.items()
        }

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """How far the next micro-batch reads. Raises DataLoss if the log is not the one that was read."""
        found = planning.folders(self.options)
        current = self._current_positions(start, found)
        count = max(1, sum(len(folder.shards) for folder in found))
        bytes_max = max(1, limit.max_bytes // count) if isinstance(limit, ReadMaxBytes) else None
        logs: _Logs = {}
        # Events first: any state that arrives in between is more than they need.
        for folder in reversed(found):
            logs[folder.topic] = {
                number: self._advanced(folder, shard, current[folder.topic][number], bytes_max)
                for number, shard in folder.shards.items()
            }
        if len(found) > 1:
            state, events = found
            for number in events.shards.keys() & state.shards.keys():
                logs[events.topic][number] = positions.covered_by_state(
                    events.shards[number],
                    current[events.topic][number],
                    logs[events.topic][number],
                    logs[state.topic][number].offset,
                )
        return _offset(planning.log_id(self.options, found), logs)

    def _advanced(self, folder: DataFolder, shard: ShardFolder, start: Position, bytes_max: int | None) -> Position:
        bound = None
        if self._bounds is not None:
            bound = self._bounds.get((folder.topic, shard.shard))
            if bound is None:
                return start
        return positions.advance(shard, start, bytes_max, bound)

    def _current_positions(self, offset: Mapping[str, Any], found: Sequence[DataFolder]) -> _Logs:
        """The current positions of an offset; new shards begin at their start. Raises DataLoss."""
        log_id, stored = _parsed(offset)
        here = planning.log_id(self.options, found)
        same = log_id == here
        if not same and self.options.fail_on_data_loss:
            raise DataLoss(
                f"{self.options.path} is the log {here}, but the checkpoint belongs to the log {log_id}. Use a new"
                " checkpoint, or failOnDataLoss=false to read this log from its start"
            )
        out: _Logs = {}
        for folder in found:
            known = stored.get(folder.topic, {}) if same else {}
            missing = sorted(set(known) - set(folder.shards))
            if missing and self.options.fail_on_data_loss:
                raise DataLoss(f"{folder.path}/{folder.topic}-{missing[0]} was read before and is missing")
            out[folder.topic] = {
                number: self._located(shard, known.get(number)) for number, shard in folder.shards.items()
            }
        return out

    def _located(self, shard: ShardFolder, position: Position | None) -> Position:
        if position is None:
            return positions.earliest(shard)
        try:
            return positions.locate(shard, position)
        except DataLoss as error:
            if self.options.fail_on_data_loss:
                raise DataLoss(f"{error} (failOnDataLoss=false reads this shard again from its start)") from error
            return positions.earliest(shard)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges between two offsets, both of which may be from before a restart."""
        found = planning.folders(self.options)
        current = self._current_positions(start, found)
        log_id, ends = _parsed(end)
        ranges: list[Range] = []
        for folder in found:
            for number, shard in folder.shards.items():
                until = ends.get(folder.topic, {}).get(number)
                if until is not None and until.offset > current[folder.topic][number].offset:
                    ranges += _between(folder, shard, log_id, current[folder.topic][number], until)
        share = planning.split_bytes(self.options, sum(part.size_bytes for part in ranges))
        return [LogPartition(task) for task in planning.split(ranges, share)]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to release: the log belongs to its server."""


def _between(folder: DataFolder, shard: ShardFolder, log_id: str, start: Position, end: Position) -> Iterator[Range]:
    """The ranges from a current position to one that may refer to older files."""
    segments = shard.segments()
    where = (end.segment, end.at) if positions.locate(shard, end) == end else (-1, 0)
    for index, segment in enumerate(segments):
        is_last = index == len(segments) - 1
        after = end.offset if is_last else min(end.offset, segments[index + 1].base_offset)
        if after <= start.offset or segment.base_offset >= end.offset:
            continue
        begins = start.at if segment.base_offset == start.segment else 0
        ends = where[1] if segment.base_offset == where[0] else segment.size_bytes
        if begins < ends:
            yield Range(
                folder=shard,
                log_id=log_id,
                is_state=folder.topic != EVENT_TOPIC,
                offset_from=max(start.offset, segment.base_offset),
                offset_to=after,
                segment=segment,
                start=begins,
                end=ends,
                first_offset=positions.offset_at(segment, begins) if begins else None,
                is_growing=is_last,
                is_last=is_last,
            )


def _offset(log_id: str, logs: _Logs) -> dict[str, Any]:
    return {
        "version": _OFFSET_VERSION,
        "log_id": log_id,
        "logs": {
            topic: {str(number): position.to_json() for number, position in shards.items()}
            for topic, shards in logs.items()
        },
    }


def _parsed(offset: Mapping[str, Any]) -> tuple[str, _Logs]:
    """The content of an offset. Raises DataLoss if another version wrote it."""
    if offset.get("version") != _OFFSET_VERSION:
        raise DataLoss(
            f"the checkpoint's offset has version {offset.get('version')}; only version {_OFFSET_VERSION} is supported"
        )
    try:
        return offset["log_id"], {
            topic: {int(number): Position.parse(position) for number, position in shards.items()}
            for topic, shards in offset["logs"].items()
        }
    except (KeyError, AttributeError, ValueError) as error:
        raise DataLoss(f"the checkpoint's offset cannot be read: {error}") from error


class DefaultSource(DataSource):
    """Spark finds this class by name in every installed package whose name begins with `pyspark_`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return FORMAT

    def schema(self) -> StructType:
        """All columns of the view."""
        return from_arrow_schema(SCHEMAS[parse(self.options).view])

    def reader(self, schema: StructType) -> LogReader:
        """A reader for the columns of the schema, which may be a subset of the view's."""
        options = parse(self.options)
        return LogReader(options, _columns(options, schema))

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802
        """As `reader`, for a stream."""
        options = parse(self.options)
        return LogStreamReader(options, _columns(options, schema))


def _columns(options: Options, schema: StructType) -> list[str]:
    """The column names of a schema, whose types must match the view. Raises BadOption."""
    columns = schema.fieldNames()
    options.reading(columns)
    own = {field.name: field.dataType for field in from_arrow_schema(SCHEMAS[options.view])}
    for field in schema:
        if own[field.name] != field.dataType:
            raise BadOption(
                f"the column {field.name} of the view {options.view} has type {own[field.name].simpleString()}, not"
                f" {field.dataType.simpleString()}"
            )
    return list(columns)
