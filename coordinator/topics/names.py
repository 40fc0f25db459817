"""What a topic may be called.

A topic's name becomes a folder name and, with '.' turned into '_', a metric's name; Kafka's rules come from there. Two
names that differ only in '.' and '_' collide, and the second one is refused at creation.
"""

import re

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"
COORDINATOR_EVENTS = "__coordinator_events"

INTERNAL = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, COORDINATOR_EVENTS})
"""Topics that clients are told are internal, whether they exist or not."""
UNLISTED = frozenset({COORDINATOR_EVENTS})
"""Topics that whoever names them may read, and that neither lists nor patterns find. Kafka has none of this name, and
a consumer of ".*" that got it would commit what it read, which is an event, which it would read."""

LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def complaint(name: str) -> str | None:
    """What is wrong with a name, in the words that follow "Topic name is invalid: "; None if nothing is."""
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
    """Equal for names that must not both exist."""
    return name.replace(".", "_")
