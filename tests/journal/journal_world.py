"""Several logs behind the real journal, on a simulated disk: the test moves the loop, the worker and the clock by hand.

A `History` remembers every turn of the loop, and which of its batches the owners know to be durable. After a restart it checks
what the journal promises about the content of the logs.
"""

from collections import deque

from coordinator.journal.journal import WRITE_BEHIND_MS
from coordinator.log.batch import key_values
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.log import LogSettings
from coordinator_lab.simulation.clock import ManualClock
from coordinator_lab.simulation.disk import SimulatedDisk
from tests.support.journal import open_journal, open_log

FOLDER = "data"
LOGS = ("groups-0", "groups-1", "events-0")
BEST_EFFORT = ("events-0",)
FILE_BYTES = 8_192
SEGMENT_BYTES = 3_000


class Turn:
    """What was written in one turn: name of the log -> numbers of the records. They must stay together."""

    def __init__(self):
        self.records = {}
        self.is_durable = False
        """Whether the owner of a log was notified that the turn's batch in it is durable."""
        self.is_refused = False
        """Whether the owner was notified that it is lost."""


class Owner:
    """The owner of one log, as a shard is."""

    def __init__(self, world, name, log):
        self.world = world
        self.name = name
        self.log = log
        self.ends = deque()
        """End offset of each batch that waits for the disk, with its turn."""
        self.durable = 0
        self.errors = []
        self.writer = world.journal.writer(log, self.on_durable, self.on_failure)

    def on_durable(self, end):
        assert end > self.durable, "notified in order"
        self.durable = end
        while self.ends and self.ends[0][0] <= end:
            self.ends.popleft()[1].is_durable = True

    def on_failure(self, error):
        self.errors.append(error)
        if self.name in BEST_EFFORT and self.log.failed is not None and self.world.journal.failed is None:
            self.world.lossy.add(self.name)
        while self.ends and (self.log.failed is not None or self.ends[-1][0] > self.log.end_offset):
            self.ends.pop()[1].is_refused = True


