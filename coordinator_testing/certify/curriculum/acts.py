"""What several events of the curriculum do: waiting for answers and epochs, ageing the clock, migrating, fencing a producer."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from uuid import uuid4

from coordinator.log.batch_builder import BatchBuilder
from coordinator.operations import topics
from coordinator.operations.client import Client, OperationFailed, refuse_error
from coordinator.protocol.messages import (
    Answer,
    ConsumerGroupHeartbeatRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    ProduceRequest,
    Request,
)
from coordinator.rules.model import Entry
from coordinator_testing.certify.event import Allows, NotApplicable
from coordinator_testing.certify.judge.entries import errors
from coordinator_testing.certify.judge.membership import FATAL_MS
from coordinator_testing.certify.judge.share import ACCEPT, acknowledgements
from coordinator_testing.certify.programs import Instance, now_ms
from coordinator_testing.certify.records import ANSWERED_WITHIN_S, Producer
from coordinator_testing.certify.stage import Mark, Stage
from coordinator_testing.control import NotReached

HEARTBEATS = {
    "classic": "Heartbeat",
    "consumer": "ConsumerGroupHeartbeat",
    "streams": "StreamsGroupHeartbeat",
    "share": "ShareGroupHeartbeat",
}
"""GROUP_PROTOCOL -> the API by which its members stay alive."""
COMMITS = ("OffsetCommit", "TxnOffsetCommit")
RECONCILING = ("Assigning", "Reconciling")
"""The states of a consumer or streams group in which members learn what they are assigned and confirm what they gave up."""
_HANGS_MS = 120_000
_TRANSACTIONAL = 0x10
"""The attribute of a batch that is part of a transaction."""
_ADDS_PARTITIONS = 12
"""The version of Produce that adds its partitions to the transaction (KIP-890), and still names topics."""
_GROUP_RESOURCE = 32
_SET = 0
_STEP_MS = 40_000
"""Shorter than a session of the consumer protocol, 45 s."""
_HEARTBEAT_WITHIN_S = 8.0
"""Longer than the heartbeat interval of the consumer protocol, 5 s."""
_COMMITS_WITHIN_S = 1.5
"""A program that reads a steady stream commits in this time. What waits behind a held request cannot be seen."""
WITHOUT_LEAVING_S = 75.0
"""Longer than the session of a process that has ended without leaving: 45 s in most libraries."""
MAY_END = Allows(rebalances=3, stall_s=60.0, may_end=True)
"""For what a right program may end of, without leaving its group, so that its session has to pass: 45 s in most libraries."""
_ASKS_WITHIN_S = FATAL_MS / 2000
"""Well before the judge blames a member for what it sends: meanwhile it learns from no heartbeat that it was removed."""
_STEPS_MAX = 15
"""A rebalance timeout of 5 min, the default of all libraries, is over after 8."""


def heartbeat_of(instance: Instance) -> str:
    """The API of an instance's heartbeats."""
    return HEARTBEATS[instance.environment["GROUP_PROTOCOL"]]


def need_two(stage: Stage) -> None:
    """Raises NotApplicable if there is nobody to take partitions over."""
    if len(stage.instances) < 2:
        raise NotApplicable("it needs two instances")


async def need_static(stage: Stage) -> None:
    """Raises NotApplicable if the program ignores GROUP_INSTANCE_ID."""
    members = (await stage.group_view())["members"]
    if not all(each.get("instance_id") or each.get("group_instance_id") for each in members):
        raise NotApplicable("the program has no static members")


def need_plain_commits(stage: Stage) -> None:
    """Raises NotApplicable if the program commits in transactions."""
    if any(each.api == "EndTxn" for each in stage.observation.entries):
        raise NotApplicable("the program commits in transactions")


async def transactional_id_of(stage: Stage, instance: Instance) -> str:
    """The transactional id by which an instance ended a transaction. Raises NotApplicable if no instance ended any."""

    async def found() -> str | None:
        entry = stage.observation.last(lambda each: each.api == "EndTxn" and each.listener == instance.listener)
        return str(entry.request["transactional_id"]) if entry else None

    if all(each.api != "EndTxn" for each in stage.observation.entries):
        raise NotApplicable("the program uses no transactions")
    return await stage.until(found, f"a transaction of instance {instance.index}")


