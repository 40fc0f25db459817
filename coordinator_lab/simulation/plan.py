"""The plan of a run: drawn from its seed, printed before the run starts, and sufficient to repeat it.

Each kind of failure is on in some runs and off in others (swarm testing), because a run in which everything fails hides bugs
that only show when one thing fails. The rates differ from run to run as well. Plans can also be written by hand or derived
with `dataclasses.replace`. Keep a seed that found a bug as its plan: any change of this file changes the meaning of seeds.
"""

from dataclasses import MISSING, dataclass, fields, replace
from random import Random
from typing import Any

from coordinator.groups.settings import FENCING_POLICIES

SPAN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Times are in seconds unless the name says otherwise. A failure's value is its mean interval, 0 for never."""

    seed: int
    span_s: float
    """Length of the safety phase, in which failures strike. Then everything is healed and must converge."""

    shards: int
    segment_bytes: int
    cleaner_backoff_ms: int
    delete_retention_ms: int
    durability: str
    initial_rebalance_delay_ms: int
    groups: int
    members: int
    """Members of each group."""
    accountants: int
    """Transactional producers."""
    counters: int
    """Pairs of workers that commit offsets in transactions."""
    resyncs: float
    """Probability that a leader that has something to do resyncs instead."""
    statics: float
    """Share of static members, which have an instance id."""
    think_s: float
    """Mean pause of a client between two requests."""
    session_ms: int
    rebalance_ms: int

    network_delay_s: float
    split: float
    fsync_s: float
    """Mean duration of an fdatasync."""

    cut_s: float
    stall_s: float
    half_open_s: float
    ghosts: float
    """Probability that bytes sent on an abandoned connection arrive late."""
    kill_s: float
    power_s: float
    power_in_write: float
    """Probability that a power cut happens during a disk operation of the server."""
    slow_disk_s: float
    eio_s: float
    full_s: float
    short_writes: bool
    clock_jump_s: float
    pause_s: float
    stop_s: float
    """Orderly stop and start of the server."""
    downtime_s: float
    """Mean time between a crash and the next start."""

    consumer_groups: int
    """Consumer groups, with `members` members each. `groups` counts the classic groups."""
    mixed_groups: int
    """Groups with members of both protocols, classic and consumer."""
    streams_groups: int
    """Streams groups, with `members` threads each."""
    num_standby_replicas: int
    assignment_interval_ms: int
    fencing_policy: str

    forced_s: float
    """How often an operator forces a rebalance of some group."""
    rebalance_interval_ms: int
    """The rebalance interval of about half of the groups; 0: none has one."""
    acts_s: float
    """How often a tester evicts a member, ends its session, raises an epoch or lets a shard fail over."""

    offsets_retention_minutes: int

    journal_file_bytes: int

    events_fail: float
    """Probability that a write to an event log fails."""

    rules_s: float = 0.0
    """How often a fault rule is set on the server (rules/)."""

    quotas_s: float = 0.0
    """How often an administrator sets or removes a quota."""

    workers: int = 0
    """Workers that share a journal over an engine; 0: one server with an embedded journal."""
    engine_delay_s: float = 0.000_3
    """Mean time of a statement to the engine, and of its answer back."""
    engine_faults: float = 0.0
    """Share of the statements that are late, lost or doubled, or their answers."""
    engine_cut_s: float = 0.0
    """How often a worker is cut off from the engine."""
    engine_pause_s: float = 0.0
    """How often the engine stands still for a while."""
    engine_down_s: float = 0.0
    """How often the engine restarts: all connections are lost, and for a while none is accepted."""
    engine_clock_s: float = 0.0
    """How often the engine's clock jumps."""
    wall_s: float = 0.0
    """How often a worker is cut off from the clients, from the other workers, or from both."""
    rolling_s: float = 0.0
    """How often all workers are restarted, one after the other."""
    snapshot_s: float = 0.0
    """How often a worker makes a snapshot of one of its logs."""
    clock_drift: float = 0.0
    """By which share the engine's clock is faster or slower than those of the workers, at most."""
    metadata_s: float = 0.0
    """How often an administrator of workers changes topics, users, ACLs or settings of groups; 0: there is no authorizer."""
    worker_drift: float = 0.0
    """By which share the clocks of workers are faster or slower than the world's, at most; 0: all show the same time."""
    clock_step_s: float = 0.0
    """How often the wall clock of a worker is corrected: by tens of milliseconds, sometimes by seconds."""
    claim_s: float = 0.0
    """How often a worker claims the log of a shard and dies before it claims the event log, which its owner still has."""
    lost_notifications: float = 0.0
    """The share of the engine's notifications that get lost, although its connections are well."""
    move_s: float = 0.0
    """How often an operator moves a shard."""
    metadata_pieces: int = 1_000
    """From how many pieces on, beside what is needed, workers compact their metadata."""

    hunts: int = 0
    """Hunters, which send commits in the name of members late and again."""
    policy_changes: bool = False
    """Whether hunters change the fencing policies of groups."""
    mixed_resyncs: float = 0.0
    """`resyncs` for the classic members of mixed groups."""

    share_groups: int = 0
    """Share groups, with `members` members each; with several workers there are none."""

    def __str__(self) -> str:
        return " ".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))

    @classmethod
    def parse(cls, text: str) -> "Plan":
        """The inverse of `str`. Raises ValueError.

        Fields that are missing are taken from the plan of the seed; but a plan that an earlier version printed keeps its
        meaning: what that version did not have is off.
        """
        values: dict[str, Any] = {}
        for word in text.split():
            name, equals, value = word.partition("=")
            kind = cls.__annotations__.get(name)
            if not equals or kind is None:
                raise ValueError(f"{word}: not a field of a plan")
            values[name] = value == "True" if kind is bool else kind(value)
        if "seed" not in values:
            raise ValueError("a plan needs a seed")
        if {each.name for each in fields(cls) if each.default is MISSING} <= values.keys():
            return cls(**values)
        return replace(draw(values["seed"], values.get("span_s", SPAN_S), values.get("workers", 0)), **values)


