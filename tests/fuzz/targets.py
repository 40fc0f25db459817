"""What is fuzzed: a function for each kind of input that others control. It raises only for a bug.

A target takes bytes, as a fuzzer makes them, and gives them to a decoder or reader. The errors that the decoder promises are
expected; every other exception is a finding, and so is a call that does not end or takes much memory. Checksums in the input
are replaced by right ones, because a fuzzer does not find those.
"""

import base64
import json
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from random import Random
from types import SimpleNamespace

from google_crc32c import value as crc32c

from coordinator.config import parsers
from coordinator.config.security import SaslConfig
from coordinator.fastpath.bulk_replay import bulk_replayers
from coordinator.groups.group_configs import GROUP_CONFIGS, check
from coordinator.groups.machine import RECORD_KEYS, GroupMachine
from coordinator.groups.settings import GroupsConfig
from coordinator.journal import entry as journal_entry
from coordinator.journal import slot as journal_slot
from coordinator.journal.recovery import read_journal
from coordinator.log import aborted, catalog, checkpoint, segment_list
from coordinator.log.batch import (
    CHECKSUM_FROM,
    HEADER_BYTES,
    PREFIX_BYTES,
    CorruptBatch,
    UnsupportedCompression,
    decode_records,
    key_values,
    read_header,
    split,
)
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.codecs import compress
from coordinator.log.end_transaction_marker import end_transaction
from coordinator.log.log import DamagedLog, Log, LogSettings, OffsetOutOfRange
from coordinator.operations.log_records import KINDS, record_decoder, show_control
from coordinator.protocol.codec import Codec, DecodeError, EncodeError
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.frame import FrameError, FrameSplitter
from coordinator.protocol.header import decode_request_header
from coordinator.protocol.subscription import (
    KIP_792,
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
    is_in_kip_order,
    parse_assignment,
    parse_subscription,
    sticky_generation,
)
from coordinator.runtime.loader import BatchReplayer, Loaded
from coordinator.runtime.serde import Serde, UnknownRecordVersion
from coordinator.security import hosts
from coordinator.security.authenticator import Authenticator, MechanismSetup
from coordinator.security.mechanism import AuthenticationFailed
from coordinator.security.oauthbearer import OAuthBearer
from coordinator.security.password import Plain
from coordinator.security.principal import InvalidRules, MappingRules, NoRuleApplies
from coordinator.security.scram import Found, Scram, credential_of_password
from coordinator.security.tokens import SignedTokens, UnsecuredTokens
from coordinator.security.users import Passwords, UnusableUsers, read_jaas
from coordinator.topics import metadata_records, producer_snapshot
from coordinator.topics.batch_validation import (
    Refused,
    check_header,
    check_records,
    check_size_and_checksum,
    read_batch,
)
from coordinator.topics.config import TopicsConfig
from coordinator.topics.names import why_invalid
from coordinator.topics.registry import Registry
from coordinator.topics.topic_settings import ROWS, canonical, effective
from coordinator.transactions.machine import RECORD_KEYS as TRANSACTION_KEYS
from coordinator.transactions.machine import TransactionMachine
from coordinator.transactions.settings import TransactionsConfig
from coordinator_lab.simulation.clock import ManualClock
from coordinator_lab.simulation.disk import SimulatedDisk
from tests.log.log_helpers import at_time, latest
from tests.protocol.message_making import SCHEMAS, make_message
from tests.support.catalog import Catalog
from tests.support.wire import is_flexible

CODEC = Codec.of()
NOW_MS = 1_750_000_000_000
_FOLDER = "data/fuzz-0"
_SALT = b"saltsalt"


# --- the protocol -----------------------------------------------------------------------------------------------------


@cache
def every_request() -> dict[tuple[int, int], str]:
    """API key and version -> name of the request."""
    names = SCHEMAS.request_names
    return {(key, version): name for key, name in names.items() for version in CODEC.versions(name)}


@cache
def every_response() -> list[tuple[str, int]]:
    names = sorted(name for name in SCHEMAS.names if name.endswith("Response"))
    return [(name, version) for name in names for version in CODEC.versions(name)]


def _decode_and_encode(name: str, version: int, data: bytes, position: int) -> None:
    """A message that can be decoded can be encoded, and is the same again."""
    try:
        message, end = CODEC.decoder(name, version)(data, position)
    except DecodeError:
        return
    assert end <= len(data)
    try:
        encoded = CODEC.encoder(name, version)(message)
    except EncodeError:  # text that was not UTF-8 may be too long now
        return
    again, _ = CODEC.decoder(name, version)(encoded, 0)
    assert CODEC.encoder(name, version)(again) == encoded, f"{name} v{version} changes"


