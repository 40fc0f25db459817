"""The subscriptions of a consumer group's members: topics by name, and by pattern.

Names are resolved to topics when they are needed. For all topics of a group together the log holds one number, the *metadata
hash*: a hash of the hashes of the subscribed topics that exist (id, name, partitions), in the order of their names. When a
topic is created, grown or deleted, the hash no longer matches, and the next heartbeat of any member notices: it compares the
catalog's version with the one for which the hash is known, and computes the hash again only if they differ, or if the group
subscribes to other topics. The hash is Kafka's to the last bit, because it outlives a move between Kafka and this server:
any other value would say that the topics of every group have changed.

A pattern (RE2 syntax, must match the whole name) is matched against all topics. That is too much work for a heartbeat, so a
timer asks for it immediately afterwards, for all patterns of the group. The work is done elsewhere, in slices
(runtime/pattern_matcher.py). What it found comes back as a change of the state (`take_matches`) and is written to the log: a
member's first heartbeat is answered without its topics, a later one finds them. New topics are looked at as soon as a heartbeat
notices them, but at most once a second (`REFRESH_INTERVAL_MS`; Kafka: every ten seconds).

With an authorizer, patterns find only topics that one client may describe: the one whose request asked for the match. This
holds for all members of the group, and what changes in that client's permissions counts from the next match on.

Kafka: `Utils.computeGroupHash`, `TopicRegexResolver`, `GroupMetadataManager.maybeUpdateRegularExpressions`.
"""

from coordinator.groups.catalog import Catalog
from coordinator.groups.consumer import records
from coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex, regex_key
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.epochs.metadata_hash import topics_hash
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.patterns import BadPattern, Matched, compile_pattern
from coordinator.runtime.result import Record, Timer

REFRESH_INTERVAL_MS = 1_000
"""Milliseconds between two matches of a group's patterns against all topics, at least."""
NEVER_MS = 1 << 63


# --- topics -----------------------------------------------------------------------------------------------------------


def topic_ids(group: ConsumerGroup, member: ConsumerMember, catalog: Catalog) -> frozenset[bytes]:
    """The ids of the topics that exist and the member subscribes to, by name or pattern.

    `follow(group, catalog)` has been called since the catalog changed.
    """
    key = (member.topics, member.regex)
    ids = group.soft.topic_ids.get(key)
    if ids is None:
        names = member.topics
        resolved = group.regexes.get(member.regex)
        if resolved is not None:
            names |= resolved.topics
        found = (catalog.topic_id(name) for name in names)
        ids = group.soft.topic_ids[key] = frozenset(each for each in found if each is not None)
    return ids


def follow(group: ConsumerGroup, catalog: Catalog) -> bool:
    """Whether topics may have changed since the metadata hash was computed; if so, drops what was derived from them."""
    soft = group.soft
    if soft.catalog_version == catalog.version:
        return False
    soft.on_topics_changed()
    soft.on_epochs_changed()
    return True


def metadata_hash(group: ConsumerGroup, removed: set[str], added: set[str], catalog: Catalog, *, is_known: bool) -> int:
    """The group's hash once it no longer subscribes to the topics `removed`, and newly to `added`; 0 for no topics.

    `is_known`: the group's present hash is right for this catalog.
    """
    if is_known and not removed and not added:
        return group.metadata_hash
    return topics_hash(catalog, (group.subscribed.keys() - removed) | added)


# --- patterns ---------------------------------------------------------------------------------------------------------


def check_regex(groups: Groups, regex: str) -> None:
    """Raises INVALID_REGULAR_EXPRESSION for a pattern that is malformed, or too much work for the topics that exist."""
    try:
        instructions = compile_pattern(regex, groups.config.limit_pattern_bytes).programsize
    except BadPattern as error:
        reason = str(error)
    else:
        if instructions * len(groups.catalog.topic_names()) <= groups.config.limit_pattern_work:
            return
        reason = "it takes more work than limit.pattern.work allows"
    raise KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}.",
    )


def patterns_due_ms(groups: Groups, group: ConsumerGroup) -> int:
    """The time by the wall clock from which on the group's patterns are to be matched again, even if no topic is new."""
    if not group.regex_members:
        return NEVER_MS
    return group.soft.regexes_looked_at_ms + groups.config.group_consumer_regex_refresh_interval_ms


def refresh_timer(groups: Groups, group: ConsumerGroup, now_ms: int, *, is_new: bool) -> Timer | None:
    """The timer for matching the group's patterns against the topics; None if that is not due. `is_new`: one was added."""
    soft = group.soft
    if not is_new:
        if not group.regex_members:
            return None
        is_old = now_ms >= patterns_due_ms(groups, group)
        is_resolved = group.regex_members.keys() <= group.regexes.keys()
        if is_resolved and soft.regexes_version == groups.catalog.version and not is_old:
            return None
    delay_ms = min(max(0, soft.regexes_looked_at_ms + REFRESH_INTERVAL_MS - now_ms), REFRESH_INTERVAL_MS)
    if is_new and not group.regexes:
        delay_ms = 0
    return Timer(regex_key(group.group_id), delay_ms)


def resolve(
    groups: Groups, group: ConsumerGroup, matched: Matched, version: int, now_ms: int
) -> tuple[list[Record], set[str], set[str], bool]:
    """Takes what the group's patterns matched of the topics in this version of the catalog.

    Returns the records of what changed, the topics to which the group no longer subscribes, those to which it newly does, and
    whether the target may have to change.
    """
    # Patterns may have come and gone meanwhile. One that cannot be matched keeps the topics that it had.
    known = {
        regex: topics if topics is not None else group.regexes[regex].topics if regex in group.regexes else frozenset()
        for regex, topics in matched.items()
        if regex in group.regex_members
    }
    counts: dict[str, int] = {}
    written: list[Record] = []
    changes_target = False
    for regex, topics in known.items():
        resolved = ResolvedRegex(topics=topics, version=version, timestamp_ms=now_ms)
        old = group.regexes.get(regex)
        if old is not None and old.topics == resolved.topics:
            continue
        written.append(records.resolved_regex(group.group_id, regex, resolved))
        for name in resolved.topics if old is None else resolved.topics - old.topics:
            counts[name] = counts.get(name, 0) + 1
        for name in () if old is None else old.topics - resolved.topics:
            counts[name] = counts.get(name, 0) - 1
        changes_target = (
            changes_target
            or old is not None
            or bool(resolved.topics)
            or _leaves_without_reader(group, regex, groups.catalog)
        )
    removed = {name for name, by in counts.items() if by < 0 and group.subscribed[name] + by == 0}
    added = {name for name, by in counts.items() if by > 0 and name not in group.subscribed}
    return written, removed, added, changes_target


def _leaves_without_reader(group: ConsumerGroup, regex: str, catalog: Catalog) -> bool:
    """Whether the target gives a member of a pattern that matches nothing what others subscribe to and it no longer does.

    Kafka computes no other target then, and nobody reads these partitions until something else raises the group's epoch.
    """
    for member_id, member in group.members.items():
        if member.regex == regex:
            names = {catalog.topic_name(topic_id) or "" for topic_id in group.target.get(member_id, ())}
            if any(name in group.subscribed for name in names - member.topics):
                return True
    return False
