"""Clients of share groups (KIP-932): members, an administrator who deletes records, and one who writes with a stale epoch.

A member joins, opens a share session, fetches records and acknowledges them: each accepted, released, rejected or renewed, with
the next fetch or in a request of its own, as ranges of one type or with a type for each record. Members are silent for longer
than a lock lasts, leave, crash, close their session or open another one without closing it.

What must hold is in share_invariants.py. After healing, members accept all that they get.
"""

from typing import Any
from uuid import UUID

from coordinator.log.batch import CorruptBatch, decode_records, split
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DeleteRecordsRequest,
    IncrementalAlterConfigsRequest,
    ReadShareGroupStateSummaryRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    WriteShareGroupStateRequest,
)
from coordinator_lab.simulation.clients import RETRIABLE, RETRIABLE_CHANGE, Client, World
from coordinator_lab.simulation.consumer_clients import JOINING, LEAVING, MUST_REJOIN, Ownership
from coordinator_lab.simulation.data_clients import PARTITIONS
from coordinator_lab.simulation.share_invariants import (
    ACCEPT,
    ACKNOWLEDGED,
    FENCED,
    GAP,
    PARCELS,
    REJECT,
    RELEASE,
    RENEW,
    SKIPPED,
    Asked,
    Delivery,
    GroupHistory,
    Moment,
    Place,
    Session,
    ShareHistory,
)
from coordinator_lab.simulation.transaction_clients import LEDGER
from coordinator_lab.simulation.wire import NoResponse