class JournalWorld:
    """`write` and `turn` are what a loop does; `work` runs one job of the worker, `deliver` reports one to the loop."""

    def __init__(
        self, durability="fsync", *, names=LOGS, file_bytes=FILE_BYTES, segment_bytes=SEGMENT_BYTES, disk=None
    ):
        self.disk = disk or SimulatedDisk()
        if disk is None:
            self.disk.make_folder(FOLDER)
            self.disk.sync_folder(".")
        self.durability = durability
        self.names = names
        self.file_bytes = file_bytes
        self.settings = LogSettings(segment_bytes=segment_bytes, segment_ms=None, retention_ms=None)
        self.clock = ManualClock()
        self.history = []
        self.records = 0
        self.opened = 0
        self.lossy = set()
        """The logs whose segments could not be written, and for which the journal does not keep its slots."""
        self._forget_process()

    def _forget_process(self):
        self.soon, self.jobs, self.outcomes, self.timers = [], [], [], []
        self.current = Turn()
        self.owners = {}

    # --- the process --------------------------------------------------------------------------------------------------

    def open(self, *, early=()):
        """Starts a server process: recovers the logs, writes to those of `early`, and begins a journal."""
        self._forget_process()
        self.opened += 1
        self.journal, recovered = open_journal(
            self.disk,
            FOLDER,
            durability=self.durability,
            file_bytes=self.file_bytes,
            run_in_thread=lambda function, done: self.jobs.append((function, done)),
            soon=self.soon.append,
            schedule=self._schedule,
            seed=self.opened,
        )
        for name in self.names:
            log = open_log(self.disk, f"{FOLDER}/{name}", self.settings, recovered, is_best_effort=name in BEST_EFFORT)
            self.owners[name] = Owner(self, name, log)
            self.owners[name].durable = log.durable_offset
        for name in early:
            self.write(name)
            self.turn()
        self.journal.begin()
        return self

    def stop(self):
        """An orderly stop, in the order of `Server.stop`."""
        self.settle()
        self.journal.stop()
        for owner in self.owners.values():
            try:
                if owner.log.failed is None:
                    owner.log.close()
            except OSError:
                self.lossy |= {owner.name} & {*BEST_EFFORT}
            finally:
                owner.log.close_files()
        self.journal.settle()
        self.journal.close()

    def killed(self):
        """The next process, after this one was killed."""
        self.disk.kill()
        return self.open()

    def crashed(self, random):
        """The next process, after a power cut."""
        self.disk.crash(random)
        return self.open()

    # --- the loop -----------------------------------------------------------------------------------------------------

    def write(self, name, *sizes, pieces=1):
        """Writes a batch of one record of each size; `pieces`: as so many batches in one write."""
        owner, turn = self.owners[name], self.current
        base, data, numbers = owner.log.end_offset, b"", []
        for _ in range(pieces):
            builder = BatchBuilder()
            for size in sizes or (10,):
                numbers.append(self.records)
                builder.add(b"%d" % self.records, bytes([65 + self.records % 26]) * size)
                self.records += 1
            data += builder.build(base + len(numbers) - builder.count, self.clock.wall_ms())
        before = len(owner.errors)
        owner.writer.write(data, len(numbers))
        if len(owner.errors) > before:
            return False
        if not turn.records:
            self.history.append(turn)
        turn.records.setdefault(name, []).extend(numbers)
        owner.ends.append((owner.log.end_offset, turn))
        return True

    def turn(self):
        """Ends a turn of the loop."""
        callbacks, self.soon[:] = list(self.soon), []
        for callback in callbacks:
            callback()
        self.current = Turn()

    def work(self, which=0):
        """A thread of the worker runs one of the jobs that wait, usually the oldest."""
        if self.jobs:
            function, done = self.jobs.pop(which % len(self.jobs))
            try:
                outcome = function()
            except OSError as error:
                outcome = error
            self.outcomes.append((done, outcome))

    def deliver(self, which=0):
        """The loop learns the outcome of a job."""
        if self.outcomes:
            done, outcome = self.outcomes.pop(which % len(self.outcomes))
            done(outcome)

    def work_except_checkpoints(self):
        """Everything that is under way ends, except for the sync of the segments, as if that took very long."""
        held = []
        while self.soon or self.jobs or self.outcomes:
            self.turn()
            held += filter(is_checkpoint, self.jobs)
            self.jobs = [job for job in self.jobs if not is_checkpoint(job)]
            self.work()
            self.deliver()
        self.jobs = held

    def settle(self):
        """Everything that is under way ends."""
        while self.soon or self.jobs or self.outcomes:
            self.turn()
            self.work()
            self.deliver()

    def _schedule(self, delay_ms, callback):
        timer = _Timer(self.clock.monotonic_ms() + delay_ms, callback)
        self.timers.append(timer)
        return timer

    def advance(self, delay_ms):
        """Moves the clock, and fires the timers that are due."""
        self.clock.advance(delay_ms)
        for timer in [timer for timer in self.timers if timer.due_ms <= self.clock.monotonic_ms()]:
            self.timers.remove(timer)
            if not timer.is_cancelled:
                timer.callback()

    # --- what is there ------------------------------------------------------------------------------------------------

    def content(self, name):
        """The numbers of the records in a log."""
        log = self.owners[name].log
        return [
            int(key) for buffer, position, header in log.batches() for _, key, _ in key_values(buffer, position, header)
        ]

    def slots(self):
        """The names of the journal's files."""
        return [name for name in self.disk.list(FOLDER) if name.startswith("coordinator.journal.")]

    def check(self):
        """What is durable is there, in order; turns are there completely or not at all; nothing else is there.

        What was neither acknowledged nor refused may be there, if everything before it is. From here on, what is there is
        the history, and durable.
        """
        found = {name: self.content(name) for name in self.names if name not in self.lossy}
        present = {number for numbers in found.values() for number in numbers}
        kept = []
        is_cut = False
        for turn in self.history:
            numbers = [number for name in found for number in turn.records.get(name, ())]
            there = [number in present for number in numbers]
            assert all(there) or not any(there), "a turn is kept as a whole or not at all"
            assert all(there) or not turn.is_durable, "what was reported as durable is kept"
            if all(there):
                assert turn.is_refused or not is_cut or not there, "a turn is not kept without those before it"
                kept.append(turn)
            elif not turn.is_refused:
                is_cut = True
        for name, numbers in found.items():
            assert numbers == [number for turn in kept for number in turn.records.get(name, ())], "the order is kept"
            assert self.owners[name].log.end_offset == len(numbers)
        for turn in kept:
            turn.is_durable = True
        self.history = kept
        return self


def is_checkpoint(job):
    """Whether a job of the worker syncs the segments of a full slot."""
    return job[0].__qualname__.startswith("Journal._checkpoint.")


class _Timer:
    def __init__(self, due_ms, callback):
        self.due_ms, self.callback, self.is_cancelled = due_ms, callback, False

    def cancel(self):
        self.is_cancelled = True


STEPS = 150


def work(world, random, steps=STEPS):
    """A server at work; which of the worker's jobs ends next is random."""
    for _ in range(steps):
        choice = random.random()
        if choice < 0.35:
            for name in random.sample(LOGS, random.choice([1, 1, 2, 3])):
                sizes = [random.choice([10, 100, 400]) for _ in range(random.randrange(1, 4))]
                world.write(name, *sizes, pieces=random.choice([1, 1, 2]))
            world.turn()
        elif choice < 0.63:
            world.work(random.randrange(3))
        elif choice < 0.91:
            world.deliver(random.randrange(3))
        elif choice < 0.98:
            world.advance(WRITE_BEHIND_MS)
        else:
            world.settle()