def requests(data: bytes) -> None:
    """A request frame: header and body."""
    try:
        key, version, _, _, position = decode_request_header(data)
    except DecodeError:
        return
    name = every_request().get((key, version))
    if name is not None:
        _decode_and_encode(name, version, data, position)


def responses(data: bytes) -> None:
    """The body of a response, which the command line, a fork and the fault rules decode. Two bytes say which."""
    name, version = every_response()[int.from_bytes(data[:2]) % len(every_response())]
    _decode_and_encode(name, version, data, 2)


def frames(data: bytes) -> None:
    """A stream in pieces. However it is cut, its frames are the same."""
    step = 1 + data[0] if data else 1
    stream = data[1:]
    try:
        whole = FrameSplitter(1_000, 2_000).feed(stream)
    except FrameError:
        whole = None
    splitter, parts = FrameSplitter(1_000, 2_000), []
    try:
        for at in range(0, len(stream), step):
            parts += splitter.feed(stream[at : at + step])
            assert splitter.announced_bytes <= 2_004
    except FrameError:
        assert whole is None
    else:
        assert parts == whole


def subscriptions(data: bytes) -> None:
    """What a member of a consumer group says of itself, and what its leader assigns."""
    for dialect in (None, KIP_792):
        try:
            subscription = parse_subscription(data, dialect)
        except DecodeError:
            continue
        sticky_generation(subscription.user_data)
        _expect(lambda each=subscription: encode_subscription(each), EncodeError)
    is_in_kip_order(data)
    sticky_generation(data)
    try:
        assignment = parse_assignment(data)
    except DecodeError:
        return
    _expect(lambda: encode_assignment(assignment), EncodeError)


# --- records ----------------------------------------------------------------------------------------------------------


@cache
def _serdes() -> list[Serde]:
    keys = [name for name in SCHEMAS.names if name.endswith("Key")]
    transactions = tuple(name for name in keys if name.startswith("Transaction"))
    return [Serde(CODEC, tuple(name for name in keys if name not in transactions)), Serde(CODEC, transactions)]


def records(data: bytes) -> None:
    """Key and value of a record of an internal log: a byte for the kind, two for the length of the key."""
    kind, size = data[0] if data else 0, int.from_bytes(data[1:3])
    key, value = data[3 : 3 + size], data[3 + size :] or None
    for serde in _serdes():
        try:
            decoded = serde.decode(key, value)
        except (DecodeError, UnknownRecordVersion):
            continue
        if decoded is not None:
            _expect(lambda each=(serde, decoded): each[0].encode(each[1]), EncodeError)
    _expect(lambda: metadata_records.decode(data[1:]), DecodeError, UnknownRecordVersion)
    record = SimpleNamespace(key=key, value=value, offset=0, timestamp=0, headers=())
    _expect(lambda: record_decoder(KINDS[kind % len(KINDS)])(record), DecodeError)
    _expect(lambda: show_control(record), DecodeError)


def loads(data: bytes) -> None:
    """The records of a shard, alternately key and value. The fast path for many offsets comes to the same state."""
    fields = [*_parts(data)]
    builder = BatchBuilder()
    for key, value in zip(fields[::2], fields[1::2], strict=False):
        builder.add(key, value or None)
        _replay_metadata(value)
    if not builder.count:
        return
    batch = builder.build(0, NOW_MS)
    for keys, make in ((RECORD_KEYS, _groups), (TRANSACTION_KEYS, _transactions)):
        states = []
        for fast in (None, bulk_replayers if keys is RECORD_KEYS else None):
            state = make()
            try:
                BatchReplayer(Serde(CODEC, keys), state, Loaded(), fast).replay(batch, 0, read_header(batch))
            except (DecodeError, UnknownRecordVersion):
                states.append(None)
                continue
            try:
                state.loaded(NOW_MS)
            except AssertionError:  # records that contradict each other, such as a member twice: the start stops
                states.append(None)
                continue
            states.append(getattr(state, "offsets", None) and state.offsets.by_group)
        assert states[0] == states[1]


def _groups() -> GroupMachine:
    return GroupMachine(GroupsConfig(), Catalog({"topic-1": 3}))


def _transactions() -> TransactionMachine:
    return TransactionMachine(TransactionsConfig(), None, lambda *_delivery: None)


