"""The timer of the members of share groups: `share-session` (epochs/timeouts.py)."""

from functools import partial

from coordinator.groups.epochs.timeouts import fire, timers_after_load
from coordinator.groups.share.member import ShareMember
from coordinator.groups.share.update import ShareUpdate
from coordinator.groups.state import Groups


def _session_timeout_ms(groups: Groups, group_id: str, _member: ShareMember) -> int:
    return groups.settings.share(group_id).session_timeout_ms


resume_all = partial(timers_after_load, ShareUpdate, session_ms=_session_timeout_ms)
fire_session = partial(
    fire,
    ShareUpdate,
    cause="a member's session timed out",
    timeout_ms=_session_timeout_ms,
)
