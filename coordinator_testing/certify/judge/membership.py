"""Promises about membership: who read what while another owned it, rebalances, fatal errors, processes that ended."""

from collections.abc import Iterator, Sequence

from coordinator.groups.group_history import COMPLETED, STARTED, GroupEvent
from coordinator.rules.model import Entry
from coordinator_testing.certify.case import Evidence
from coordinator_testing.certify.judge.entries import cite, errors, generation, received, rows
from coordinator_testing.certify.judge.findings import Finding, broken, kept, not_judged
from coordinator_testing.certify.judge.history import UNDER_WAY_MS, Committed, Fetched, History, Owned, place

FATAL_MS = 5_000
"""For how long requests may follow a fatal error: until the program polls again and learns of it."""
ECHO_MS = 3_000
"""A heartbeat interval of all libraries: so late may a leader hear of the rebalance that it has just taken part in."""
_LEADER_AGAIN = "the leader joins again"
"""The cause of a rebalance that the leader's JoinGroup begins (docs/events.md)."""
REFUSED = frozenset({"GROUP_MAX_SIZE_REACHED", "INCONSISTENT_GROUP_PROTOCOL", "FENCED_INSTANCE_ID"})
"""Errors after which a process must not join again."""
_TAKEN = frozenset({"UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"})
"""How a process learns that another one has taken its instance id."""
_OF_MEMBERS = (
    "SyncGroup",
    "Heartbeat",
    "OffsetCommit",
    "TxnOffsetCommit",
    "ConsumerGroupHeartbeat",
    "StreamsGroupHeartbeat",
    "ShareGroupHeartbeat",
)
_KEEP_THEIR_ID = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat")
"""Members that choose their id, and join again with it."""


def read_by_two(promise: str, history: History) -> Finding:
    """Records that an instance was sent after it had given up their partition, while another instance owned it."""
    evidence = history.evidence
    if any(entry.api == "StreamsGroupHeartbeat" for entry in evidence.entries):
        return not_judged(promise, "a streams group assigns tasks, not partitions")
    if evidence.entries_dropped:
        return not_judged(promise, "the server forgot entries before they were read")
    found = [
        f"{place(evidence, partition, fetched.first)}: {cite(fetched.entry)}, given up at {cite(given_up.entry)},"
        f" owned by instance {owner.instance} since {cite(owner.entry)}"
        for partition in history.partitions()
        for fetched in history.fetched[partition]
        for given_up, owner in _intrusions(_since_outage(history, partition, fetched), fetched)
    ]
    if found:
        return broken(promise, f"{len(found)} times an instance read a partition that another one owned", found)
    return kept(promise, "no instance read on after it had given a partition up")


def committed_by_another(promise: str, history: History) -> Finding:
    """Accepted commits for a partition that the instance had given up, while another instance owned it."""
    evidence = history.evidence
    if any(entry.api == "StreamsGroupHeartbeat" for entry in evidence.entries):
        return not_judged(promise, "a streams group assigns tasks, not partitions")
    if evidence.entries_dropped:
        return not_judged(promise, "the server forgot entries before they were read")
    found = [
        f"{cite(commit.entry)} commits {place(evidence, partition, commit.offset)}, given up at {cite(given_up.entry)},"
        f" owned by instance {owner.instance} since {cite(owner.entry)}"
        for partition in history.partitions()
        for commit in history.committed[partition]
        if commit.is_accepted
        for given_up, owner in _intrusions(_since_outage(history, partition, commit), commit)
    ]
    if found:
        return broken(promise, f"{len(found)} commits were for a partition that another instance owned", found)
    return kept(promise, "no instance committed for a partition that it had given up")


def _since_outage(history: History, partition: int, request: Fetched | Committed) -> list[Owned]:
    """What is known of a partition's owners: what the last moment before the server was killed changed is not recorded, nor
    what its first moment did until the recordings began.
    """
    if any(begin <= request.entry.time_ms < end for begin, end in history.evidence.outages):
        return []
    since_ms = max((end for _, end in history.evidence.outages if end <= request.entry.time_ms), default=0)
    return [each for each in history.ownership.get(partition, ()) if each.at_ms >= since_ms]


def _intrusions(changes: Sequence[Owned], request: Fetched | Committed) -> Iterator[tuple[Owned, Owned]]:
    """The change by which the instance gave the partition up, and that by which another got it, long before its request."""
    before = [each for each in changes if each.at_ms + UNDER_WAY_MS < request.entry.time_ms]
    since = [each for each in changes if each.at_ms + UNDER_WAY_MS >= request.entry.time_ms]
    if any(each.instance == request.instance and each.owns and each.at_ms <= request.entry.time_ms for each in since):
        return
    last = {each.instance: each for each in before}
    own = last.get(request.instance)
    if own is None or own.owns:
        return
    for instance, other in last.items():
        # An owner that has just given it up was still the owner while the request was under way.
        if instance != request.instance and other.owns:
            yield own, other


def rebalances(promise: str, history: History) -> Finding:
    """Rebalances from the provocation on, beyond those that the event allows."""
    evidence = history.evidence
    if evidence.provoked_ms is None:
        return not_judged(promise, "the event was not provoked")
    echoes = _echoes(evidence.group_events)
    started = [
        each
        for each in evidence.group_events
        if each.type == STARTED and evidence.provoked_ms <= each.time_ms < evidence.stopped_ms and each not in echoes
    ]
    allows = evidence.allows
    if allows.rebalances is None:
        return not_judged(promise, f"{len(started)}; how many a right client needs depends on its assignor")
    allowed = allows.rebalances + allows.rebalances_per_instance * len(evidence.instances)
    allowed *= 2 if _is_cooperative(evidence) else 1
    if len(started) <= allowed:
        return kept(promise, f"{len(started)} rebalances; the event allows {allowed}", len(started))
    found = [f"epoch {each.epoch} at event {each.offset}: {each.cause}" for each in started]
    return broken(promise, f"{len(started)} rebalances; the event allows {allowed}", found, len(started))


