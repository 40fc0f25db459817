"""A watcher of a cluster, and a story of real clients whose truth the story itself knows."""

from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.admin_client import ask, view
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

RECORDS = 80
PARTITIONS = 4


class Watcher(ServerProcess):
    """`coordinator watch` of a cluster. `bootstrap` is the cluster's; there is a free port for `admin` alone."""

    def __init__(self, folder: Path, cluster: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder, config=None, environment=environment)
        self.cluster, self.watch_arguments = cluster, arguments

    def command(self) -> list[str]:
        command = super().command()
        start = command[: command.index("serve")]
        own = ["watch", self.cluster, "--admin", self._admin, "--data-dir", str(self.data_dir)]
        return [*start, *own, *self.watch_arguments]

    def group(self, group: str) -> dict[str, Any]:
        """The view of a group; empty if it is not known."""
        status, found = ask(self, "GET", f"/v1/groups/{group}")
        return found if status == 200 else {}

    @property
    def is_ready(self) -> bool:
        return ask(self, "GET", "/health/ready")[0] == 200


def why(server: ServerProcess, group: str) -> dict[str, Any]:
    """The answer to why a group rebalances."""
    return view(server, f"/v1/groups/{group}/why")


def events(server: ServerProcess, group: str, type_: str) -> list[dict[str, Any]]:
    """The events of a type."""
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = view(server, f"/v1/events/page?group={group}&limit=1000{after}")
        found += [each for each in page["events"] if each["type"] == type_]
        if page["at_end"]:
            return found
        after = f"&after={page['next']}"


class Played(NamedTuple):
    """What the clients of the story saw."""

    first: str
    """The member id of alpha, which stays to the end."""
    owned: list[tuple[int, ...]]
    """The partitions of alpha and beta while both were members."""
    committed: dict[int, int]
    rewound: tuple[int, int, int]
    """Partition, offset before and after."""


class Story:
    """Two clients share a topic, commit everything, one commits an earlier offset, one leaves."""

    def __init__(self, bootstrap: str, protocol: str, group: str, topic: str) -> None:
        self.bootstrap, self.protocol, self.group, self.topic = bootstrap, protocol, group, topic
        admin = AdminClient({"bootstrap.servers": bootstrap})
        [created] = admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values()
        created.result(30)
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(RECORDS):
            producer.produce(topic, b"record", partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        self.clients: dict[str, Consumer] = {}

    def join(self, client_id: str) -> None:
        """Another client joins; returns when all have their share."""
        more = {"group.protocol": "consumer"} if self.protocol == "consumer" else {"session.timeout.ms": 45_000}
        self.clients[client_id] = client = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "client.id": client_id,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **more,
            }
        )
        client.subscribe([self.topic])
        self.settle()

    def settle(self) -> None:
        """Polls until all partitions have one owner and everyone has as many."""

        def is_shared() -> bool:
            for client in self.clients.values():
                client.poll(0.1)
            shares = [self.partitions(name) for name in self.clients]
            all_owned = sorted(index for share in shares for index in share)
            return all_owned == list(range(PARTITIONS)) and all(
                len(share) == PARTITIONS // len(self.clients) for share in shares
            )

        wait_until(is_shared, "the clients to share the partitions")

    def partitions(self, client_id: str) -> tuple[int, ...]:
        return tuple(sorted(each.partition for each in self.clients[client_id].assignment()))

    def commit(self, client_id: str, offsets: dict[int, int]) -> None:
        """Commits for partitions of the client."""
        places = [TopicPartition(self.topic, index, offset) for index, offset in offsets.items()]

        def is_accepted() -> bool:
            try:
                self.clients[client_id].commit(offsets=places, asynchronous=False)
            except confluent_kafka.KafkaException:  # a rebalance is not over yet
                self.clients[client_id].poll(0.1)
                return False
            return True

        wait_until(is_accepted, "a commit to be accepted")

    def leave(self, client_id: str) -> None:
        self.clients.pop(client_id).close()

    def play(self) -> Played:
        """Plays the story; alpha is a member at its end."""
        self.join("alpha")
        self.commit("alpha", dict.fromkeys(range(PARTITIONS), 10))
        self.join("beta")
        owned = [self.partitions(each) for each in ("alpha", "beta")]
        for client_id, mine in zip(("alpha", "beta"), owned, strict=True):
            self.commit(client_id, dict.fromkeys(mine, 20))
        earlier = owned[1][0]
        self.commit("beta", {earlier: 7})
        first = self.clients["alpha"].memberid()
        self.leave("beta")
        self.settle()
        committed = dict.fromkeys(range(PARTITIONS), 20) | {earlier: 7}
        return Played(first, owned, committed, (earlier, 20, 7))

    def close(self) -> None:
        for client_id in list(self.clients):
            self.leave(client_id)


def check_seen(watcher: Watcher, story: Story, seen: Played) -> None:
    """The watcher shows what the clients of a story saw, and says what it cannot know."""
    group, end = story.group, RECORDS // PARTITIONS

    def shown() -> bool:
        found = watcher.group(group)
        lags = [each["lag"] for each in found.get("committed", ())]
        return found.get("member_count") == 1 and len(lags) == PARTITIONS and None not in lags

    wait_until(shown, lambda: f"the group to be shown: {watcher.group(group)}")
    found = watcher.group(group)
    assert found["kind"] == story.protocol
    assert found["state"] == "Stable"
    assert {each["partition"]: each["offset"] for each in found["committed"]} == seen.committed
    assert {each["partition"]: each["end_offset"] for each in found["committed"]} == dict.fromkeys(
        range(PARTITIONS), end
    )
    assert found["lag"] == sum(end - offset for offset in seen.committed.values())
    [member] = found["members"]
    assert (member["member_id"], member["client_id"]) == (seen.first, "alpha")
    assert found["unknown"]
    answer = why(watcher, group)
    counts = {each["client_id"]: (each["members"], each["joined"], each["left"]) for each in answer["clients"]}
    assert counts == {"alpha": (1, 1, 0), "beta": (0, 1, 1)}, answer
    causes = [(each["client_id"], each["cause"]) for each in answer["rebalances"]]
    assert causes == [
        ("alpha", "a member joined"),
        ("beta", "a member joined"),
        ("beta", "a member left, expired or was removed"),
    ]
    assert any("Kafka's log does not say which" in each["cause"] for each in answer["causes"])
    assert answer["unknown"] == found["unknown"]
    [rewound] = answer["rewound_offsets"]
    assert (rewound["partition"], rewound["previous"], rewound["offset"]) == seen.rewound
    assert (rewound["records"], rewound["client_id"]) == (13, "")
    deliveries: dict[int, dict[str, tuple[int, ...]]] = {}
    for event in events(watcher, group, "AssignmentDelivered"):
        indexes = tuple(sorted(index for topic in event["topics"] for index in topic["partitions"]))
        deliveries.setdefault(event["epoch"], {})[event["member_id"]] = indexes
    assert sorted(seen.owned) in [sorted(each.values()) for each in deliveries.values()] or story.protocol == "consumer"
    assert {seen.first: tuple(range(PARTITIONS))}.items() <= deliveries[max(deliveries)].items()
    commits = events(watcher, group, "CommitDecided")
    assert [
        (each["partition"], each["committed_offset"])
        for commit in commits[-1:]
        for topic in commit["topics"]
        for each in topic["partitions"]
    ] == [(seen.rewound[0], 7)]
