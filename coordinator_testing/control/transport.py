"""How both shells use httpx."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from httpx import Limits, TransportError

from coordinator_testing.control.errors import ControlUnreachable

KEPT_S = 2.0
"""How long an idle connection is kept: shorter than by the server, so that the client never uses one that the server closes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a server asks of those who use its admin HTTP (docs/operations.md). Files are PEM."""

    token: str | None = field(default=None, repr=False)
    """`admin.token`."""
    ca: str | Path | None = None
    """Who signed the certificate of a server with TLS; None: whom this machine trusts."""
    certificate: str | Path | None = None
    """This client's key and certificate chain, instead of a token."""


NO_CREDENTIALS = Access()


class ClientOptions(TypedDict):
    """Arguments of httpx.Client and httpx.AsyncClient."""

    base_url: str
    headers: dict[str, str]
    trust_env: bool
    limits: Limits
    verify: ssl.SSLContext | bool


def client_options(url: str, access: Access) -> ClientOptions:
    """A client of a test's own server goes through no proxy, and loads certificates only if it needs them.

    Raises OSError (also ssl.SSLError) if the files of `access` are not usable.
    """
    return ClientOptions(
        base_url=url,
        headers={} if access.token is None else {"Authorization": f"Bearer {access.token}"},
        trust_env=False,
        limits=Limits(keepalive_expiry=KEPT_S),
        verify=_tls(access) if url.startswith("https") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )


def _tls(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=access.ca)
    if access.certificate is not None:
        context.load_cert_chain(access.certificate)
    return context


def unreachable(url: str, error: TransportError) -> ControlUnreachable:
    """The error for a request without an answer."""
    return ControlUnreachable(f"{url}: {error or type(error).__name__}")
