"""Kafka's own assignor gives the same tasks to the same members, for random groups."""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from coordinator.groups.streams.configure import ConfiguredSubtopology
from coordinator.groups.streams.sticky import GroupSpec, MemberSpec, assign
from coordinator.groups.streams.topology import InternalTopic
from tests.support.java_support import KAFKA_VERSION, compile_java, java, kafka_classpath

GROUPS = 600
ARTIFACTS = [f"org.apache.kafka:kafka-group-coordinator:{KAFKA_VERSION}", "org.slf4j:slf4j-nop:1.7.36"]


def made_up_group(random: Random) -> GroupSpec:
    """Members in processes of many sizes, with tasks that do not exist any more, unassigned ones, and copies."""
    parts = {
        str(place): subtopology(random.choice([1, 2, 3, 4, 6, 8]), is_stateful=random.random() < 0.6)
        for place in range(random.choice([1, 1, 2, 3, 12]))
    }
    ids = [f"{random.randrange(16**32):032x}" for _ in range(random.choice([1, 2, 3, 4, 5, 7, 8, 12, 13, 26, 40]))]
    processes = [f"{random.randrange(16**8):08x}" for _ in range(random.randint(1, len(ids)))]
    held: dict[str, list[Any]] = {member_id: [{}, {}, {}] for member_id in ids}
    few = ids[: random.randint(1, len(ids))]
    tasks = [(part, number) for part in parts for number in range(parts[part].number_of_tasks)]
    for part, number in [*tasks, ("gone", 0)] if random.random() < 0.8 else []:
        if random.random() < 0.85:
            held[random.choice(few)][0].setdefault(part, set()).add(number)
        for _ in range(random.choice([0, 0, 1, 2])):
            held[random.choice(few)][1].setdefault(part, set()).add(number)
        if random.random() < 0.3:
            held[random.choice(ids)][2].setdefault(part, {})[number] = random.choice(
                [0, 5, 100, random.randrange(1000)]
            )
    members = {
        member_id: MemberSpec(process_id=random.choice(processes), active=active, standby=standby, task_offsets=offsets)
        for member_id, (active, standby, offsets) in held.items()
    }
    return GroupSpec(
        members=members,
        subtopologies=dict(sorted(parts.items())),
        num_standby_replicas=random.choice([0, 0, 1, 1, 2, 3]),
    )


def subtopology(number_of_tasks: int, *, is_stateful: bool) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        number_of_tasks=number_of_tasks,
        source_topics=("t",),
        repartition_source_topics=(),
        repartition_sink_topics=(),
        state_changelog_topics=(InternalTopic("c", number_of_tasks, 0),) if is_stateful else (),
    )


def text(tasks: Mapping[str, Iterable[int]]) -> str:
    return ";".join(f"{part}.{number}" for part in sorted(tasks) for number in sorted(tasks[part]))


def question(group: GroupSpec) -> str:
    parts = ",".join(
        f"{name}:{part.number_of_tasks}:{int(part.is_stateful)}" for name, part in group.subtopologies.items()
    )
    members = [
        ":".join(
            [
                member_id,
                member.process_id,
                text(member.active),
                text(member.standby),
                ";".join(f"{p}.{n}.{at}" for p, by in member.task_offsets.items() for n, at in by.items()),
            ]
        )
        # Of two ids in one place of its hash map, the first to come counts.
        for member_id, member in sorted(group.members.items())
    ]
    return "|".join([str(group.num_standby_replicas), parts, *members])


def answer(group: GroupSpec) -> str:
    made = assign(group)
    return "|".join(f"{each}:{text(made[each].active)}:{text(made[each].standby)}" for each in sorted(made))


@pytest.mark.java
def test_kafkas_own_assignor_gives_the_same_answers() -> None:
    random = Random(1071)
    groups = [made_up_group(random) for _ in range(GROUPS)]
    classpath = compile_java(Path(__file__).parent / "java" / "StickyAssignor.java", kafka_classpath(ARTIFACTS))
    questions = "\n".join(map(question, groups)) + "\n"
    done = subprocess.run(
        java(classpath, "StickyAssignor"), input=questions, capture_output=True, text=True, check=True, timeout=120
    )
    said = done.stdout.splitlines()
    assert len(said) == GROUPS
    for group, kafkas in zip(groups, said, strict=True):
        assert answer(group) == kafkas, question(group)