def _replay_metadata(value: bytes) -> None:
    registry = Registry()
    try:
        message = metadata_records.decode(value)
    except (DecodeError, UnknownRecordVersion):
        return
    if message is not None:
        registry.replay(message)


def _with_checksums(data: bytes) -> bytes:
    """The batches with right checksums, as far as their lengths make sense."""
    fixed, position = bytearray(data), 0
    while len(fixed) - position >= HEADER_BYTES:
        size = int.from_bytes(fixed[position + 8 : position + 12], signed=True) + PREFIX_BYTES
        if size < HEADER_BYTES or position + size > len(fixed):
            break
        checksum = crc32c(bytes(fixed[position + CHECKSUM_FROM : position + size]))
        fixed[position + 17 : position + 21] = checksum.to_bytes(4)
        position += size
    return bytes(fixed)


def batches(data: bytes) -> None:
    """What a producer sends: one batch is validated, several are read."""
    data = _with_checksums(data)
    for settings in _TOPICS:
        try:
            batch = read_batch(data, 9)
            check_size_and_checksum(batch, settings)
            check_header(batch)
            check_records(batch, "fuzz-0", settings, NOW_MS)
        except Refused:
            continue
    try:
        found = split(data)
    except CorruptBatch:
        return
    for position, header in found:
        read: list[list[tuple[object, object, object]] | None] = []
        for reader in (key_values, decode_records):
            try:
                read.append([tuple(each)[-3:] for each in reader(data, position, header)])
            except (CorruptBatch, UnsupportedCompression):
                read.append(None)
        if read[1] is not None:  # the stricter one
            assert read[0] is not None
            assert len(read[0]) == len(read[1])


_TOPICS = [
    effective({"cleanup.policy": "compact"}, TopicsConfig()),
    effective({"message.timestamp.after.max.ms": "1", "message.timestamp.before.max.ms": "1"}, TopicsConfig()),
]


# --- files ------------------------------------------------------------------------------------------------------------


def _parts(data: bytes) -> Iterator[bytes]:
    """Files: two bytes for the length of each."""
    while data:
        size = int.from_bytes(data[:2])
        yield data[2 : 2 + size]
        data = data[2 + size :]


def packed(*files: bytes) -> bytes:
    """The reverse of `_parts`."""
    return b"".join(len(file).to_bytes(2) + file for file in files)


def _disk(files: Iterable[tuple[str, bytes]]) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder(_FOLDER)
    for name, content in files:
        file = disk.open(name)
        file.append(content)
        file.sync()
        file.close()
    disk.sync_folder(_FOLDER)
    return disk


def _resealed(content: bytes) -> bytes:
    """Lines with the right checksum at their end."""
    return segment_list.sealed(content.removesuffix(b"\n").split(b"\n")[:-1])


def logs(data: bytes) -> None:
    """The folder of a log: flags, checkpoint, list of segments, list of aborted transactions, two segments."""
    flags, line, listed, ended, *segments = [*_parts(data), b"", b"", b"", b""]
    bases = [0, int.from_bytes(flags[1:3])]
    files = [
        (f"{_FOLDER}/{base:020d}.log", _with_checksums(each))
        for base, each in zip(bases, segments, strict=False)
        if each
    ]
    options = flags[0] if flags else 0
    if options & 1:
        body = b" ".join(line.split()[:4])
        files.append((f"{_FOLDER}/{checkpoint.NAME}", b"%b %08x\n" % (body, crc32c(body))))
    if options & 2:
        files.append((f"{_FOLDER}/{segment_list.NAME}", _resealed(listed)))
    if options & 4:
        files.append((f"{_FOLDER}/{0:020d}{aborted.SUFFIX}", ended))
    settings = LogSettings(segment_bytes=1 << 20, segment_ms=None, retention_ms=1)
    disk = _disk(dict(files).items())
    try:
        log = Log.open(disk, _FOLDER, settings, is_best_effort=bool(options & 8))
        _read_all(log)
    except DamagedLog:
        return
    log.close()
    listed = segment_list.read(disk, _FOLDER)
    if log.segments and (listed is None or not listed.entries or listed.entries[-1].size_bytes == segment_list.UNKNOWN):
        # What was recovered is not damaged, unless a list is there that no server writes, without an active segment.
        Log.open(disk, _FOLDER, settings, is_best_effort=bool(options & 8)).close_files()