async def pause_the_others(stage: Stage, instance: Instance) -> None:
    """Ends the stream of records, and waits until all other instances have committed theirs: nothing of them is pending when
    the group rebalances. `stage.producer.start` continues it. Raises NotReached.
    """
    await stage.producer.stop()
    stage.note("the stream of records pauses")
    owners: dict[int, str] = {}
    for entry in stage.observation.entries:
        if entry.api == "TxnOffsetCommit":
            owners.update({int(each["partition"]): entry.listener for each in entry.request["partitions"]})
    theirs = {partition for partition, listener in owners.items() if listener != instance.listener}
    ends = await asyncio.to_thread(stage.topics.ends, stage.topic, stage.producer.partitions)

    async def committed() -> bool:
        found = await stage.committed()
        return all(found.get(partition, 0) >= ends[partition] for partition in theirs)

    await stage.until(committed, "the commits of the other instances")


async def answered_with(stage: Stage, instance: Instance, api: str, error: str) -> None:
    """Waits until an instance has been answered with this error. Raises NotReached."""

    async def found() -> bool:
        return any(
            entry.listener == instance.listener and entry.api == api and error in str(entry.response)
            for entry in stage.observation.entries
        )

    await stage.until(found, f"{error} to {api} of instance {instance.index}")


async def answered_times(stage: Stage, api: str, error: str, times: int) -> None:
    """Waits until instances have been answered with this error so often. Raises NotReached."""

    async def found() -> bool:
        answered = [each for each in stage.observation.entries if each.api == api and error in str(each.response)]
        return len(answered) >= times

    await stage.until(found, f"{error} to {api}, {times} times")


async def ended_or_commits_again(
    stage: Stage, instance: Instance, is_commit: Callable[[Entry], bool] | None = None
) -> None:
    """Waits until an instance has ended, or has committed from now on: a transaction, unless `is_commit` says otherwise. Starts
    it again if it has ended.
    """
    is_meant = is_commit or _commits_transaction
    since_ms = now_ms()

    async def found() -> str | None:
        if not instance.runs:
            return "ended"
        later = stage.observation.last(
            lambda entry: entry.listener == instance.listener and entry.time_ms >= since_ms and is_meant(entry)
        )
        return "again" if later else None

    if await stage.until(found, f"the end of instance {instance.index}, or a commit of it") == "ended":
        await start_and_join(stage, instance)
    await stage.stable(within_s=WITHOUT_LEAVING_S)


async def start_and_join(stage: Stage, instance: Instance) -> None:
    """Starts an instance, and waits until it is a new member, or has ended. Until then the group may be Stable with the member
    of the process before, which did not leave. Raises NotReached.
    """
    before = {each["member_id"] for each in (await stage.group_view()).get("members", ())}
    await stage.start(instance)

    async def joined() -> bool:
        with suppress(NotReached):
            return await stage.member_of(instance) not in before
        return not instance.runs

    await stage.until(joined, f"a new member of instance {instance.index}")


async def asked_or_ended(stage: Stage, instance: Instance, api: str, since: Mark) -> None:
    """Waits for a while until an instance that need not do either has sent such a request since the mark, or has ended."""

    async def found() -> bool:
        entries = stage.observation.since(since.entries)
        return not instance.runs or any(
            each.listener == instance.listener and each.api == api and each.time_ms >= since.time_ms for each in entries
        )

    with suppress(NotReached):
        await stage.until(found, f"{api} of instance {instance.index}", _ASKS_WITHIN_S)


def commits(entry: Entry) -> bool:
    """Whether an entry is a commit of offsets, or accepts records of a share group, and has succeeded."""
    if entry.outcome != "answered" or errors(entry):
        return False
    return entry.api in COMMITS or any(kind == ACCEPT for _, _, _, kind, _ in acknowledgements(entry))


def _commits_transaction(entry: Entry) -> bool:
    """Whether an entry is an EndTxn that commits and has succeeded. A program may abort before it ends."""
    return (
        entry.api == "EndTxn" and entry.request["committed"] and entry.outcome == "answered" and not any(errors(entry))
    )


async def epoch_of(stage: Stage, instance: Instance) -> int:
    """The epoch that the member of an instance is in. Raises NotReached if it is none."""
    member_id = await stage.member_of(instance)
    members = (await stage.group_view())["members"]
    return next(int(each["member_epoch"]) for each in members if each["member_id"] == member_id)


async def in_epoch(stage: Stage, instance: Instance, epoch: int) -> None:
    """Waits until the member of an instance is in this epoch or a later one. Raises NotReached."""

    async def reached() -> bool:
        return await epoch_of(stage, instance) >= epoch

    await stage.until(reached, f"epoch {epoch} of instance {instance.index}")


