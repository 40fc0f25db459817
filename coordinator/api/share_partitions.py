"""What share partitions need of others: the settings of share groups, which `groups` has, and how to wait.

`groups` and `topics` know nothing of each other, and neither knows of an event loop.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

from coordinator.groups.group_configs import BY_DURATION
from coordinator.groups.settings import GroupSettings, ShareSettings
from coordinator.protocol.java import parse_duration_ms
from coordinator.topics.share.dead_letters import Queue
from coordinator.topics.share.machine import Limits
from coordinator.topics.share.manager import GroupShareSettings, SettingsOf, resets_to

_READ_COMMITTED = "read_committed"
_CACHED_MAX = 1_024


def when(awaitable: Awaitable[Any], then: Callable[[Any], None]) -> None:
    """Calls `then` with the outcome, once it is there; the awaitable does not raise."""
    asyncio.ensure_future(awaitable).add_done_callback(lambda future: then(future.result()))


def share_settings_of(settings: GroupSettings, has_dead_letters: Callable[[], bool]) -> SettingsOf:
    """A function that returns the settings in force for a share group. `has_dead_letters`: whether groups can have a queue."""
    return lambda group_id: _as_needed(settings.share(group_id), has_dead_letters())


@lru_cache(_CACHED_MAX)
def _as_needed(settings: ShareSettings, has_dead_letters: bool) -> GroupShareSettings:
    reset = settings.auto_offset_reset
    return GroupShareSettings(
        Limits(
            lock_ms=settings.record_lock_duration_ms,
            delivery_count=settings.delivery_count_limit,
            locks=settings.partition_max_record_locks,
            renews=settings.renew_acknowledge_enable,
            has_dead_letters=has_dead_letters and bool(settings.dead_letter_topic),
        ),
        settings.isolation_level == _READ_COMMITTED,
        resets_to(reset, parse_duration_ms(reset.removeprefix(BY_DURATION)) if reset.startswith(BY_DURATION) else None),
        Queue(settings.dead_letter_topic, settings.dead_letter_copies),
    )
