"""`GET /v1/topics/{topic}/partitions/{partition}/records`: a look at the records of a partition, with bounds on all sizes.

It shows what clients wrote, which is more than a view of the coordinator's own: without credentials only `admin.anonymous=all`
may ask. Records of aborted transactions, markers and other control records are there, and are called what they are. Batches are
decompressed and decoded in a thread.
"""

from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request, in_thread
from coordinator.admin.server_view import ServerView
from coordinator.admin.topics import records_are_elsewhere
from coordinator.log.aborted import Aborted
from coordinator.log.batch import COMPRESSION_NAMES, LOG_APPEND_TIME, BatchHeader, decode_records, split
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.log.log import OffsetOutOfRange
from coordinator.topics.partition import Partition

RECORDS_MAX = 200
READ_BYTES_MAX = 1 << 20
"""What is read of the log for one page. A batch that is larger is read alone."""
SHOWN_BYTES = 4_096
SHOWN_BYTES_MAX = 65_536
HEADERS_MAX = 50
LAST = -1


class RecordQuery(Struct, forbid_unknown_fields=True):
    """Which records."""

    offset: Annotated[int, Meta(ge=-1, le=2**63 - 1, description="The first one; -1: the last `limit` offsets.")] = LAST
    limit: Annotated[int, Meta(ge=1, le=RECORDS_MAX)] = 50
    bytes: Annotated[int, Meta(ge=0, le=SHOWN_BYTES_MAX, description="Of each key, value and header.")] = SHOWN_BYTES


class RecordContent(Struct, omit_defaults=True):
    """Bytes that a client wrote: as text where they are UTF-8, else in base64."""

    size: int
    """Of all of them."""
    text: str | None = None
    base64: str | None = None
    cut: bool = False
    """Whether there are more than are shown."""


class RecordHeader(Struct):
    """A header of a record."""

    key: str
    value: RecordContent | None


class RecordTransaction(Struct):
    """The transaction that a record is part of."""

    producer_id: int
    producer_epoch: int
    state: Literal["open", "committed", "aborted"]


class ControlRecord(Struct):
    """What a control record says."""

    type: str
    """commit, abort, or the number of another type."""
    coordinator_epoch: int | None


class Record(Struct):
    """A record."""

    offset: int
    time_ms: int
    time_type: Literal["create", "append"]
    key: RecordContent | None
    value: RecordContent | None
    headers: list[RecordHeader]
    headers_left_out: int
    compression: str
    producer_id: int | None
    """Null: the producer is not idempotent."""
    transaction: RecordTransaction | None
    control: ControlRecord | None