async def in_state(stage: Stage, states: Collection[str]) -> None:
    """Waits until the group is in one of these states. Raises NotReached."""

    async def reached() -> bool:
        return (await stage.group_view()).get("state") in states

    await stage.until(reached, f"the group in {' or '.join(states)}")


async def age_until_removed(stage: Stage, instance: Instance) -> None:
    """Advances the server's clock until the coordinator removes the member of an instance, in steps in which every member
    sends a heartbeat if it can, so that no session ends. For events that are alone. Raises NotReached.
    """
    member_id = await stage.member_of(instance)
    stage.note(f"the server's clock is advanced until member {member_id} is removed")
    await stage.control.clock.manual()
    try:
        for _ in range(_STEPS_MAX):
            await stage.control.clock.advance(_STEP_MS)
            if all(each["member_id"] != member_id for each in (await stage.group_view())["members"]):
                return
            others = [each for each in stage.instances if each.runs and each is not instance]
            await asyncio.gather(*(stage.request(heartbeat_of(each), each) for each in others))
            # A client that sends none while it is busy is removed when its session ends.
            with suppress(NotReached):
                await stage.request(heartbeat_of(instance), instance, within_s=_HEARTBEAT_WITHIN_S)
    finally:
        await stage.control.clock.real()
    raise NotReached(f"member {member_id} is still there, {_STEPS_MAX * _STEP_MS} ms later")


async def stop_all(stage: Stage) -> None:
    """Stops all instances, and waits until the group has no members. Raises NotReached."""
    for instance in stage.instances:
        await stage.stop(instance)
    await in_state(stage, ("Empty", "Dead"))


async def start_all(stage: Stage) -> None:
    """Starts all instances, and waits until the group is stable. Raises NotReached."""
    for instance in stage.instances:
        await stage.start(instance)
    await stage.stable()


async def restart(stage: Stage, instance: Instance, environment: Mapping[str, str] | None = None) -> None:
    """Stops an instance and starts it, with some variables changed."""
    await stage.stop(instance)
    instance.environment.update(environment or {})
    await stage.start(instance)


async def migrate(stage: Stage, protocol: str) -> None:
    """Restarts the instances one after the other with another GROUP_PROTOCOL, while the others read.

    Raises NotApplicable if the program ends because it does not have that protocol.
    """
    join = {"classic": "JoinGroup", "consumer": "ConsumerGroupHeartbeat"}[protocol]
    for instance in stage.instances:
        await restart(stage, instance, {"GROUP_PROTOCOL": protocol})

        async def joined_or_ended(instance: Instance = instance) -> str | None:
            if not instance.runs:
                return "ended"
            began_ms = instance.history.runs[-1].started_ms
            joined = stage.observation.last(
                lambda entry: entry.listener == instance.listener and entry.api == join and entry.time_ms >= began_ms
            )
            return "joined" if joined else None

        if await stage.until(joined_or_ended, f"{join} of instance {instance.index}") == "ended":
            raise NotApplicable(f"the program ends with GROUP_PROTOCOL={protocol}")
        await stage.stable()


async def bump_in_mid_commit(stage: Stage, kind: str, policy: str) -> None:
    """Holds a heartbeat of the first instance while the epoch is bumped, until a commit waits behind it on its connection: the
    commit has the epoch before, and arrives when the heartbeat has brought the next. `kind`: the prefix of the configs.
    """
    await set_group_config(stage, f"{kind}.assignment.interval.ms", "0")
    await set_group_config(stage, f"{kind}.fencing.policy", policy)
    hold = await stage.fault(stage.first, api=heartbeat_of(stage.first), hold="request")
    await stage.held(hold)
    epoch = await epoch_of(stage, stage.first)
    await stage.bump_epoch()
    await asyncio.sleep(_COMMITS_WITHIN_S)
    await hold.release()
    await in_epoch(stage, stage.first, epoch + 1)
    await stage.progress()


async def set_group_config(stage: Stage, name: str, value: str) -> None:
    """Sets a dynamic config of the group. Raises OperationFailed."""
    stage.note(f"{name}={value}")
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=_GROUP_RESOURCE,
        resource_name=stage.group,
        configs=[IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=_SET, value=value)],
    )
    answer = await _ask(stage, IncrementalAlterConfigsRequest(resources=[resource]))
    [found] = answer.responses
    refuse_error(found.error_code, f"cannot set {name}", found.error_message)


