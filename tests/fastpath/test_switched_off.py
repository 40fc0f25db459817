"""A server without the fast path answers the same bytes, and writes the same bytes to its logs.

The simulator's clients put a name into the metadata of every offset, by which its history recognizes commits; so their commits
have no template. One more client here repeats its commits, and checks what it reads back.
"""

from dataclasses import replace

import pytest

from coordinator.fastpath import bulk_replay, event_encoding, repeated_commit
from coordinator.protocol.messages import OffsetCommitRequest, OffsetFetchRequest
from coordinator_lab.simulation.clients import ORDERS, RETRIABLE, Client
from coordinator_lab.simulation.plan import draw
from coordinator_lab.simulation.server_config import LOG_DIR
from coordinator_lab.simulation.simulator import Simulation
from coordinator_lab.simulation.wire import NoResponse

GROUP = "repeats"
PARTITIONS = range(3)


class Repeater(Client):
    """Commits the same partitions over and over, several times in a row; after a lost response it reads what is there."""

    def __init__(self, world):
        super().__init__(world, "repeater")
        self.sent = self.acknowledged = 0

    async def run(self):
        while True:
            await self.think()
            try:
                for answer in [await self.send() for _ in range(self.random.choice([1, 2, 60]))]:
                    await self.caller.answer(answer[1], 7.0)
                    self.check(answer)
            except NoResponse:
                await self.read()

    async def send(self):
        self.sent += 1
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=ORDERS)
        for index in PARTITIONS:
            topic.partitions.append(OffsetCommitRequest.OffsetCommitRequestPartition(index, self.sent, index, ""))
        return self.sent, await self.caller.send(OffsetCommitRequest(GROUP, topics=[topic]), 9)

    def check(self, answer):
        sent, response = answer
        (topic,) = response.result().topics
        codes = {each.error_code for each in topic.partitions}
        if codes == {0}:
            self.acknowledged = max(self.acknowledged, sent)
        elif not codes <= RETRIABLE:
            self.unexpected("OffsetCommit", max(codes))

    async def read(self):
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(ORDERS, list(PARTITIONS))
        try:
            (answered,) = (await self.call(OffsetFetchRequest(GROUP, [topic]), 5)).topics
        except (NoResponse, ValueError):
            return
        read = {each.committed_offset for each in answered.partitions}
        assert len(read) == 1
        assert self.acknowledged <= max(read) <= self.sent


class RepeatingSimulation(Simulation):
    def __init__(self, plan, **arguments):
        super().__init__(plan, **arguments)
        self.population.others.append(Repeater(self.world))

    def files(self, path=LOG_DIR):
        """Path -> content, of every file below a folder."""
        try:
            return {path: self.machines[0].disk.read(path)}
        except IsADirectoryError:
            found = {}
            for name in self.machines[0].disk.list(path):
                found |= self.files(f"{path}/{name}")
            return found


@pytest.fixture
def used(monkeypatch):
    """The parts of the fast path that were called, and how often."""
    counts = {}

    def watch(owner, name):
        function = getattr(owner, name)

        def watched(*arguments):
            counts[name] = counts.get(name, 0) + 1
            return function(*arguments)

        monkeypatch.setattr(owner, name, watched)

    watch(repeated_commit, "commit_repeated")
    watch(repeated_commit.RepeatedOffsets, "add_to")
    watch(event_encoding.AcceptedTemplate, "facts")
    watch(bulk_replay.OffsetReplayer, "replay")
    return counts


@pytest.mark.long
def test_a_simulation_without_the_fast_path_has_the_same_bytes(used):
    """The trace is a digest of every byte delivered and of everything that happened, with the times."""
    plan = replace(draw(5, 12.0), kill_s=6.0, think_s=0.5)
    plain, fast = RepeatingSimulation(plan, fastpath=False), RepeatingSimulation(plan)
    reports = [plain.run()]
    assert not used
    reports.append(fast.run())
    assert used.keys() == {"commit_repeated", "add_to", "facts", "replay"}
    assert min(used.values()) > 100
    assert [report.broken for report in reports] == [None, None]
    assert str(reports[0]) == str(reports[1])
    assert reports[0].trace == reports[1].trace
    files = fast.files()
    assert files == plain.files()
    written = {path.split("/")[1].rpartition("-")[0] for path, content in files.items() if content}
    assert written >= {"__consumer_offsets", "__coordinator_events"}
