"""A shard in miniature, for tests of the pure core: no loop, no disk, no clock but a number.

It does what `runtime/shard.py` does with a Result: replays its records, keeps its timers, hands out its replies. Every request
and reply really crosses the codec in the version asked, and `restart` reads every record back from bytes. Time only moves
with `advance`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coordinator.api.declaration import Api
from coordinator.fastpath.event_encoding import EVENT_ENCODERS
from coordinator.groups.classic.heartbeat import heartbeat
from coordinator.groups.classic.join import join
from coordinator.groups.classic.leave import leave
from coordinator.groups.classic.sync import sync
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
from coordinator.protocol.subscription import Subscription, encode_subscription
from coordinator.requests import heartbeat as heartbeat_api
from coordinator.requests import join_group, leave_group, sync_group
from coordinator.runtime.result import Fact, Record, Result, TimerKey
from coordinator.runtime.serde import Serde
from tests.support.catalog import Catalog

START_MS = 1_000_000
Operation = Callable[[Any, Any, Any, int], Result]


class Asked:
    """One request, as the core sees it (a Call), and its answer once there is one."""

    def __init__(
        self, api: Api | None, api_version: int, client_id: str | None, client_host: str, fresh_id: str
    ) -> None:
        self.api = api
        self.api_version = api_version
        self.client_id = client_id
        self.client_host = client_host
        self.fresh_id = fresh_id
        self.reply: Any = None

    def answer(self, message: Message) -> None:
        assert self.reply is None, f"a second answer: {self.reply} and then {message}"
        self.reply = message if self.api is None else _through_the_codec(message, self.api_version)

    @property
    def is_parked(self) -> bool:
        return self.reply is None

    @property
    def error(self) -> ErrorCode:
        assert self.reply is not None, "no answer yet"
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
    """Metadata of a consumer."""
    partitions = {topic: tuple(indexes) for topic, indexes in (owned or {}).items()}
    return encode_subscription(Subscription(tuple(topics), None, partitions, generation, None, version))


class GroupHarness:
    """A shard with its log (`records`), timers and clock. Groups start without an initial rebalance delay unless asked."""

    def __init__(self, topics: Mapping[str, int] | None = None, **config: Any) -> None:
        settings = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 10} | config
        self.config = GroupsConfig(**settings)
        self.catalog = Catalog({"t": 4} if topics is None else topics)
        self.now_ms = START_MS
        self.records: list[Record] = []
        self.batch_ends: list[int] = [0]
        """Where the log may be cut: an operation's records are written, lost and cleaned together."""
        self.facts: list[Fact] = []
        self.events: list[Record] = []
        """What the event log would have."""
        self.event_serde = Serde(Codec.of(), EVENT_KEYS)
        self.timers: dict[TimerKey, tuple[int, int]] = {}
        """Key -> (due, order of arming)."""
        self.asked: list[Asked] = []
        self.groups = self._loaded(())
        self._armed = 0
        self._ids = 0

    # --- asking -------------------------------------------------------------------------------------------------------

    def call(
        self,
        operation: Operation,
        request: Any,
        version: int = 0,
        api: Api | None = None,
        *,
        client_id: str | None = "client",
        client_host: str = "/127.0.0.1",
    ) -> Asked:
        """Runs one operation; without an `api` a KafkaError escapes and the reply does not cross the codec."""
        self._ids += 1
        asked = Asked(api, version, client_id, client_host, f"{self._ids:036d}")
        self.asked.append(asked)
        if api is not None:
            request = _through_the_codec(request, version)
        try:
            result = operation(self.groups, request, asked, self.now_ms)
        except KafkaError as error:
            if api is None:
                self.asked.remove(asked)
                raise
            self._apply(Result(facts=error.facts))
            asked.answer(api.refuse(request, error, version))
            return asked
        self._apply(result)
        if result.reply is not None:
            asked.answer(result.reply)
        return asked

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
    ) -> Asked:
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
        return self.call(join, request, version, join_group.API, client_id=client_id)

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
    ) -> Asked:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[SyncGroupRequest.SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()],
        )
        return self.call(sync, request, version, sync_group.API)

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, *, instance: str | None = None, version: int = 4
    ) -> Asked:
        return self.call(
            heartbeat, HeartbeatRequest(group_id, generation, member_id, instance), version, heartbeat_api.API
        )

    def leave(
        self, group_id: str, *members: tuple[str, str | None] | str, reason: str | None = None, version: int = 5
    ) -> Asked:
        """Each member is its id, or (id, instance id)."""
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
        return self.call(leave, request, version, leave_group.API)

    # --- whole stories ------------------------------------------------------------------------------------------------

    def enter(self, group_id: str = "g", **how: Any) -> str:
        """A member comes as far as JoinGroup alone takes it (its join may be parked); returns its id."""
        asked = self.join(group_id, **how)
        if asked.reply is not None and asked.error is ErrorCode.MEMBER_ID_REQUIRED:
            asked = self.join(group_id, asked.reply.member_id, **how)
        return next(reversed(self.groups.by_id[group_id].members)) if asked.is_parked else asked.reply.member_id

    def stable(self, group_id: str = "g", members: int = 2, **how: Any) -> list[str]:
        """A Stable group; the first id leads. Member i is assigned b"A<i>", and with `static` it has the instance id i<i>."""
        static = how.pop("static", False)
        ids = [self.enter(group_id, **({"instance": f"i{i}"} if static else {}), **how) for i in range(members)]
        self.settle(group_id)
        return ids

    def settle(self, group_id: str = "g", **how: Any) -> None:
        """Members whose join is missing join again, then everybody syncs: the group is Stable after this."""
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
            asked = self.sync(
                group_id,
                member_id,
                group.generation,
                assignments if member_id == group.leader_id else None,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
            )
            assert asked.ok

    # --- time and crashes ---------------------------------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Lets time pass; timers fire in order of their deadlines, equal ones in the order in which they were armed."""
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
        """A crash: memory is lost, everything that was written is loaded. Who waited for an answer gets none."""
        if config:
            self.config = GroupsConfig(**{name: getattr(self.config, name) for name in self.config.__slots__} | config)
        self.timers.clear()
        self.groups = self._loaded(self.records)

    def durable(self, records: Sequence[Record] | None = None) -> dict[str, Any]:
        """What must be the same after a restart: of this state, or of a state made by replaying `records`."""
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
        """The values of every event of this kind of a group, oldest first."""
        return [
            record.value
            for record in self.events
            if f"{kind}Key" == record.key.NAME and record.key.group == group_id  # type: ignore[attr-defined]
        ]

    def told(self, name: str) -> list[dict[str, Any]]:
        """The fields of every fact of this name, oldest first."""
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
        for asked, message in result.replies:
            assert isinstance(asked, Asked)
            asked.answer(message)
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
    """A group whose only trace is a round of members is not durable."""
    return group.stored is not None or group.group_id in groups.offsets.by_group