OPENING, CLOSING = 0, -1
"""Epochs of a share session."""
EVERYTHING = 500
"""More records than are ever in a partition at once."""
DELETE_S, WRITE_S = 6.0, 4.0
_GROUP, _SET = 32, 0
"""Resource type and operation of IncrementalAlterConfigs."""
_SESSION_ERRORS = {ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH}
_RETRIABLE = RETRIABLE | {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR}
_ACKNOWLEDGE_ERRORS = _RETRIABLE | {
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""INVALID_REQUEST: a new leader has not acquired as much; UNKNOWN_TOPIC_OR_PARTITION: it has acquired nothing at all."""


class ShareMember(Client):
    """A share consumer."""

    def __init__(self, world: World, group: GroupHistory, number: int, ownership: Ownership) -> None:
        super().__init__(world, f"{group.group_id}-m{number}")
        self.group = group
        self.group_id = group.group_id
        self.ownership = ownership
        self.topics = self.random.choice([(PARCELS,), (PARCELS, LEDGER)])
        group.topics.update(self.topics)
        self._restart()

    def _restart(self) -> None:
        """Starts like a new process, with a new member id."""
        self.member_id = str(UUID(bytes=self.random.randbytes(16)))
        self.epoch = JOINING
        self.assigned: set[Place] = set()
        self.sends_everything = True
        self.stable = False
        self.in_doubt = False
        """Whether requests of this member id may arrive late."""
        self.session: Session | None = None
        self._end_session()

    def _end_session(self) -> None:
        """The session is over, or may be, and with it the locks of what it had."""
        if self.session is not None:
            self.session.end()
        self.session = None
        self.session_epoch = OPENING
        self.in_session: set[Place] = set()
        self.held: dict[Place, dict[int, Delivery]] = {}

    @property
    def wanted(self) -> set[Place]:
        return {(topic, index) for topic in self.topics for index in range(PARTITIONS)}

    async def run(self) -> None:
        """Runs until the simulation ends."""
        while True:
            try:
                await self._live()
            except NoResponse:
                self._lose_connection()
                await self.think()

    def _lose_connection(self) -> None:
        if self.random.random() < 0.5 and not self.world.is_healed:
            self._restart()
        else:
            self._end_session()
            self.sends_everything = self.in_doubt = True

    async def _live(self) -> None:
        if not self.group.is_configured:
            await self._configure()
        await self._heartbeat()
        await self.think()
        for _ in range(self.random.randint(1, 4)):
            if self.assigned:
                await self._consume()
        if self.random.random() > 0.9 and not self.world.is_healed:
            await self._rare_event(self.random.random())

    async def _configure(self) -> None:
        entry, resource = (
            IncrementalAlterConfigsRequest.AlterableConfig,
            IncrementalAlterConfigsRequest.AlterConfigsResource,
        )
        entries = [entry(name, _SET, value) for name, value in self.group.configs.items()]
        request = IncrementalAlterConfigsRequest([resource(_GROUP, self.group_id, entries)])
        code = (await self.call(request, 1)).responses[0].error_code
        if code in RETRIABLE_CHANGE:
            raise NoResponse
        if code:
            self.unexpected("IncrementalAlterConfigs", code)
        self.group.is_configured = True

    # --- membership ---------------------------------------------------------------------------------------------------

    async def _heartbeat(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch, rack_id=None
        )
        if self.epoch == JOINING or self.sends_everything:
            request.subscribed_topic_names = list(self.topics)
        member_id, asked = self.member_id, self.world.history.tick()
        response = await self.call(request, 1)
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            self.stable = False
            if code in MUST_REJOIN:
                self.epoch, self.sends_everything = JOINING, True
            elif code not in _RETRIABLE:
                self.unexpected("ShareGroupHeartbeat", code)
            return
        self.ownership.epoch_received(self.group_id, member_id, response.member_epoch, asked)
        self.epoch, self.sends_everything = response.member_epoch, False
        if response.assignment is not None:
            self.assigned = {
                (await self.topic_name(topic.topic_id), index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            }
        self.stable = True

    async def describe(self) -> Any:
        """The described group. Raises NoResponse."""
        response = await self.call(ShareGroupDescribeRequest([self.group_id]), 1)
        if response.groups[0].error_code in RETRIABLE:
            raise NoResponse
        return response.groups[0]

    # --- fetching and acknowledging -----------------------------------------------------------------------------------

    async def _consume(self) -> None:
        chance = self.random.random()
        if self.held and chance < 0.3:
            await self._acknowledge(self.session_epoch)
        elif self.held and self.group.renews and chance < 0.4 and not self.world.is_healed:
            await self._renew()
        elif self.session is None or chance < 0.8:
            await self._fetch(self.session_epoch)

    def _decide(self) -> list[Asked]:
        """What to say about some of the held records, which the member then holds no longer."""
        decided = []
        for _, held in sorted(self.held.items()):
            kinds: dict[Delivery, int] = {}
            for offset in sorted(held):
                if self.world.is_healed or self.random.random() < 0.8:
                    delivery = held.pop(offset)
                    kinds[delivery] = self._kind() if delivery.has_record else GAP
            if kinds:
                decided.append(self.group.acknowledging(kinds))
        self.held = {place: held for place, held in self.held.items() if held}
        return decided

    def _kind(self) -> int:
        if self.world.is_healed:
            return ACCEPT
        return self.random.choices([ACCEPT, RELEASE, REJECT], [6, 3, 1])[0]

    async def _renew(self) -> None:
        """Prolongs all locks, in one of the requests that can."""
        renewed = [
            self.group.acknowledging(dict.fromkeys(held.values(), RENEW)) for _, held in sorted(self.held.items())
        ]
        if self.random.random() < 0.5:
            await self._send_acknowledgements(renewed, self.session_epoch, renews=True)
        else:
            request = ShareFetchRequest(self.group_id, self.member_id, self.session_epoch, is_renew_ack=True)
            request.max_wait_ms = request.min_bytes = request.max_bytes = request.max_records = 0
            await self._send_fetch(request, 2, renewed)

    async def _acknowledge(self, session_epoch: int) -> None:
        await self._send_acknowledgements(self._decide(), session_epoch)

    async def _send_acknowledgements(self, asked: list[Asked], session_epoch: int, *, renews: bool = False) -> None:
        if not asked and session_epoch != CLOSING:
            return
        request = ShareAcknowledgeRequest(self.group_id, self.member_id, session_epoch, renews)
        batches = await self._batches(asked, ShareAcknowledgeRequest.AcknowledgementBatch)
        for place, of_place in batches.items():
            partition = ShareAcknowledgeRequest.AcknowledgePartition(place[1], of_place)
            request.topics.append(ShareAcknowledgeRequest.AcknowledgeTopic(await self.topic_id(place[0]), [partition]))
        sent = self.world.history.tick()
        response = await self.call(request, 2 if renews else self.random.choice([1, 2]))
        if self._goes_on("ShareAcknowledge", response.error_code, session_epoch, sent):
            results = {
                (await self.topic_name(topic.topic_id), each.partition_index): each.error_code
                for topic in response.responses
                for each in topic.partitions
            }
            self._take_results(asked, results)
        self._ended(session_epoch)

    async def _fetch(self, session_epoch: int) -> None:
        """Fetches, mostly with acknowledgements in the same request."""
        random, version = self.random, self.random.choice([1, 2])
        asked = self._decide() if self.session is not None and random.random() < 0.7 else []
        request = ShareFetchRequest(
            self.group_id,
            self.member_id,
            session_epoch,
            max_wait_ms=random.choice([0, 300, 1_000]),
            min_bytes=random.choice([0, 1, 1, 200]),
            max_bytes=random.choice([100, 1_000, 100_000]),
            max_records=EVERYTHING if self.world.is_healed else random.choice([1, 3, 20, EVERYTHING]),
            batch_size=random.choice([1, 4, EVERYTHING]),
        )
        if version > 1:
            request.share_acquire_mode = random.choice([0, 1])
        await self._send_fetch(request, version, asked)

    async def _send_fetch(self, request: ShareFetchRequest, version: int, asked: list[Asked]) -> None:
        epoch, moment = request.share_session_epoch, self.group.history.now()
        batches = await self._batches(asked, ShareFetchRequest.AcknowledgementBatch)
        for place in sorted(batches.keys() | (self.assigned - self.in_session if epoch != CLOSING else set())):
            partition = ShareFetchRequest.FetchPartition(place[1], batches.get(place, []))
            request.topics.append(ShareFetchRequest.FetchTopic(await self.topic_id(place[0]), [partition]))
        for topic, index in sorted(self.in_session - self.assigned):
            request.forgotten_topics_data.append(ShareFetchRequest.ForgottenTopic(await self.topic_id(topic), [index]))
        if epoch == OPENING:
            self._end_session()
            self.session = self.group.open_session(self.member_id, in_doubt=self.in_doubt)
        self.in_session = set(self.assigned)
        response = await self.call(request, version)
        if self._goes_on("ShareFetch", response.error_code, epoch, moment.tick):
            acknowledged: dict[Place, int] = {}
            acquired = 0
            for topic in response.responses:
                name = await self.topic_name(topic.topic_id)
                for each in topic.partitions:
                    acknowledged[name, each.partition_index] = each.acknowledge_error_code
                    acquired += self._take(request, (name, each.partition_index), each, moment)
            if request.share_acquire_mode == 1 and acquired > request.max_records:
                self.world.broken("record_limit", f"{self.name} got {acquired} records, not {request.max_records}")
            self._take_results(asked, acknowledged)
        self._ended(epoch)

    def _goes_on(self, api: str, code: int, session_epoch: int, sent: int) -> bool:
        """Whether the request was accepted as one of the session. If not, the session is over for this member."""
        session = self.session
        assert session is not None
        if code == ErrorCode.NONE:
            session.continued(sent)
            self.session_epoch += 1
            return True
        self.world.event(f"{self.name} {self.member_id[:4]} {session_epoch}: {api} {ErrorCode(code).name}")
        if code not in _RETRIABLE and code not in _SESSION_ERRORS:
            self.unexpected(api, code)
        self._end_session()
        return False

    def _ended(self, session_epoch: int) -> None:
        if session_epoch == CLOSING:
            self._end_session()

    async def _batches(self, asked: list[Asked], batch: type[Any]) -> dict[Place, list[Any]]:
        """The acknowledgements of each partition as messages: contiguous offsets, one type for all or one for each."""
        found: dict[Place, list[Any]] = {}
        for each in asked:
            for delivery, kind in sorted(each.kinds.items(), key=lambda item: item[0].offset):
                of_place = found.setdefault(delivery.place, [])
                if of_place and of_place[-1].last_offset == delivery.offset - 1 and self.random.random() < 0.9:
                    of_place[-1].last_offset = delivery.offset
                    of_place[-1].acknowledge_types.append(kind)
                else:
                    of_place.append(batch(delivery.offset, delivery.offset, [kind]))
        for of_place in found.values():
            for each in of_place:
                if len(set(each.acknowledge_types)) == 1 and self.random.random() < 0.5:
                    del each.acknowledge_types[1:]
        return found

    def _take_results(self, asked: list[Asked], results: dict[Place, int]) -> None:
        for each in asked:
            place = next(iter(each.kinds)).place
            if place not in results:
                self.world.broken("every partition gets a response", f"{self.name}: none for {place}")
                continue
            code = ErrorCode(results[place])
            if code and code not in _ACKNOWLEDGE_ERRORS:
                self.unexpected("acknowledgement", code)
            if code:
                self.world.event(f"{self.name} {self.member_id[:4]}: {place} {code.name}")
            self.group.acknowledged(each, code)

    def _take(self, request: ShareFetchRequest, place: Place, data: Any, asked: Moment) -> int:
        """Takes the records of a partition, and returns how many."""
        if data.error_code:
            if data.error_code not in _RETRIABLE:
                self.unexpected(f"ShareFetch of {place}", data.error_code)
            return 0
        session = self.session
        assert session is not None
        records = self._records(place, data.records or b"")
        taken = 0
        for acquired in data.acquired_records:
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                taken += 1
                delivery = self.group.received(session, place, offset, acquired.delivery_count, asked)
                self.held.setdefault(place, {})[offset] = delivery
                value = records.get(offset)
                delivery.has_record = value is not None
                if value is not None:
                    self._check_value(place, offset, value)
                elif place[0] == PARCELS:
                    self.world.broken(SKIPPED, f"{self.name} got {place} {offset} without its record: {request}")
        return taken

    def _records(self, place: Place, content: bytes) -> dict[int, str]:
        """The values in these batches; those of markers are left out."""
        try:
            return {
                record.offset: (record.value or b"").decode()
                for at, header in split(content)
                if not header.is_control
                for record in decode_records(content, at, header)
            }
        except CorruptBatch as error:
            self.world.broken(SKIPPED, f"{self.name} {place}: {error}")
            raise NoResponse from None

    def _check_value(self, place: Place, offset: int, value: str) -> None:
        history = self.group.history
        if place[0] == PARCELS:
            history.parcels.observe(place[1], offset, value, f"delivered to {self.group_id}")
        elif self.group.is_committed:
            history.ledger.read(place[1], offset, value)

    # --- rare events --------------------------------------------------------------------------------------------------

    async def _rare_event(self, chance: float) -> None:
        if chance < 0.2:
            await self._close_session()
            request = ShareGroupHeartbeatRequest(
                group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVING, rack_id=None
            )
            try:
                await self.call(request, 1)
            finally:
                self._restart()
            await self.think()
        elif chance < 0.4:
            self.caller.give_up()
            self._restart()
            await self.world.sleep(self.random.choice([0.0, 1.0, 15.0]) * self.random.random())
        elif chance < 0.6:
            await self.world.sleep(self.random.uniform(0, 2 * self.group.lock_s))
        elif chance < 0.8:
            await self._close_session()
        else:
            self._end_session()  # and the next fetch opens another one

    async def _close_session(self) -> None:
        """Closes the session, with its last acknowledgements: what is left is given back."""
        if self.session is None:
            return
        if self.random.random() < 0.5:
            await self._acknowledge(CLOSING)
        else:
            await self._fetch(CLOSING)


class RecordDeleter(Client):
    """Deletes the first records of the topic of share groups, which are nobody's any more."""

    def __init__(self, world: World, shares: ShareHistory) -> None:
        super().__init__(world, "record-deleter")
        self.shares = shares

    async def run(self) -> None:
        while not self.world.is_healed:
            await self.world.sleep(self.random.expovariate(1 / DELETE_S))
            partition = self.random.randrange(PARTITIONS)
            place, known = (PARCELS, partition), self.shares.parcels.known[partition]
            offset = min(self.shares.deleted.get(place, 0) + self.random.randint(1, 10), max(known, default=-1) + 1)
            if not offset or self.world.is_healed:
                continue
            self.shares.deleted[place] = max(self.shares.deleted.get(place, 0), offset)
            asked = DeleteRecordsRequest.DeleteRecordsPartition(partition, offset)
            topic = DeleteRecordsRequest.DeleteRecordsTopic(PARCELS, [asked])
            try:
                response = await self.call(DeleteRecordsRequest([topic], 5_000), self.random.randrange(0, 3))
            except NoResponse:
                continue
            code = response.topics[0].partitions[0].error_code
            if code and code not in _RETRIABLE:
                self.unexpected("DeleteRecords", code)


class StaleWriter(Client):
    """Reads the state of share partitions, and writes as a leader that has an earlier state epoch."""

    def __init__(self, world: World, shares: ShareHistory) -> None:
        super().__init__(world, "stale-writer")
        self.shares = shares

    async def run(self) -> None:
        while True:
            await self.world.sleep(self.random.expovariate(1 / WRITE_S))
            try:
                await self._write(self.random.choice(sorted(self.shares.groups)), self.random.randrange(PARTITIONS))
            except NoResponse:
                continue

    async def _write(self, group_id: str, partition: int) -> None:
        group, topic = self.shares.groups[group_id], self.random.choice(sorted(self.shares.groups[group_id].topics))
        topic_id, sent = await self.topic_id(topic), self.world.history.tick()
        summary = ReadShareGroupStateSummaryRequest
        asked = summary.ReadStateSummaryData(topic_id, [summary.PartitionData(partition, 0)])
        (found,) = (await self.call(summary(group_id, [asked]), 0)).results[0].partitions
        if found.error_code:
            if found.error_code not in _RETRIABLE:
                self.unexpected("ReadShareGroupStateSummary", found.error_code)
            raise NoResponse
        group.start_read((topic, partition), found.start_offset, sent)
        if found.state_epoch < 1:
            return
        write, start = WriteShareGroupStateRequest, max(found.start_offset, 0)
        batch = write.StateBatch(start, start + 5, ACKNOWLEDGED, 1)
        data = write.PartitionData(partition, found.state_epoch - 1, 0, start, -1, [batch])
        (result,) = (
            (await self.call(write(group_id, [write.WriteStateData(topic_id, [data])]), 0)).results[0].partitions
        )
        if result.error_code == ErrorCode.NONE:
            detail = (
                f"{group_id} {topic} {partition} has state epoch {found.state_epoch}, and took a write of one before"
            )
            self.world.broken(FENCED, detail)
        elif result.error_code not in _RETRIABLE | {ErrorCode.FENCED_STATE_EPOCH}:
            self.unexpected("WriteShareGroupState", result.error_code)