def workers_of(seed: int) -> int:
    """The workers of a seed for which nobody asks for any: mostly none, in one of eight seeds two or three."""
    return Random(f"number of workers {seed}").choice([*[0] * 14, 2, 3])


def draw(seed: int, span_s: float, workers: int = 0) -> Plan:
    """The plan of a seed. `workers`: their number; 0: one server with an embedded journal."""
    random = Random(f"plan {seed}")
    # Fields added later are drawn from generators of their own, so that the other fields of a seed stay the same.
    counters = Random(f"counters {seed}").choice([0, 1, 2])

    def sometimes(low: float, high: float, chance: float = 0.5) -> float:
        value = round(random.uniform(low, high), 1)
        return value if random.random() < chance else 0.0

    durability = "fsync" if random.random() < 0.85 else "write"
    power_s = sometimes(8, 40)
    return Plan(
        seed=seed,
        span_s=span_s,
        shards=random.choice([1, 2, 3]),
        segment_bytes=random.choice([4_096, 16_384, 65_536, 1 << 20]),
        cleaner_backoff_ms=random.choice([500, 3_000, 15_000]),
        delete_retention_ms=random.choice([0, 5_000, 86_400_000]),
        durability=durability,
        initial_rebalance_delay_ms=random.choice([0, 200, 3_000]),
        groups=random.choice([1, 2, 3]),
        members=random.choice([1, 2, 3, 5]),
        accountants=Random(f"accountants {seed}").choice([0, 1, 2, 3]),
        counters=counters,
        resyncs=Random(f"resyncs {seed}").choice([0.0, 0.0, 0.05, 0.3]),
        statics=random.choice([0.0, 0.0, 0.5, 1.0]),
        think_s=random.choice([0.3, 0.6, 1.2]),
        session_ms=random.choice([6_000, 8_000, 12_000]),
        rebalance_ms=random.choice([4_000, 8_000, 15_000]),
        network_delay_s=random.choice([0.000_2, 0.002, 0.02, 0.1]),
        split=random.choice([0.0, 0.1, 0.5]),
        fsync_s=random.choice([0.000_5, 0.004, 0.05]),
        cut_s=sometimes(0.5, 10),
        stall_s=sometimes(2, 20),
        half_open_s=sometimes(4, 20),
        ghosts=random.choice([0.0, 0.5, 1.0]),
        kill_s=sometimes(6, 30),
        power_s=power_s if durability == "fsync" else 0.0,
        power_in_write=random.choice([0.0, 0.5, 1.0]),
        slow_disk_s=sometimes(5, 30, 0.4),
        eio_s=sometimes(15, 60, 0.3),
        full_s=sometimes(10, 40, 0.3),
        short_writes=random.random() < 0.3,
        clock_jump_s=sometimes(5, 30, 0.4),
        pause_s=sometimes(8, 40, 0.4),
        stop_s=sometimes(15, 60, 0.3),
        downtime_s=random.choice([0.1, 2.0, 10.0]),
        consumer_groups=random.choice([0, 1, 1, 2]),
        mixed_groups=Random(f"mixed {seed}").choice([0, 1, 1]),
        streams_groups=Random(f"streams {seed}").choice([0, 1, 1]),
        num_standby_replicas=Random(f"standbys {seed}").choice([0, 1]),
        assignment_interval_ms=random.choice([0, 0, 1_000]),
        fencing_policy=random.choice(FENCING_POLICIES),
        forced_s=Random(f"forced {seed}").choice([0.0, 0.0, 3.0, 10.0]),
        rebalance_interval_ms=Random(f"rebalance interval {seed}").choice([0, 0, 5_000, 20_000]),
        acts_s=Random(f"acts {seed}").choice([0.0, 0.0, 2.0, 6.0]),
        # A counter must still find its value after it made no progress for a minute.
        offsets_retention_minutes=10_080 if counters else Random(f"retention {seed}").choice([1, 10_080]),
        journal_file_bytes=Random(f"journal {seed}").choice([8_192, 32_768, 1 << 18]),
        events_fail=Random(f"events {seed}").choice([0.0, 0.0, 0.02, 0.3]),
        rules_s=Random(f"rules {seed}").choice([0.0, 0.0, 0.5, 3.0]),
        quotas_s=Random(f"quotas {seed}").choice([0.0, 0.0, 1.0, 4.0]),
        hunts=Random(f"hunts {seed}").choice([0, 1, 2]),
        policy_changes=Random(f"policy changes {seed}").random() < 0.3,
        mixed_resyncs=Random(f"mixed resyncs {seed}").choice([0.0, 0.1, 0.3]),
        share_groups=Random(f"share groups {seed}").choice([0, 1]),
        **_sharing(seed, workers),
    )


