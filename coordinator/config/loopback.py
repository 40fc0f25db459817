"""Which addresses only this machine reaches."""

import re

_LOOPBACK = re.compile(r"127(\.\d{1,3}){3}|::1|(.+\.)?localhost", re.ASCII)


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's own."""
    return _LOOPBACK.fullmatch(host) is not None
