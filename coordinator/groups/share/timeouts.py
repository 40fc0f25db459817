"""The timer of the members of share groups: `share-session` (epochs/timeouts.py)."""

from collections.abc import Iterable
from functools import partial

from coordinator.groups.epochs.timeouts import fire, timers_after_load
from coordinator.groups.share.group import find_share_group
from coordinator.groups.share.update import ShareUpdate
from coordinator.groups.state import Groups
from coordinator.runtime.result import Timer


def resume_all(groups: Groups) -> Iterable[Timer]:
    """The members' timers in a shard that was just loaded."""
    for group_id in groups.by_id:
        group = find_share_group(groups, group_id)
        if group is None:
            continue
        session_ms = groups.settings.share(group_id).session_timeout_ms
        for member in group.members.values():
            yield from timers_after_load(ShareUpdate.TIMERS, group_id, member, session_ms)


fire_session = partial(
    fire,
    ShareUpdate,
    cause="a member's session timed out",
    timeout_ms=lambda groups, group_id, _: groups.settings.share(group_id).session_timeout_ms,
)