async def join_with_assignor(stage: Stage, assignor: str) -> str:
    """Adds a member to the consumer group that asks for this assignor, and reads a topic that nobody has. Returns its id.

    It lives for a session without heartbeats. Raises OperationFailed.
    """
    member_id = str(uuid4())
    stage.note(f"member {member_id} joins and asks for assignor {assignor}")
    await _heartbeat(
        stage,
        ConsumerGroupHeartbeatRequest(
            group_id=stage.group,
            member_id=member_id,
            member_epoch=0,
            rebalance_timeout_ms=_HANGS_MS,
            subscribed_topic_names=[f"{stage.topic}-of-nobody"],
            server_assignor=assignor,
            topic_partitions=[],
        ),
    )
    return member_id


async def leave_group(stage: Stage, member_id: str) -> None:
    """Lets a member leave the consumer group. Raises OperationFailed."""
    stage.note(f"member {member_id} leaves")
    await _heartbeat(stage, ConsumerGroupHeartbeatRequest(group_id=stage.group, member_id=member_id, member_epoch=-1))


async def _heartbeat(stage: Stage, request: ConsumerGroupHeartbeatRequest) -> None:
    def ask() -> None:
        with Client(stage.server.bootstrap, ANSWERED_WITHIN_S) as client:
            answer = client.ask_coordinator(stage.group, request)
        refuse_error(answer.error_code, "cannot be a member", answer.error_message)

    await asyncio.to_thread(ask)


async def fence_producer(stage: Stage, transactional_id: str) -> None:
    """Gives the transactional id a new epoch, as another process with it would: its open transaction is aborted.

    Raises OperationFailed.
    """
    stage.note(f"another producer begins with {transactional_id}")

    def ask() -> None:
        with Client(stage.server.bootstrap, ANSWERED_WITHIN_S) as client:
            _begin_producer(client, transactional_id)

    await asyncio.to_thread(ask)


def _begin_producer(client: Client, transactional_id: str) -> tuple[int, int]:
    """The id and the epoch of a producer that begins with a transactional id. Raises OperationFailed."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=_HANGS_MS, producer_id=-1, producer_epoch=-1
    )
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
    refuse_error(client.any().ask(find).coordinators[0].error_code, "there is no transaction coordinator")
    for _ in range(100):
        answer = client.any().ask(request)
        if answer.error_code == 0:
            return answer.producer_id, answer.producer_epoch
    raise OperationFailed(f"cannot begin with {transactional_id}: error {answer.error_code}")


async def hang_transaction(stage: Stage, transactional_id: str) -> None:
    """Writes a record to each partition of the topic, in a transaction that nobody ends. Raises OperationFailed."""
    stage.note(f"transaction {transactional_id} writes to each partition, and hangs")

    def produce() -> None:
        with Client(stage.server.bootstrap, ANSWERED_WITHIN_S) as client:
            producer_id, epoch = _begin_producer(client, transactional_id)
            builder = BatchBuilder()
            builder.add(None, b"never committed")
            batch = builder.build(0, now_ms(), producer_id=producer_id, producer_epoch=epoch, attributes=_TRANSACTIONAL)
            data = [
                ProduceRequest.PartitionProduceData(index=partition, records=batch)
                for partition in range(stage.producer.partitions)
            ]
            request = ProduceRequest(
                transactional_id=transactional_id,
                acks=-1,
                timeout_ms=5_000,
                topic_data=[ProduceRequest.TopicProduceData(name=stage.topic, partition_data=data)],
            )
            answer = client.any().ask(request, version_max=_ADDS_PARTITIONS)
            for found in answer.responses[0].partition_responses:
                refuse_error(found.error_code, "cannot write in the transaction")

    await asyncio.to_thread(produce)


async def read_new_topic(stage: Stage, name: str) -> None:
    """Makes a topic, writes to it, and waits until the group has committed what was written. Raises NotReached."""
    stage.note(f"topic {name} is made")

    def make() -> None:
        with Client(stage.server.bootstrap, ANSWERED_WITHIN_S) as client:
            topics.create(client, name, 1, 1, {})

    await asyncio.to_thread(make)
    producer = Producer(stage.server.bootstrap, name, 1)
    producer.start()

    async def committed() -> bool:
        found = (await stage.group_view()).get("committed", ())
        return any(each["topic"] == name and each["offset"] > 0 for each in found)

    try:
        await stage.until(committed, f"a commit of {name}")
    finally:
        await producer.stop()


async def _ask(stage: Stage, request: Request[Answer]) -> Answer:
    def ask() -> Answer:
        with Client(stage.server.bootstrap, ANSWERED_WITHIN_S) as client:
            return client.any().ask(request)

    return await asyncio.to_thread(ask)
