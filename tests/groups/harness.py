"""A minimal shard for tests of the core, without an event loop, a disk or a real clock.

It handles a Result as `runtime/shard.py` does: it replays the records, keeps the timers and sends the replies. Every request
and response goes through the codec in its API version, and `restart` decodes every record from bytes. Only `advance` moves
the time.

It does not use the real shard on purpose: tests of the core need no shell, and they may cut the log after any operation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coordinator.api.declaration import Api
from coordinator.fastpath.event_encoding import EVENT_ENCODERS
from coordinator.groups import classic_protocol
from coordinator.groups.events import EVENT_KEYS
from coordinator.groups.kinds import Kind
from coordinator.groups.machine import RECORD_KEYS, GroupMachine
from coordinator.groups.settings import GroupsConfig
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    Message,
    SyncGroupRequest,
)
from coordinator.protocol.releases import AS_NEWEST
from coordinator.protocol.subscription import Subscription, encode_subscription
from coordinator.requests import heartbeat as heartbeat_api
from coordinator.requests import join_group, leave_group, sync_group
from coordinator.runtime.result import NO_LINK, Fact, Record, Result, TimerKey
from coordinator.runtime.serde import Serde
from coordinator_lab.simulation.derived_state_invariants import held_bytes
from tests.support.catalog import Catalog
from tests.support.permitting import EVERYTHING

START_MS = 1_000_000
Operation = Callable[[Any, Any, Any, int], Result]


class SentRequest:
    """The context of one request, as the core sees it (RequestContext), and the response once it is sent."""

    def __init__(
        self,
        api: Api | None,
        api_version: int,
        client_id: str | None,
        client_host: str,
        fresh_id: str,
        dialect: str | None = None,
    ) -> None:
        self.api = api
        self.api_version = api_version
        self.client_id = client_id
        self.client_host = client_host
        self.link = NO_LINK
        self.dialect = dialect
        self.behaviours = AS_NEWEST
        self.fresh_id = fresh_id
        self.permits = EVERYTHING
        self.may_describe: Callable[[str], bool] = lambda _name: True
        self.reply: Any = None

    def answer(self, message: Message) -> None:
        assert self.reply is None, f"a second response: {self.reply} and then {message}"
        self.reply = message if self.api is None else _through_the_codec(message, self.api_version)

    @property
    def is_parked(self) -> bool:
        return self.reply is None

    @property
    def error(self) -> ErrorCode:
        assert self.reply is not None, "no response yet"
        return ErrorCode(self.reply.error_code)

    @property
    def ok(self) -> bool:
        return self.error is ErrorCode.NONE


def _through_the_codec(message: Any, version: int) -> Any:
    codec = Codec.of()
    data = codec.encoder(message.NAME, version)(message)
    decoded, end = codec.decoder(message.NAME, version)(data, 0)
    assert end == len(data)
    return decoded


def subscription(
    topics: Sequence[str] = ("t",),
    owned: Mapping[str, Sequence[int]] | None = None,
    generation: int = -1,
    version: int = 3,
) -> bytes:
    """The subscription of a consumer, encoded as the metadata of a protocol."""
    partitions = {topic: tuple(indexes) for topic, indexes in (owned or {}).items()}
    return encode_subscription(Subscription(tuple(topics), None, partitions, generation, None, version))


class GroupHarness:
    """A shard with its log (`records`), timers and clock. The initial rebalance delay is 0 unless `config` sets it."""

    def __init__(self, topics: Mapping[str, int] | None = None, **config: Any) -> None:
        settings = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 10} | config
        self.config = GroupsConfig(**settings)
        self.catalog = Catalog({"t": 4} if topics is None else topics)
        self.now_ms = START_MS
        self.records: list[Record] = []
        self.batch_ends: list[int] = [0]
        """The positions where a test may cut the log: the records of one operation are written and lost together."""
        self.facts: list[Fact] = []
        self.events: list[Record] = []
        """The content of the event log."""
        self.event_serde = Serde(Codec.of(), EVENT_KEYS)
        self.timers: dict[TimerKey, tuple[int, int]] = {}
        """Key -> (deadline in milliseconds, sequence number of the arming)."""
        self.sent: list[SentRequest] = []
        """Every request, oldest first."""
        self.may_describe: Callable[[str], bool] = lambda _name: True
        """What the clients of the next requests may see of the topics."""
        self.behaviours = AS_NEWEST
        """Those of the next requests."""
        self.groups = self._loaded(())
        self.epochs_seen = EpochsSeen()
        self._armed = 0
        self._ids = 0

    # --- requests -----------------------------------------------------------------------------------------------------

    def call(
        self,
        operation: Operation,
        request: Any,
        version: int = 0,
        api: Api | None = None,
        *,
        client_id: str | None = "client",
        client_host: str = "/127.0.0.1",
        dialect: str | None = None,
    ) -> SentRequest:
        """Runs one operation. Without an `api`, a KafkaError is raised and the reply skips the codec."""
        self._ids += 1
        sent = SentRequest(api, version, client_id, client_host, f"{self._ids:036d}", dialect)
        sent.may_describe, sent.behaviours = self.may_describe, self.behaviours
        self.sent.append(sent)
        if api is not None:
            request = _through_the_codec(request, version)
        try:
            result = operation(self.groups, request, sent, self.now_ms)
        except KafkaError as error:
            if api is None:
                self.sent.remove(sent)
                raise
            self._apply(Result(facts=error.facts))
            sent.answer(api.refusal(request, error, version))
            return sent
        self._apply(result)
        if result.reply is not None:
            sent.answer(result.reply)
        return sent

    def join(
        self,
        group_id: str = "g",
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Mapping[str, bytes] | Sequence[tuple[str, bytes]] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 30_000,
        rebalance_ms: int = 60_000,
        generation: int = -1,
        reason: str | None = None,
        version: int = 9,
        client_id: str | None = "client",
        dialect: str | None = None,
    ) -> SentRequest:
        if protocols is None:
            protocols = {"range": subscription()}
        pairs = list(protocols.items()) if isinstance(protocols, Mapping) else list(protocols)
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name, data) for name, data in pairs],
            reason=reason,
            generation_id=generation,
        )
        return self.call(
            classic_protocol.join_group, request, version, join_group.API, client_id=client_id, dialect=dialect
        )

    def sync(
        self,
        group_id: str,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        version: int = 5,
        **extension: Any,
    ) -> SentRequest:
        """`extension`: fields of SyncGroup that only a leader may send."""
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[SyncGroupRequest.SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()],
            **extension,
        )
        return self.call(classic_protocol.sync_group, request, version, sync_group.API)

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, *, instance: str | None = None, version: int = 4
    ) -> SentRequest:
        return self.call(
            classic_protocol.heartbeat,
            HeartbeatRequest(group_id, generation, member_id, instance),
            version,
            heartbeat_api.API,
        )

    def leave(
        self, group_id: str, *members: tuple[str, str | None] | str, reason: str | None = None, version: int = 5
    ) -> SentRequest:
        """Each member is a member id or a pair (member id, instance id)."""
        identities = [(each, None) if isinstance(each, str) else each for each in members]
        if version < 3:
            request = LeaveGroupRequest(group_id=group_id, member_id=identities[0][0])
        else:
            request = LeaveGroupRequest(
                group_id=group_id,
                members=[
                    LeaveGroupRequest.MemberIdentity(member_id, instance, reason) for member_id, instance in identities
                ],
            )
        return self.call(classic_protocol.leave_group, request, version, leave_group.API)

    # --- several steps ------------------------------------------------------------------------------------------------

    def join_new_member(self, group_id: str = "g", **options: Any) -> str:
        """Joins with the member id that the group hands out; returns the id. The join may stay parked."""
        request = self.join(group_id, **options)
        if request.reply is not None and request.error is ErrorCode.MEMBER_ID_REQUIRED:
            request = self.join(group_id, request.reply.member_id, **options)
        return next(reversed(self.groups.by_id[group_id].members)) if request.is_parked else request.reply.member_id

    def stable(self, group_id: str = "g", members: int = 2, **options: Any) -> list[str]:
        """Makes a Stable group; returns the member ids, the leader first.

        The assignment of member i is b"A<i>". With `static` its instance id is i<i>.
        """
        static = options.pop("static", False)
        ids = [
            self.join_new_member(group_id, **({"instance": f"i{i}"} if static else {}), **options)
            for i in range(members)
        ]
        self.settle(group_id)
        return ids

    def settle(self, group_id: str = "g", **options: Any) -> None:
        """Completes the rebalance: missing members rejoin, then every member syncs. The group becomes Stable."""
        group = self.groups.by_id[group_id]
        for member_id, member in list(group.members.items()):
            if member.awaiting_join is None and group.state.value == "PreparingRebalance":
                self.join(
                    group_id,
                    member_id,
                    instance=member.group_instance_id,
                    protocols=member.protocols,
                    protocol_type=group.protocol_type or "",
                    session_ms=member.session_timeout_ms,
                    rebalance_ms=member.rebalance_timeout_ms,
                )
        self.advance(0)
        assert group.state.value == "CompletingRebalance", group.state
        order = sorted(group.members, key=lambda each: each != group.leader_id)
        assignments = {member_id: f"A{i}".encode() for i, member_id in enumerate(order)}
        for member_id in order:
            request = self.sync(
                group_id,
                member_id,
                group.generation,
                assignments if member_id == group.leader_id else None,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
            )
            assert request.ok

    # --- time and crashes ---------------------------------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Advances the clock and fires the due timers by deadline; timers with equal deadlines fire in the order of arming."""
        end_ms = self.now_ms + ms
        while self.timers:
            key = min(self.timers, key=self.timers.__getitem__)
            due_ms = self.timers[key][0]
            if due_ms > end_ms:
                break
            del self.timers[key]
            self.now_ms = max(self.now_ms, due_ms)
            self._apply(self.groups.fire(key, self.now_ms))
        self.now_ms = end_ms

    def restart(self, **config: Any) -> None:
        """Crashes and loads the log again. Parked requests get no response. `config`: settings to change."""
        if config:
            self.config = GroupsConfig(**{name: getattr(self.config, name) for name in self.config.__slots__} | config)
        self.timers.clear()
        self.check_held_bytes()
        self.groups = self._loaded(self.records)
        self.check_held_bytes()

    def check_held_bytes(self) -> None:
        """The bytes that are counted as groups change equal a recount."""
        kept = {each.group_id: (each.held_bytes, each.derived_bytes) for each in self.groups.by_id.values()}
        assert kept == {each.group_id: held_bytes(each) for each in self.groups.by_id.values()}
        assert self.groups.held_bytes.count == sum(map(sum, kept.values()))

    def durable(self, records: Sequence[Record] | None = None) -> dict[str, Any]:
        """Returns the state that a restart must keep: the current one, or the result of replaying `records`."""
        groups = self.groups if records is None else self._replayed(records)
        return {
            "groups": {
                group_id: (group.kind, group.durable)
                for group_id, group in groups.by_id.items()
                if group.kind is not Kind.CLASSIC or _is_known(groups, group)
            },
            "offsets": groups.offsets.by_group,
        }

    def events_of(self, kind: str, group_id: str = "g") -> list[Any]:
        """The values of the group's events of this kind, oldest first."""
        return [
            record.value
            for record in self.events
            if f"{kind}Key" == record.key.NAME and record.key.group == group_id  # type: ignore[attr-defined]
        ]

    def facts_named(self, name: str) -> list[dict[str, Any]]:
        """The fields of each fact with this name, oldest first."""
        return [fact.fields for fact in self.facts if fact.name == name]

    def group(self, group_id: str = "g") -> Any:
        return self.groups.by_id[group_id]

    def _replayed(self, records: Sequence[Record]) -> GroupMachine:
        serde = Serde(Codec.of(), RECORD_KEYS)
        groups = GroupMachine(self.config, self.catalog)
        for record in records:
            read_back = serde.decode(*serde.encode(record))
            assert read_back == record
            groups.replay(read_back)
        return groups

    def _loaded(self, records: Sequence[Record]) -> GroupMachine:
        groups = self._replayed(records)
        self._armed = 0
        self.groups = groups
        self._apply(groups.loaded(self.now_ms))
        return groups

    def _apply(self, result: Result) -> None:
        state_offset = len(self.records)
        for record in result.records:
            self.groups.replay(record)
            self.records.append(record)
        if result.records:
            self.batch_ends.append(len(self.records))
        for key, delay_ms in result.timers:
            if delay_ms is None:
                self.timers.pop(key, None)
            else:
                self._armed += 1
                self.timers[key] = (self.now_ms + delay_ms, self._armed)
        for context, message in result.replies:
            assert isinstance(context, SentRequest)
            context.answer(message)
        for ask in result.asks:
            ask(lambda change: self._apply(change(self.groups, self.now_ms)))
        self.facts.extend(result.facts)
        for fact in result.facts:
            if fact.event is not None:
                record = fact.event.record(state_offset, self.now_ms)
                key, value = self.event_serde.encode(record)
                assert self.event_serde.decode(key, value) == record
                encode = EVENT_ENCODERS.get(type(fact.event))
                if encode is not None:
                    assert encode(fact.event, state_offset, self.now_ms, -1) == (key, value)
                    last: Any = fact.event.record(state_offset, self.now_ms)
                    last.value.state_end_offset = state_offset + 1
                    encoded = encode(fact.event, state_offset, self.now_ms, state_offset + 1)
                    assert encoded == self.event_serde.encode(last)
                self.events.append(record)


