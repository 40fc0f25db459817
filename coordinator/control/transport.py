"""How both shells use httpx."""

import ssl
from typing import TypedDict

from httpx import Limits, TransportError

from coordinator.control.errors import ControlUnreachable

KEPT_S = 2.0
"""For how long an idle connection is kept: less than the server does, so none is used that the server is closing."""


class ClientOptions(TypedDict):
    """Arguments of httpx.Client and httpx.AsyncClient."""

    base_url: str
    trust_env: bool
    limits: Limits
    verify: ssl.SSLContext | bool


def client_options(url: str) -> ClientOptions:
    """A client of a test's own server goes through no proxy, and loads certificates only if it needs them."""
    return ClientOptions(
        base_url=url,
        trust_env=False,
        limits=Limits(keepalive_expiry=KEPT_S),
        verify=True if url.startswith("https") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )


def unreachable(url: str, error: TransportError) -> ControlUnreachable:
    """The error for a request without an answer."""
    return ControlUnreachable(f"{url}: {error or type(error).__name__}")
