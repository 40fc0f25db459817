"""Which topics a client may touch, as the data plane asks: by name, whatever the permission is called."""

from collections.abc import Callable

IsAllowed = Callable[[str], bool]
"""Whether the client may do to the topic of this name what its request is about."""


def everything(_name: str) -> bool:
    """For a server without an authorizer."""
    return True