def _is_known(groups: GroupMachine, group: Any) -> bool:
    """False for a group that exists only as a round of members: nothing of it is durable."""
    return group.stored is not None or group.group_id in groups.offsets.by_group


class EpochsSeen:
    """Checks that for one member id neither RevocationEpoch nor the assignment epoch of what it holds falls.

    As long as somebody is a member without a break: also while another member id has its instance id.
    """

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, tuple[str | None, int, dict[Any, int]]]] = {}

    def check(self, group: Any, held: Callable[[Any], dict[Any, int]]) -> None:
        """`held`: what a member holds, with its assignment epochs."""
        seen = self._seen.setdefault(group.group_id, {})
        for member_id, member in group.members.items():
            _, lost, since = seen.get(member_id, (None, -1, {}))
            now = held(member)
            assert member.revocation_epoch >= lost, (lost, member)
            assert all(now[each] >= since[each] for each in now.keys() & since.keys()), (since, member)
            assert all(0 < epoch <= member.member_epoch or member.member_epoch < 0 for epoch in now.values()), member
            assert member.revocation_epoch < member.member_epoch or member.member_epoch == -2, member
            seen[member_id] = (member.instance_id, member.revocation_epoch, now)
        for member_id, (instance_id, _, _) in list(seen.items()):
            if member_id not in group.members and instance_id not in group.static_members:
                del seen[member_id]

    def forget(self, group_ids: Any) -> None:
        """Forgets all other groups: they are gone, or of another kind."""
        for group_id in self._seen.keys() - set(group_ids):
            del self._seen[group_id]