class RecordPage(Struct):
    """A page of records. Offsets without a record (compaction, retention) are left out."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    """The high watermark."""
    stable_offset: int
    """The last stable offset: before it, the outcome of every transaction is known."""
    records: list[Record]
    next: int
    """The `offset` of the page that follows."""


class _Outcomes(NamedTuple):
    aborted: Sequence[Aborted]
    stable_offset: int

    def state(self, header: BatchHeader) -> Literal["open", "committed", "aborted"]:
        if any(
            each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
            for each in self.aborted
        ):
            return "aborted"
        return "open" if header.base_offset >= self.stable_offset else "committed"


async def read_records(server: ServerView, request: Request) -> RecordPage:
    """Records of a partition, from an offset on.

    Raises RefusedRequest: 404 there is no such partition here; 422 there is no such offset; 503 its log cannot be read.
    """
    topic, query = request.parameters["topic"], request.query
    partition = _partition(server, topic, request.parameters["partition"])
    now_ms = server.clock.wall_ms()
    partition.load_producers(now_ms, lambda: None)
    start, end = partition.start_offset, partition.high_watermark
    offset = max(start, end - query.limit) if query.offset == LAST else query.offset
    if not start <= offset <= end:
        raise RefusedRequest(422, f"the offsets of {topic}-{partition.index} are {start} to {end}")
    page = RecordPage(topic, partition.index, start, end, partition.last_stable_offset, [], offset)
    if partition.log is None or offset == end:
        return page
    try:
        outcomes = _Outcomes(partition.aborted_between(offset, end), page.stable_offset)
        left = READ_BYTES_MAX
        while left > 0 and page.next < end and len(page.records) < query.limit:
            data = partition.log.read(page.next, left, offset_end=end)
            if not data:
                break
            left -= len(data)
            most = query.limit - len(page.records)
            decode = partial(_decoded, data, page.next, most, query.bytes, outcomes)
            found, page.next = await in_thread(server, decode)
            page.records += found
    except OffsetOutOfRange:
        raise RefusedRequest(422, f"{topic}-{partition.index} has no offset {offset} any more") from None
    except Exception as error:
        raise RefusedRequest(
            503, f"{topic}-{partition.index} cannot be read: {type(error).__name__}: {error}"
        ) from error
    return page


def _partition(server: ServerView, topic: str, number: str) -> Partition:
    known = server.topics.registry.topics.get(topic)
    if known is None or known.is_internal:
        raise RefusedRequest(404, "no such topic here")
    if records_are_elsewhere(server):
        raise RefusedRequest(404, "the records are in the cluster, not here")
    if not (number.isascii() and number.isdecimal() and len(number) <= 10 and int(number) < known.partitions):
        raise RefusedRequest(404, f"the topic has the partitions 0 to {known.partitions - 1}")
    partition = server.topics.user_partition(topic, int(number))
    if partition is None or partition.is_offline:
        raise RefusedRequest(404, "this server does not have the records of the partition")
    return partition


def _decoded(data: bytes, from_offset: int, most: int, bytes_max: int, outcomes: _Outcomes) -> tuple[list[Record], int]:
    """At most `most` records, and the offset behind what was looked at."""
    found: list[Record] = []
    next_offset = from_offset
    for position, header in split(data):
        for each in decode_records(data, position, header):
            if each.offset < from_offset:
                continue
            if len(found) == most:
                return found, each.offset
            control = transaction = None
            if header.is_control:
                marker = read_end_transaction(each.key, each.value)
                number = str(int.from_bytes((each.key or b"")[2:4]))
                control = ControlRecord(*((number, None) if marker is None else _named(marker)))
            elif header.is_transactional:
                transaction = RecordTransaction(header.producer_id, header.producer_epoch, outcomes.state(header))
            found.append(
                Record(
                    offset=each.offset,
                    time_ms=each.timestamp,
                    time_type="append" if header.attributes & LOG_APPEND_TIME else "create",
                    key=_content(each.key, bytes_max),
                    value=_content(each.value, bytes_max),
                    headers=[
                        RecordHeader(name, _content(value, bytes_max)) for name, value in each.headers[:HEADERS_MAX]
                    ],
                    headers_left_out=max(0, len(each.headers) - HEADERS_MAX),
                    compression=COMPRESSION_NAMES[header.compression],
                    producer_id=None if header.producer_id < 0 else header.producer_id,
                    transaction=transaction,
                    control=control,
                )
            )
            next_offset = each.offset + 1
        next_offset = max(next_offset, header.next_offset)
    return found, next_offset


def _named(marker: tuple[bool, int]) -> tuple[str, int]:
    is_commit, epoch = marker
    return ("commit" if is_commit else "abort"), epoch


def _content(value: bytes | None, most: int) -> RecordContent | None:
    if value is None:
        return None
    shown = value[:most]
    cut = len(value) > most
    try:
        text = shown.decode()
    except UnicodeDecodeError as error:
        if not (cut and error.start >= most - 3):  # a character that the cut divides
            return RecordContent(len(value), base64=b64encode(shown).decode(), cut=cut)
        text = shown[: error.start].decode()
    return RecordContent(len(value), text=text, cut=cut)


ENDPOINTS = (
    Endpoint(
        "GET", "/v1/topics/{topic}/partitions/{partition}/records",
        "read records of a partition; ?offset=&limit=&bytes= select them", read_records, name="readRecords",
        query=RecordQuery, returns=RecordPage, refusals=(404, 422, 503), shows_records=True,
    ),
)  # fmt: skip