def _read_all(log: Log) -> None:
    """Everything that a server does with a log that it has opened."""
    try:
        for _ in log.replay_batches():
            pass
    except (CorruptBatch, UnsupportedCompression):
        pass
    for offset in (log.start_offset, (log.start_offset + log.end_offset) // 2, log.end_offset):
        _expect(lambda at=offset: log.read(at, 1_000), OffsetOutOfRange)
        log.aborted_between(offset, log.end_offset)
        log.upper_bound(offset, 100)
    for timestamp in (0, NOW_MS):
        _expect(lambda at=timestamp: at_time(log, at), CorruptBatch, UnsupportedCompression)
    _expect(lambda: latest(log), CorruptBatch, UnsupportedCompression)
    log.known("id")
    log.apply_retention(NOW_MS)


def journals(data: bytes) -> None:
    """Two slots of a journal: each a header and entries, whose checksums are made right."""
    disk = _disk(
        (f"data/{journal_slot.slot_name(index)}", _slot(part)) for index, part in enumerate([*_parts(data)][:2])
    )
    try:
        recovered = read_journal(disk, "data")
    except DamagedLog:
        return
    for name, found in recovered.batches.items():
        assert isinstance(name, str)
        assert all(isinstance(each, bytes) for each in found)


def _slot(part: bytes) -> bytes:
    content = bytearray(part.ljust(journal_slot.ENTRIES_AT, b"\0"))
    header = journal_slot.SlotHeader(_SALT, 0, 0).encode()
    body = bytes(content[: len(header) - 4])
    content[len(body) : len(header)] = crc32c(body).to_bytes(4)
    salt, position = bytes(content[9:17]), journal_slot.ENTRIES_AT
    while len(content) - position >= journal_entry.HEADER_BYTES:
        size = int.from_bytes(content[position + 4 : position + 8])
        end = position + journal_entry.HEADER_BYTES + size
        if end > len(content):
            break
        checked = bytes(content[position + 12 : end])
        checksum = crc32c(salt + size.to_bytes(4) + checked)
        content[position + 8 : position + 12] = checksum.to_bytes(4)
        position = end
    return bytes(content)


def small_files(data: bytes) -> None:
    """The other files of a data folder: catalog, lists, checkpoint, snapshot of producers."""
    resealed = _resealed(data)
    for content in (data, resealed):
        segment_list.decode(content)
        catalog.decode(content)
    checkpoint.parse(data)
    aborted.decode(data)
    producer_snapshot.decode(data)
    producer_snapshot.decode(crc32c(data[4:]).to_bytes(4) + data[4:])


# --- security ---------------------------------------------------------------------------------------------------------


@cache
def _mechanisms() -> dict[str, MechanismSetup]:
    clock = ManualClock()
    credential = credential_of_password("SCRAM-SHA-256", "secret", b"salt" * 4, 4_096)
    config = SaslConfig()
    keys = SimpleNamespace(find=lambda _key_id: SimpleNamespace(key=b"k" * 32, key_type="RSA"))
    made = {
        "PLAIN": lambda: Plain(Passwords({"alice": "secret"})),
        "SCRAM-SHA-256": lambda: Scram("SCRAM-SHA-256", lambda name, is_token: Found(credential, name)),
        "OAUTHBEARER": lambda: OAuthBearer(UnsecuredTokens(config, clock)),
        "SIGNED": lambda: OAuthBearer(SignedTokens(config, keys, clock)),
    }
    return {name: MechanismSetup(make, 0) for name, make in made.items()}


def sasl(data: bytes) -> None:
    """The messages of a client that authenticates: a byte for the mechanism, then messages as `_parts`."""
    names = list(_mechanisms())
    authenticator = Authenticator(_mechanisms(), ManualClock())
    authenticator.handshake(names[(data[0] if data else 0) % len(names)], 1)
    for message in _parts(data[1:]):
        try:
            authenticator.evaluate(message)
        except AuthenticationFailed:
            return


_RULES = MappingRules("RULE:^CN=([^,]*),OU=([^,]*).*$/$1@$2/L,RULE:^CN=([^,]*)$/$1/U,DEFAULT")


def principals(data: bytes) -> None:
    """Mapping rules, and a subject for rules that are given."""
    text = data.decode("utf-8", "replace")
    _expect(lambda: _RULES.name(text), NoRuleApplies)
    _expect(lambda: MappingRules(text), InvalidRules)
    _expect(lambda: read_jaas(text), UnusableUsers)


def access_rules(data: bytes) -> None:
    """The host of an ACL, as it may be stored, and a client's address: a NUL between them."""
    pattern, _, host = data.decode("utf-8", "replace").partition("\0")
    _expect(lambda: hosts.check(pattern), ValueError)
    hosts.matches(pattern, host)
    hosts.matches(pattern, "10.0.0.1")


# --- texts ------------------------------------------------------------------------------------------------------------


_PARSERS = [each for each in vars(parsers).values() if isinstance(each, parsers.Parser)]


def configs(data: bytes) -> None:
    """The value of a setting: of a topic, a group or the server. A byte says which."""
    which, text = data[0] if data else 0, data[1:].decode("utf-8", "replace")
    row = list(ROWS.values())[which % len(ROWS)]
    if row.why_invalid(text) is None:
        canonical(row, text)
        effective({row.name: text}, TopicsConfig())
    name = list(GROUP_CONFIGS)[which % len(GROUP_CONFIGS)]
    _expect(lambda: check(GroupsConfig(), {name: text}), KafkaError)
    _PARSERS[which % len(_PARSERS)].read(text, True)
    why_invalid(text)


def _expect(call: Callable[[], object], *errors: type[Exception]) -> None:
    with suppress(*errors):
        call()


# --- seeds ------------------------------------------------------------------------------------------------------------


def _request_seeds() -> Iterator[bytes]:
    for (key, version), name in every_request().items():
        header = struct.pack(">hhih", key, version, 7, -1) + (b"\0" if is_flexible(name, version) else b"")
        yield header + CODEC.encoder(name, version)(make_message(SCHEMAS[name], version, Random(f"{name}{version}")))


def _response_seeds() -> Iterator[bytes]:
    for index, (name, version) in enumerate(every_response()):
        message = make_message(SCHEMAS[name], version, Random(f"{name}{version}"))
        yield index.to_bytes(2) + CODEC.encoder(name, version)(message)


def _record_seeds() -> Iterator[bytes]:
    random = Random("records")
    for name in SCHEMAS.names:
        if name.endswith("Key"):
            definition = SCHEMAS[name]
            assert definition.api_key is not None
            key = definition.api_key.to_bytes(2) + CODEC.encoder(name, 0)(make_message(definition, 0, random))
            value_name = name.removesuffix("Key") + "Value"
            for version in CODEC.versions(value_name):
                body = CODEC.encoder(value_name, version)(make_message(SCHEMAS[value_name], version, random))
                kind = 1 if name.startswith("Transaction") else 0
                yield bytes((kind,)) + len(key).to_bytes(2) + key + version.to_bytes(2) + body
        elif name.endswith("Record"):
            definition = SCHEMAS[name]
            for version in CODEC.versions(name):
                body = CODEC.encoder(name, version)(make_message(definition, version, random))
                assert definition.api_key is not None
                yield bytes((2, 1, definition.api_key, version)) + body


def _load_seeds() -> Iterator[bytes]:
    for seed in _record_seeds():
        size = int.from_bytes(seed[1:3])
        if seed[0] < 2:
            yield packed(seed[3 : 3 + size], seed[3 + size :])
        else:
            yield packed(b"", seed[1:])


def _batch(count: int, *, codec: int = 0, base_offset: int = 0) -> bytes:
    builder = BatchBuilder()
    for number in range(count):
        builder.add(b"k%d" % number, b"value")
    plain = builder.build(base_offset, NOW_MS)
    if not codec:
        return plain
    content = compress(codec, plain[HEADER_BYTES:])
    size = HEADER_BYTES - PREFIX_BYTES + len(content)
    return plain[:8] + size.to_bytes(4) + plain[12:22] + bytes((codec,)) + plain[23:HEADER_BYTES] + content


def _batch_seeds() -> Iterator[bytes]:
    yield _batch(1)
    yield _batch(3) + _batch(2, base_offset=3)
    for codec in (1, 2, 3, 4):
        yield _batch(20, codec=codec)
    yield end_transaction(0, NOW_MS, producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=0)


def _log_seeds() -> Iterator[bytes]:
    first = _batch(3) + _batch(2, base_offset=3)
    second = _batch(1, base_offset=5) + _batch(9, codec=2, base_offset=6)
    line = checkpoint.Offsets(start_offset=0, recovery_offset=5, clean_offset=0, dense_offset=0).line()
    closed = segment_list.Entry(0, len(first), read_header(first).crc)
    listed = segment_list.encode(segment_list.SegmentList("fuzz-0", [closed, segment_list.Entry(5, -1, -1)]))
    ended = aborted.encode([aborted.Aborted(1, 0, 3, 4)])
    for options in (0, 1, 3, 7, 9):
        yield packed(bytes((options, 0, 5)), line, listed, ended, first, second)
        yield packed(bytes((options, 0, 5)), line, listed, ended, first + bytes(40))


def _journal_seeds() -> Iterator[bytes]:
    def slot(first: int, needed: int, *sequences: int) -> bytes:
        header = journal_slot.SlotHeader(_SALT, first, needed).encode().ljust(journal_slot.ENTRIES_AT, b"\0")
        body = [journal_entry.part_prefix("__consumer_offsets-1", b"batch"), b"batch"]
        return header + b"".join(journal_entry.encode(_SALT, each, 1, body) for each in sequences)

    yield packed(slot(1, 1, 1, 2, 3))
    yield packed(slot(1, 1, 1, 2), slot(3, 2, 3, 4))
    yield packed(slot(1, 1, 1, 3), b"")


def _small_seeds() -> Iterator[bytes]:
    known = catalog.KnownLog("fuzz-0", "AAAA", 0, 9, 3, 77)
    yield catalog.encode(catalog.Catalog("cluster", {"fuzz-0": known}, has_journal=True))
    yield segment_list.encode(segment_list.SegmentList("fuzz-0", [segment_list.Entry(0, 9, 77)]))
    yield checkpoint.Offsets(start_offset=0, recovery_offset=5, clean_offset=0, dense_offset=0).line()
    yield aborted.encode([aborted.Aborted(1, 0, 3, 4)])
    body = struct.pack(">hq", 1, 9) + struct.pack(">qhiqqqB", 1, 0, 0, -1, 5, 6, 1) + struct.pack(">iiqq", 0, 1, 0, 1)
    yield crc32c(body).to_bytes(4) + body


def _part64(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def _sasl_seeds() -> Iterator[bytes]:
    claims = {"sub": "alice", "exp": 9_999_999_999, "iat": 0, "scope": "a b"}
    token = f"{_part64({'alg': 'none'})}.{_part64(claims)}."
    signed = f"{_part64({'alg': 'RS256', 'kid': '1'})}.{_part64(claims)}.c2ln"
    yield b"\0" + packed(b"\0alice\0secret")
    yield b"\1" + packed(b"n,,n=alice,r=abc", b"c=biws,r=abcdef,p=AAAA")
    for number, each in enumerate((token, signed), 2):
        yield bytes((number,)) + packed(b"n,,\1auth=Bearer " + each.encode() + b"\1\1", b"\1")


def _subscription_seeds() -> Iterator[bytes]:
    for version in range(4):
        yield encode_subscription(Subscription(("t", "u"), b"\0\0\0\1", {"t": (0, 1)}, 3, "rack", version))
    yield encode_assignment(Assignment({"t": (0, 1)}, b"user", 1))


_RULE_SEEDS = (b"RULE:^CN=(.*?),.*$/$1/L,DEFAULT", b"CN=a,OU=b", b'x.PlainLoginModule required user_a="b";')

TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterable[bytes]]]] = {
    "requests": (requests, _request_seeds),
    "responses": (responses, _response_seeds),
    "frames": (frames, lambda: [b"\3" + b"\0\0\0\2ab" * 3, b"\7\x16\x03\1\0", b"\0" + b"\x7f" * 9]),
    "subscriptions": (subscriptions, _subscription_seeds),
    "records": (records, _record_seeds),
    "loads": (loads, _load_seeds),
    "batches": (batches, _batch_seeds),
    "logs": (logs, _log_seeds),
    "journals": (journals, _journal_seeds),
    "small_files": (small_files, _small_seeds),
    "sasl": (sasl, _sasl_seeds),
    "principals": (
        principals,
        lambda: [b"RULE:^CN=(.*?),.*$/$1/L,DEFAULT", b"CN=a,OU=b", b'x.PlainLoginModule required user_a="b";'],
    ),
    "access_rules": (
        access_rules,
        lambda: [b"10.0.0.0/8\x0010.1.2.3", b"2001:db8::/32\x002001:db8::1", b"::1\x000:0:0:0:0:0:0:1"],
    ),
    "configs": (configs, lambda: [bytes((index,)) + row.default.encode() for index, row in enumerate(ROWS.values())]),
}
"""Name -> the target, and the inputs to begin with."""
