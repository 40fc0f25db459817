"""A storm of troubles with real clients: a group has one trouble or, if it is calm, none, and its answer names exactly that.

TRUTH says what is done to each group; whoever wrote it knew the code. All groups are in trouble at the same time on one server.
"""

import signal
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tests.compatibility.members import CLIENTS, Client, Program, shared
from tests.support.admin_client import act, view
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

SETTINGS = {
    "admin.control.enable": True,
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.assignment.interval.ms": 0,
}
SESSION_MS = 6_000
QUIET = {"the group starts", "joins"}
"""What happens in every group while its members start."""
KAFKA_PYTHON_STARTS = "the leader joins again"
"""kafka-python's leader does so, without a reason, when it has the metadata of its topics."""

TRUTH: dict[str, tuple[str, str, dict[str, Any]]] = {
    # group: (library, kind of the only cause beside QUIET, what the cause says, or whom it names)
    "killed-confluent": ("confluent", "falls silent", {"says": "killed", "culprit": "bad"}),
    "killed-aiokafka": ("aiokafka", "falls silent", {"says": "killed", "culprit": "bad"}),
    "paused-confluent": ("confluent", "falls silent", {"says": "paused: it went on", "culprit": "bad"}),
    "paused-kafka-python": ("kafka_python", "falls silent", {"says": "paused: it went on", "culprit": "bad"}),
    "stuck": ("confluent", "stops polling", {"says": "stops polling", "culprit": "bad"}),
    "rolled": ("confluent", "rollout", {"says": "2 of 2 members were replaced", "culprit": None}),
    "evicted": ("confluent", "administrator", {"says": "an administrator evicted a member", "culprit": None}),
    "grown": ("confluent-848", "topic", {"says": "a topic appeared or changed", "culprit": None}),
    "rewound": ("confluent", "", {"records": 6, "by": "a member committed an earlier offset"}),
    "reset": ("kafka_python", "", {"records": 7, "by": "an administrator reset the offsets"}),
    "calm-confluent": ("confluent", "", {}),
    "calm-kafka-python": ("kafka_python", "", {}),
    "calm-aiokafka": ("aiokafka", "", {}),
}


class Storm:
    """The groups, each with a topic of its own and two members, of which `bad` is the one in trouble."""

    def __init__(self, server: ServerProcess, start: Callable[[Client, ServerProcess], Program]) -> None:
        self.server, self._start = server, start
        self.members: dict[str, dict[str, Program]] = {}
        with Connection(server.bootstrap) as link:
            topics = [{"name": group, "num_partitions": 4, "replication_factor": 1} for group in TRUTH]
            assert all(
                each["error_code"] == 0
                for each in link.call("CreateTopics", 4, topics=topics, timeout_ms=10_000)["topics"]
            )

    def join(self, group: str, name: str) -> Program:
        library = TRUTH[group][0]
        how: dict[str, Any] = {"session_timeout_ms": SESSION_MS}
        if library.endswith("-848"):
            library, how = library.removesuffix("-848"), {"protocol": "consumer"}
        if group == "stuck":
            how["max_poll_ms"] = SESSION_MS
        program = self._start(CLIENTS[library], self.server)
        program.begin_to_join(group, [group], name=name, **how)
        self.members.setdefault(group, {})[name] = program
        return program

    def settle(self, group: str, partitions: int = 4) -> None:
        """Waits until the members share all partitions."""
        members = list(self.members[group].values())
        wanted = {(group, index) for index in range(partitions)}
        wait_until(lambda: shared(members, wanted), lambda: f"{group}: {members}", 60)

    def size(self, group: str, count: int) -> None:
        wait_until(lambda: len(view(self.server, f"/v1/groups/{group}")["members"]) == count, group, 60)

    def why(self, group: str) -> Any:
        return view(self.server, f"/v1/groups/{group}/why")

    def commit(self, group: str, offset: int) -> None:
        owner = next(each for each in self.members[group].values() if (group, 0) in each.owned)
        owner.call("commit_at", offsets=[[group, 0, offset]])


def make_trouble(storm: Storm) -> None:
    """Does to the groups what TRUTH says."""
    bad = {group: members["bad"] for group, members in storm.members.items()}
    for group in ("killed-confluent", "killed-aiokafka"):
        bad[group].kill()
        del storm.members[group]["bad"]
    stopped = ("paused-confluent", "paused-kafka-python")
    for group in stopped:
        bad[group].signal(signal.SIGSTOP)
    bad["stuck"].send("stop_polling", seconds=2.5 * SESSION_MS / 1000)
    for name in ("good", "bad"):
        storm.members["rolled"].pop(name).call("leave")
        storm.join("rolled", f"{name}-new")
        storm.size("rolled", 2)
        storm.settle("rolled")
    [evicted, _] = view(storm.server, "/v1/groups/evicted")["members"]
    act(storm.server, f"/v1/groups/evicted/members/{quote(evicted['member_id'])}/evict")
    with Connection(storm.server.bootstrap) as link:
        more = [{"name": "grown", "count": 6, "assignments": None}]
        assert (
            link.call("CreatePartitions", 3, topics=more, timeout_ms=10_000, validate_only=False)["results"][0][
                "error_code"
            ]
            == 0
        )
    for group in ("rewound", "calm-confluent", "calm-kafka-python", "calm-aiokafka"):
        storm.commit(group, 8)
    storm.commit("rewound", 2)
    storm.commit("reset", 9)
    for member in storm.members.pop("reset").values():
        member.call("leave")
    storm.size("reset", 0)
    bad["rewound"].call("alter_offsets", group="reset", offsets=[["reset", 0, 2]])
    for group in (*stopped, "stuck", "killed-confluent", "killed-aiokafka"):
        storm.size(group, 1)
    for group in stopped:
        bad[group].signal(signal.SIGCONT)
    for group in (*stopped, "stuck", "evicted"):
        storm.size(group, 2)
        storm.settle(group)
    storm.settle("grown", 6)


def test_every_group_of_a_storm_gets_its_cause_and_culprit_and_calm_groups_none(
    coordinator_process: Callable[..., ServerProcess], start: Callable[[Client, ServerProcess], Program]
) -> None:
    storm = Storm(coordinator_process(settings=SETTINGS), start)
    for group in TRUTH:
        storm.join(group, "good")
        storm.join(group, "bad")
    for group in TRUTH:
        storm.settle(group)
    make_trouble(storm)
    wrong = {group: found for group in TRUTH if (found := misjudged(storm.why(group), *TRUTH[group][1:]))}
    assert not wrong, wrong


def misjudged(answer: dict[str, Any], kind: str, truth: dict[str, Any]) -> Any:
    """What of an answer is not the truth; None if all is."""
    causes = [each for each in answer["causes"] if each["kind"] not in QUIET and each["cause"] != KAFKA_PYTHON_STARTS]
    back = [(each["cause"], each["records"]) for each in answer["rewound_offsets"]]
    if back != ([(truth["by"], truth["records"])] if "by" in truth else []):
        return answer["sentence"], back
    if truth.get("by") == "an administrator reset the offsets":
        causes = [each for each in causes if each["kind"] != "leaves"]
    says, culprit = truth.get("says", ""), truth.get("culprit")
    right = [each for each in causes if each["kind"] == kind and says in each["cause"] and each["client_id"] == culprit]
    return None if len(right) == len(causes) == bool(kind) else (answer["sentence"], causes)