def _echoes(events: Sequence[GroupEvent]) -> Sequence[GroupEvent]:
    """The rebalances that a leader begins because it heard of the one before when that was over: its heartbeat was answered
    REBALANCE_IN_PROGRESS while it joined. How often that happens depends on the speed of the machine. An echo has none.
    """
    echoes: list[GroupEvent] = []
    began: GroupEvent | None = None
    ended_ms: int | None = None
    for each in events:
        if each.type == COMPLETED:
            ended_ms = each.time_ms
        elif each.type == STARTED:
            is_late = ended_ms is not None and each.time_ms <= ended_ms + ECHO_MS
            if is_late and each.cause == _LEADER_AGAIN and began not in echoes:
                echoes.append(each)
            began, ended_ms = each, None
    return echoes


def _is_cooperative(evidence: Evidence) -> bool:
    """Whether a member joined while it owned partitions: then a second rebalance assigns what the first revoked."""
    return any(entry.api == "JoinGroup" and any(rows(entry.request)) for entry in evidence.entries)


def requests_after_fatal(promise: str, history: History) -> Finding:
    """Requests with an identity that the coordinator had disowned long before, and joins of processes that were refused."""
    if history.evidence.entries_dropped:
        return not_judged(promise, "the server forgot entries before they were read")
    disowned: dict[tuple[object, ...], tuple[Entry, str]] = {}
    found = _taken_back(history)
    for entry in history.evidence.entries:
        if entry.listener not in {each.listener for each in history.evidence.instances}:
            continue
        for identity in _identities(history, entry):
            if identity in disowned:
                first, error = disowned[identity]
                # A join that was under way has the member id from before.
                is_new = (
                    error == "FENCED_INSTANCE_ID" and entry.api == "JoinGroup" and not entry.request.get("member_id")
                )
                if entry.time_ms > (first.answered_ms or first.time_ms) + (0 if is_new else FATAL_MS):
                    found.append(f"{cite(entry)} ({entry.api}) after {error} at {cite(first)}")
                    break
        for identity, error in _disowned(history, entry):
            disowned.setdefault(identity, (entry, error))
        if _has_joined(entry):
            member_id = (entry.response or {}).get("member_id") or entry.request.get("member_id")
            disowned = {identity: why for identity, why in disowned.items() if identity[1] != member_id}
    if found:
        return broken(promise, f"{len(found)} requests followed a fatal error", found)
    return kept(promise, "none")


def _taken_back(history: History) -> list[str]:
    """Joins with an instance id by processes that had been refused because another one has taken it. Libraries whose requests
    name no instance id learn of it by UNKNOWN_MEMBER_ID.
    """
    holders: dict[str, tuple[int, int]] = {}
    refused: dict[tuple[str, tuple[int, int]], tuple[Entry, str] | None] = {}
    found = []
    for entry in history.evidence.entries:
        process = history.run_key(entry)
        name = entry.request.get("group_instance_id") if entry.api == "JoinGroup" else None
        if name:
            why = refused.pop((name, process), None)
            if why is not None:
                found.append(f"{cite(entry)} (JoinGroup with instance id {name}) after {why[1]} at {cite(why[0])}")
            if received(entry) is not None and not errors(entry):
                if holders.setdefault(name, process) != process:
                    refused[name, holders[name]] = None
                holders[name] = process
            continue
        for error in errors(entry) & _TAKEN if received(entry) is not None else ():
            for taken in (each for each in refused if each[1] == process and refused[each] is None):
                refused[taken] = entry, error
    return found


def _identities(history: History, entry: Entry) -> list[tuple[object, ...]]:
    """What a request claims to be, from the narrowest to the widest."""
    member_id = entry.request.get("member_id")
    if entry.api == "JoinGroup":
        return [("process", *history.run_key(entry))]
    if entry.api not in _OF_MEMBERS or not member_id:
        return []
    return [("generation", member_id, generation(entry.request)), ("member", member_id)]


def _disowned(history: History, entry: Entry) -> Iterator[tuple[tuple[object, ...], str]]:
    """The identities that a response disowns, with the error."""
    if received(entry) is None:
        return
    member_id = entry.request.get("member_id")
    for error in errors(entry):
        if error in REFUSED:
            yield ("process", *history.run_key(entry)), error
        if entry.api not in _OF_MEMBERS or not member_id:
            continue
        elif error in ("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID") and entry.api not in _KEEP_THEIR_ID:
            yield ("member", member_id), error
        elif error in ("ILLEGAL_GENERATION", "FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"):
            yield ("generation", member_id, generation(entry.request)), error


def _has_joined(entry: Entry) -> bool:
    """Whether a response makes its client a member again, possibly of the same generation."""
    joins = entry.api == "JoinGroup" or (entry.api.endswith("GroupHeartbeat") and generation(entry.request) == 0)
    return joins and received(entry) is not None and not errors(entry)


def program_ended(promise: str, history: History) -> Finding:
    """Processes that ended by themselves."""
    evidence = history.evidence
    ended = [
        f"instance {each.index}, process {run.pid}: exit code {run.exit_code}"
        for each in evidence.instances
        for run in each.runs
        if run.ended_by == "itself" and run.ended_ms is not None and run.ended_ms <= evidence.stopped_ms
    ]
    if not ended:
        return kept(promise, "none")
    if evidence.allows.may_end:
        return kept(promise, f"{'; '.join(ended)}, as the event permits", len(ended))
    return broken(promise, f"{len(ended)} processes ended by themselves", ended)