def _sharing(seed: int, workers: int) -> dict[str, Any]:
    """The fields of a plan that concern several workers."""
    random = Random(f"workers {seed}")
    if not workers:
        return {}

    def sometimes(low: float, high: float, chance: float = 0.4) -> float:
        value = round(random.uniform(low, high), 1)
        return value if random.random() < chance else 0.0

    return {
        "workers": workers,
        "engine_delay_s": random.choice([0.000_3, 0.002, 0.02, 0.1]),
        "engine_faults": random.choice([0.0, 0.0, 0.01, 0.05]),
        "engine_cut_s": sometimes(5, 30),
        "engine_pause_s": sometimes(8, 40),
        "engine_down_s": sometimes(8, 40),
        "engine_clock_s": sometimes(8, 40),
        "wall_s": sometimes(5, 30),
        "rolling_s": sometimes(15, 60),
        "snapshot_s": sometimes(0.5, 10, 0.7),
        "clock_drift": random.choice([0.0, 0.0, 0.001, 0.01]),
        "worker_drift": Random(f"worker drift {seed}").choice([0.0, 0.000_5, 0.01]),
        "clock_step_s": Random(f"clock steps {seed}").choice([0.0, 1.0, 5.0]),
        "claim_s": Random(f"claims {seed}").choice([0.0, 0.0, 2.0, 8.0]),
        "lost_notifications": Random(f"notifications {seed}").choice([0.0, 0.1, 1.0]),
        "move_s": Random(f"moves {seed}").choice([0.0, 1.0, 5.0]),
        "metadata_s": Random(f"metadata {seed}").choice([0.0, 0.5, 3.0]),
        "metadata_pieces": Random(f"metadata pieces {seed}").choice([1, 10, 1_000]),
    }
