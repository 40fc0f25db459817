"""Topic names: which are legal, which collide, and the names of internal topics.

A topic's name becomes a folder name and, with '.' replaced by '_', part of metric names. Kafka's rules follow from that: two
names that differ only in '.' and '_' collide, and the second one is refused at creation (Kafka's Topic class).
"""

import re

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"
COORDINATOR_EVENTS = "__coordinator_events"

INTERNAL = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, COORDINATOR_EVENTS})
"""Topics that are reported as internal, whether they exist or not."""
UNLISTED = frozenset({COORDINATOR_EVENTS})
"""Topics that can be read by name but are in no list and match no pattern. Kafka has no such topic, and a consumer of ".*"
would feed itself: its commits are events, which it would read and commit."""

LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def why_invalid(name: str) -> str | None:
    """Returns None for a legal name, else the reason, in Kafka's words after "Topic name is invalid: "."""
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {LENGTH_MAX}"
    if _LEGAL.match(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Two names that have the same key must not both exist."""
    return name.replace(".", "_")
