"""Timers of consumer groups.

    consumer-session, consumer-rebalance   epochs/timeouts.py
    consumer-join        a classic member was asked to rejoin and has not done so within its rebalance timeout
    consumer-sync        a classic member has joined and has not asked for its assignment within its rebalance timeout
    consumer-regex       the group's patterns are to be matched against the topics

A member whose timer fires is removed.
"""

from functools import partial
from operator import attrgetter

from coordinator.groups.consumer.group import find_consumer_group
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.subscription import REFRESH_INTERVAL_MS, follow, metadata_hash, resolve
from coordinator.groups.consumer.update import ConsumerUpdate
from coordinator.groups.epochs.timeouts import fire, timers_after_load
from coordinator.groups.state import Groups
from coordinator.protocol.patterns import Matched
from coordinator.runtime.result import Result, RunChange, Timer, TimerKey


def _is_classic(member: ConsumerMember) -> bool:
    return member.classic is not None


def _session_timeout_ms(groups: Groups, group_id: str, member: ConsumerMember) -> int:
    if member.classic is not None:
        return member.classic.session_timeout_ms
    return groups.settings.consumer(group_id).session_timeout_ms


resume_all = partial(timers_after_load, ConsumerUpdate, session_ms=_session_timeout_ms)
_fire = partial(fire, ConsumerUpdate)
fire_session = partial(_fire, cause="a member's session timed out", timeout_ms=_session_timeout_ms)
fire_rebalance = partial(
    _fire, cause="a member did not give up its partitions in time", is_due=attrgetter("has_revocation_deadline")
)
fire_join = partial(_fire, cause="a classic member did not join in time", is_due=_is_classic)
fire_sync = partial(_fire, cause="a classic member did not sync in time", is_due=_is_classic)


def fire_regex(groups: Groups, key: TimerKey, _now_ms: int) -> Result:
    """Asks which topics the group's patterns match; the answer is taken by `take_matches`."""
    group = find_consumer_group(groups, str(key[1]))
    if group is None or not group.regex_members or group.soft.may_describe is None:
        return Result()
    soft, catalog = group.soft, groups.catalog
    if soft.is_matching:
        return Result(timers=(Timer(key, REFRESH_INTERVAL_MS),))
    take = partial(take_matches, group_id=group.group_id, version=catalog.version)
    patterns, names, may_describe = tuple(group.regex_members), catalog.topic_names(), soft.may_describe
    soft.may_describe, soft.is_matching = None, True

    def ask(run_change: RunChange) -> None:
        groups.match_patterns(
            patterns,
            names,
            catalog.version,
            lambda matched: run_change(partial(take, matched=matched)),
            lambda: bool(group.regex_members) and groups.by_id.get(group.group_id) is group,
            may_describe,
        )

    return Result(asks=(ask,))


def take_matches(groups: Groups, now_ms: int, *, group_id: str, matched: Matched, version: int) -> Result:
    """Takes the topics that the group's patterns match (Kafka: `GroupMetadataManager.handleRegularExpressionsResult`)."""
    update = ConsumerUpdate.find(groups, group_id, now_ms)
    if update is None:
        return Result()
    group, soft = update.group, update.group.soft
    soft.is_matching = False
    written, removed, added, changes_target = resolve(groups, group, matched, version, now_ms)
    update.records += written
    soft.regexes_looked_at_ms = now_ms
    soft.regexes_version = version
    if changes_target:
        is_known = not follow(group, groups.catalog)
        new_hash = metadata_hash(group, removed, added, groups.catalog, is_known=is_known)
        soft.catalog_version = groups.catalog.version
        update.raise_epoch(new_hash, "a pattern matches other topics", "")
    # Else the next heartbeat finds out whether the group's topics have changed, as in Kafka.
    return update.result(None)
