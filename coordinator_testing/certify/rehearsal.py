"""One event from its first process to its evidence.

start     topics, instances and the stream of records; until every partition has a commit
event     what the event provokes
recovery  until every partition is read and committed to what was appended when the stream ended
stop      SIGTERM to all instances, then everything is collected
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from coordinator.groups.group_history import GroupEvent
from coordinator.operations import group_events
from coordinator.operations.client import Client, OperationFailed
from coordinator_testing.certify.case import PHASES, Evidence, InstanceHistory, Phase
from coordinator_testing.certify.content import Content, Template
from coordinator_testing.certify.curriculum import acts
from coordinator_testing.certify.event import Event, NotApplicable, Protocol
from coordinator_testing.certify.programs import Instance, now_ms
from coordinator_testing.certify.records import ANSWERED_WITHIN_S, Producer
from coordinator_testing.certify.releases import is_before
from coordinator_testing.certify.server import RACKS, USER, CertificationServer
from coordinator_testing.certify.stage import Stage
from coordinator_testing.certify.testimony import CommandFailed, Terms, Testimony
from coordinator_testing.certify.topics import Topics
from coordinator_testing.control import AsyncControl, ControlError, NotReached
from coordinator_testing.control.steps import View

PARTITIONS_PER_INSTANCE = {"share": 0.5}
"""GROUP_PROTOCOL -> how many, by default 2. Several members of a share group read each partition."""
COPIED_WITHIN_S = 10.0
"""How long after the last commit the copies of all records are waited for."""
SHOWN_S = 6.5
"""The stream goes on for this long after the event. What the judge forgives for a while (`membership.py`) has time to show, so
that verdicts do not depend on how fast the machine is.
"""


class Plan(NamedTuple):
    """What all events of a certification share."""

    command: Sequence[str]
    protocol: Protocol
    instances: int
    testimony: Terms
    records: Sequence[Template]
    topic_delay_ms: int
    """`topic.visibility.delay.ms` of the server."""
    release: str
    """The release of Kafka that the server is for the instances."""
    folder: Path
    """Where the output of the instances goes, in a folder for each event."""


class Rehearsal(NamedTuple):
    """What is left of an event."""

    evidence: Evidence
    printed: Mapping[int, str]
    """Index of an instance -> the end of its output."""
    timeline: Sequence[View]
    """The events of the group as `/v1/events` has them, for the timeline."""


async def rehearse(event: Event, plan: Plan, server: CertificationServer, listeners: Sequence[str]) -> Rehearsal:
    """Runs one event, and returns what was seen. Raises OSError if the command cannot be executed."""
    stage = _stage(event, plan, server, listeners)
    began_ms = now_ms()
    evidence = Evidence(
        group=stage.group,
        topic=stage.topic,
        output_topic=stage.output_topic,
        allows=event.allows,
        is_transactional=event.is_transactional,
        protocol=plan.protocol,
        testimony=plan.testimony.source,
        instances=[each.history for each in stage.instances],
        began_ms=began_ms,
        stopped_ms=began_ms,
    )
    async with stage.control:
        try:
            await asyncio.to_thread(stage.topics.create, stage.producer.partitions)
            await stage.clock.start()
            await stage.observation.start(stage.control, stage.listeners)
            await stage.testimony.start(stage.instances)
            await _play(stage, plan, evidence)
        finally:
            await _end(stage, evidence)
        await _collect(stage, evidence)
        timeline = [each async for each in stage.control.events(stage.group, follow=False)]
    return Rehearsal(evidence, {each.index: each.printed() for each in stage.instances}, timeline)


def _stage(event: Event, plan: Plan, server: CertificationServer, listeners: Sequence[str]) -> Stage:
    group, topic = f"certify-{event.name}", f"certify-{event.name}-input"
    # A transaction needs a topic to write to, whatever else testifies.
    copies = plan.testimony.source == "topic" or event.is_transactional
    output_topic = f"certify-{event.name}-output" if copies else None
    content = Content(plan.records)
    folder = plan.folder / event.name
    folder.mkdir(parents=True, exist_ok=True)
    instances = []
    for index, listener in enumerate(listeners[: event.instances or plan.instances]):
        environment = {
            "BOOTSTRAP": listener,
            "TOPIC": topic,
            "GROUP": group,
            "OUTPUT_TOPIC": output_topic or "",
            "INSTANCE": str(index),
            "GROUP_PROTOCOL": plan.protocol,
            "GROUP_INSTANCE_ID": f"instance-{index}" if event.is_static else "",
            "CLIENT_RACK": RACKS[index % len(RACKS)] if event.has_racks else "",
            "SASL_MECHANISM": "PLAIN" if event.has_sasl else "",
            "SASL_USERNAME": USER[0] if event.has_sasl else "",
            "SASL_PASSWORD": USER[1] if event.has_sasl else "",
            "TRANSACTIONAL_ID": f"{group}-{index}" if event.is_transactional else "",
        }
        history = InstanceHistory(index=index, listener=listener)
        instances.append(Instance(history, plan.command, environment, folder / f"instance-{index}.log"))
    partitions = max(1, int(PARTITIONS_PER_INSTANCE.get(plan.protocol, 2) * len(instances)))
    return Stage(
        event=event,
        server=server,
        control=AsyncControl(server.admin_url, scope=group, answered_within_s=ANSWERED_WITHIN_S),
        instances=instances,
        group=group,
        topic=topic,
        output_topic=output_topic,
        topics=Topics(server.bootstrap, topic, output_topic, content),
        testimony=Testimony(plan.testimony, topic, content),
        producer=Producer(server.bootstrap, topic, partitions, content),
    )


async def _play(stage: Stage, plan: Plan, evidence: Evidence) -> None:
    """The phases. What is not reached in time, or cannot happen to this program, ends them."""
    phase: Phase = "start"
    try:
        async with asyncio.timeout(stage.event.time_limit_s):
            _check_release(stage.event, plan.release)
            if stage.is_share:
                await acts.set_group_config(stage, "share.auto.offset.reset", "earliest")
            stage.producer.start()
            for each in stage.instances:
                await each.start()
            if stage.event.has_sasl:
                await _authenticated(stage)
            await _started(stage)
            phase, evidence.provoked_ms = "event", now_ms()
            await stage.event.run(stage)
            phase = "recovery"
            await asyncio.sleep(SHOWN_S)
            await stage.progress(within_s=stage.event.time_limit_s)
            await stage.producer.stop()
            await stage.caught_up(within_s=stage.event.time_limit_s)
            await _testified(stage)
            evidence.settled_ms = now_ms()
    except NotApplicable as reason:
        evidence.not_applicable = str(reason)
    except NotReached as reason:
        evidence.not_reached = f"{PHASES[phase]}: {reason}"
    except TimeoutError:
        evidence.not_reached = f"{PHASES[phase]}: not within {stage.event.time_limit_s:g} s"
    except (ControlError, OperationFailed) as reason:
        evidence.not_reached, evidence.is_interrupted = f"{PHASES[phase]}: {reason}", True


def _check_release(event: Event, release: str) -> None:
    """Raises NotApplicable if it cannot happen with this release of Kafka."""
    if event.since is not None and is_before(release, event.since):
        raise NotApplicable(f"it needs Kafka {event.since}, and the server is Kafka {release}")


async def _authenticated(stage: Stage) -> None:
    """Raises NotApplicable if the program does not authenticate."""
    try:
        await stage.request("SaslAuthenticate", stage.first)
    except NotReached:
        raise NotApplicable("the program ignores SASL_MECHANISM") from None


async def _started(stage: Stage) -> None:
    """Waits until all partitions have commits. Raises NotReached, at once if an instance ends."""

    async def reads() -> None:
        epoch = None
        # A cooperative group is Stable for a moment before it assigns what was revoked.
        while (group := await stage.stable(within_s=stage.event.time_limit_s))["generation"] != epoch:
            epoch = group["generation"]
            await stage.progress(within_s=stage.event.time_limit_s)

    async def ends(instance: Instance) -> None:
        raise NotReached(f"instance {instance.index} ended with exit code {await instance.ends()}")

    tasks = [asyncio.create_task(each) for each in (reads(), *map(ends, stage.instances))]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _testified(stage: Stage) -> None:
    """Waits until something shows of every record that it was processed, if something can before the end."""

    async def complete() -> bool:
        inputs, outputs = await asyncio.to_thread(lambda: (stage.topics.inputs(), stage.topics.outputs()))
        said = stage.testimony.statements(inputs, stage.topics.recreated_ms)
        shown = {(each.partition, each.number) for each in (outputs if said is None else said) or ()}
        return stage.testimony.comes_at_the_end or all(
            (partition, record.number) in shown for partition, records in inputs.items() for record in records
        )

    # A copy that does not come is a lost record, which the judge finds.
    with suppress(NotReached):
        await stage.until(complete, "a copy of every record", within_s=COPIED_WITHIN_S)


async def _end(stage: Stage, evidence: Evidence) -> None:
    """Stops everything, whatever happened before."""
    evidence.stopped_ms = now_ms()
    await stage.producer.stop()
    with suppress(ControlError):
        await stage.control.clear_faults()
    await asyncio.gather(*(each.stop() for each in stage.instances))
    await stage.testimony.stop()
    await stage.observation.stop()


async def _collect(stage: Stage, evidence: Evidence) -> None:
    evidence.entries = stage.observation.entries
    evidence.entries_dropped = stage.observation.dropped
    evidence.committed = await stage.committed()
    evidence.delivery_limit = stage.delivery_limit
    evidence.notes = stage.notes
    evidence.outages = stage.outages
    evidence.resets = stage.resets
    evidence.recreated_ms = stage.topics.recreated_ms
    evidence.truncations = stage.topics.truncations
    evidence.inputs = await asyncio.to_thread(stage.topics.inputs)
    await _read_testimony(stage, evidence)
    evidence.group_events = await asyncio.to_thread(_group_events, stage)


async def _read_testimony(stage: Stage, evidence: Evidence) -> None:
    try:
        await stage.testimony.run_command(os.environ | stage.first.environment)
    except CommandFailed as failure:
        evidence.not_reached, evidence.settled_ms = str(failure), None
    evidence.statements = stage.testimony.statements(evidence.inputs, stage.topics.recreated_ms)
    if evidence.statements is None:
        evidence.outputs = await asyncio.to_thread(stage.topics.outputs)


def _group_events(stage: Stage) -> list[GroupEvent]:
    """The events of the group, in the times of this machine."""
    with Client(stage.server.bootstrap, ANSWERED_WITHIN_S) as client:
        found = group_events.from_server(client, stage.group, stage.clock.began_ms).events
    return [replace(each, time_ms=stage.clock.machine_ms(each.time_ms)) for each in found]
