"""KAFKA-19779's recipe for clients: 200 rebalances under members that commit every 100 ms, and no commit fails.

A commit carries the epoch that its member knew when it sent it. The group may rebalance while the commit is in flight,
so it arrives late. The recipe makes late commits harmless under the policy `revocation-epoch`: when asked to give up
partitions, a member commits, remembers the epoch and stops committing with it; its next commit uses the next epoch. A
member that does not follow it, or is held to `strict`, sees commits fail occasionally; their number is printed.

Client libraries do not expose epochs, so the members here are our own, on a network with latency. There is one group
for each kind of member and policy, all running at once.
"""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.background import Background
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection, Values

REBALANCES = 200
COMMIT_EVERY_S = 0.1
REBALANCE_EVERY_S = 0.1
BEAT_PAUSE_S = 0.005
ONE_WAY_S = 0.01
STORM_WITHIN_S = 250.0
GROUP_RESOURCE = 32
NONE, STALE_MEMBER_EPOCH = 0, 113


class SlowLink:
    """A connection on which requests and responses take a while to arrive. Requests stay in order."""

    def __init__(self, bootstrap: str, name: str):
        self._connection = Connection(bootstrap, name)
        self._sent: queue.Queue[tuple[float, str, int, Values, Future[tuple[float, Values]]] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def send(self, api: str, version: int, **values: Any) -> Future[tuple[float, Values]]:
        """Sends a request whose response is read by `answer`."""
        future: Future[tuple[float, Values]] = Future()
        self._sent.put((time.monotonic() + ONE_WAY_S, api, version, values, future))
        return future

    def close(self) -> None:
        self._sent.put(None)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while (item := self._sent.get()) is not None:
            arrives, api, version, values, future = item
            time.sleep(max(0.0, arrives - time.monotonic()))  # it is in flight
            try:
                answer = self._connection.call(api, version, **values)
                future.set_result((time.monotonic() + ONE_WAY_S, answer))
            except Exception as error:
                future.set_exception(error)


def answer(future: Future[tuple[float, Values]]) -> Values:
    arrives, values = future.result(30)
    time.sleep(max(0.0, arrives - time.monotonic()))  # as above
    return values


class Member:
    """A member that sends heartbeats and commits, each in its own thread, until it is stopped."""

    def __init__(self, bootstrap: str, group: str, name: str, topic: str, topic_id: bytes, *, by_the_recipe: bool):
        self.group, self.name, self.topic, self.topic_id = group, name, topic, topic_id
        self.by_the_recipe = by_the_recipe
        self.beats, self.commits = SlowLink(bootstrap, name), SlowLink(bootstrap, name)
        self.sent: list[Future[tuple[float, Values]]] = []
        self.lock = threading.Lock()
        self.owned: frozenset[int] = frozenset()
        self.spent = -1
        self.revocations = 0
        self.failure: BaseException | None = None
        self.over = threading.Event()
        self.epoch = 0
        self._beat(rebalance_timeout_ms=30_000, subscribed_topic_names=[topic], topic_partitions=[])
        self._threads = [
            threading.Thread(target=self._watched, args=(run,), daemon=True) for run in (self._beat_on, self._commit_on)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> list[int]:
        """Leaves the group; returns the error of each of its commits."""
        self.over.set()
        for thread in self._threads:
            thread.join()
        if self.failure is not None:
            raise self.failure
        errors = [
            partition["error_code"]
            for future in self.sent
            for topic in answer(future)["topics"]
            for partition in topic["partitions"][:1]
        ]
        self.beats.close()
        self.commits.close()
        return errors

    def _watched(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            self.failure = error
            self.over.set()

    def _beat_on(self) -> None:
        acknowledges = True
        while not self.over.wait(BEAT_PAUSE_S):
            owns = [{"topic_id": self.topic_id, "partitions": sorted(self.owned)}] if self.owned else []
            acknowledges = self._beat(topic_partitions=owns if acknowledges else None)

    def _beat(self, **more: Any) -> bool:
        """Sends one heartbeat; returns whether it changed what the member owns."""
        beat = {"group_id": self.group, "member_id": self.name, "member_epoch": self.epoch, **more}
        response = answer(self.beats.send("ConsumerGroupHeartbeat", 1, **beat))
        assert response["error_code"] == NONE, response
        with self.lock:
            self.epoch = response["member_epoch"]
            if response["assignment"] is None:
                return False
            assigned = frozenset(p for topic in response["assignment"]["topic_partitions"] for p in topic["partitions"])
            losing, last = self.owned - assigned, None
            if losing:
                self.revocations += 1
                if self.by_the_recipe:
                    last = self._commit(losing)
                    self.spent = self.epoch
            self.owned = assigned
        if last is not None:
            answer(last)  # only then does it confirm that it gave them up
        return True

    def _commit_on(self) -> None:
        while not self.over.wait(COMMIT_EVERY_S):
            with self.lock:
                if self.owned and self.epoch != self.spent:
                    self._commit(self.owned)

    def _commit(self, partitions: frozenset[int]) -> Future[tuple[float, Values]]:
        offsets = [{"partition_index": partition, "committed_offset": 1} for partition in sorted(partitions)]
        commit = self.commits.send(
            "OffsetCommit", 9, group_id=self.group, generation_id_or_member_epoch=self.epoch, member_id=self.name,
            topics=[{"name": self.topic, "partitions": offsets}],
        )  # fmt: skip
        self.sent.append(commit)
        return commit


@dataclass(frozen=True)
class Storm:
    """The result of one group."""

    policy: str
    by_the_recipe: bool
    rebalances: int
    revocations: int
    errors: list[int]

    @property
    def failed(self) -> int:
        return sum(error != NONE for error in self.errors)

    def __str__(self) -> str:
        how = "by the recipe" if self.by_the_recipe else "without it"
        failures = f"{self.failed:3} of {len(self.errors)} commits failed"
        return f"{self.policy:17}{how:14}{failures} in {self.rebalances} rebalances, {self.revocations} revocations"


def storm(server: ServerProcess, topic_id: bytes, policy: str, *, by_the_recipe: bool) -> Storm:
    """Two members that stay, and a guest that joins and leaves: for their topic, then for one that does not exist."""
    group = f"{policy}-{by_the_recipe}"
    with Connection(server.bootstrap) as link:
        config = {"name": "consumer.fencing.policy", "config_operation": 0, "value": policy}
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": [config]}
        (set_,) = link.call("IncrementalAlterConfigs", 1, resources=[resource])["responses"]
        assert set_["error_code"] == NONE, set_
        members = [
            Member(server.bootstrap, group, name, "t", topic_id, by_the_recipe=by_the_recipe) for name in ("a", "b")
        ]
        guest = {"group_id": group, "member_id": "guest"}
        for turn in range(REBALANCES):
            time.sleep(REBALANCE_EVERY_S)  # commits every 100 ms may fall anywhere
            if turn % 2:
                link.call("ConsumerGroupHeartbeat", 1, **guest, member_epoch=-1)
                continue
            topic = "t" if turn % 4 else "gone"
            joined = link.call(
                "ConsumerGroupHeartbeat", 1, **guest, member_epoch=0, rebalance_timeout_ms=30_000,
                subscribed_topic_names=[topic], topic_partitions=[],
            )  # fmt: skip
            assert joined["error_code"] == NONE, joined
        errors = [error for member in members for error in member.stop()]
        (described,) = link.call("ConsumerGroupDescribe", 1, group_ids=[group])["groups"]
    revocations = sum(member.revocations for member in members)
    return Storm(policy, by_the_recipe, described["group_epoch"], revocations, errors)


def test_who_follows_the_recipe_sees_no_commit_fail(
    coordinator_process: Callable[..., ServerProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    server = coordinator_process(settings={"group.consumer.assignment.interval.ms": 0})
    with Connection(server.bootstrap) as link:
        topic = {"name": "t", "num_partitions": 6, "replication_factor": 1}
        (made,) = link.call("CreateTopics", 7, topics=[topic], timeout_ms=10_000)["topics"]
    storms: list[Storm] = []

    def run(policy: str, by_the_recipe: bool) -> None:
        storms.append(storm(server, made["topic_id"], policy, by_the_recipe=by_the_recipe))

    threads = [
        Background(run, policy, by_the_recipe)
        for policy in ("strict", "revocation-epoch")
        for by_the_recipe in (True, False)
    ]
    for thread in threads:
        thread.finish(STORM_WITHIN_S)
    with capsys.disabled():
        print("", *sorted(map(str, storms)), sep="\n  ")
    failed = {(each.policy, each.by_the_recipe): each.failed for each in storms}
    assert all(each.rebalances >= REBALANCES and each.revocations > REBALANCES / 8 for each in storms)
    assert {error for each in storms for error in each.errors} <= {NONE, STALE_MEMBER_EPOCH}
    assert failed["revocation-epoch", True] == 0
    assert failed["revocation-epoch", False] > 0
    assert failed["strict", True] > 0
    assert failed["strict", False] > 0
