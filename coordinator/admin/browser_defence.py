"""What keeps web pages of strangers from using admin HTTP through the browser of somebody who reaches it.

A browser can reach loopback. It lets any page send requests there, though not read the responses, unless the page's own name
leads to loopback (DNS rebinding). So:

- a request that changes something comes from no other origin (`Origin`, `Sec-Fetch-Site`), and a body is declared as
  application/json, which a page of another origin may not send without asking first;
- a request without credentials comes by an address, `localhost`, or, where the server listens on more than loopback, a name
  without a dot, as containers have; never by a name that somebody else's DNS answers.
"""

import ipaddress
from collections.abc import Mapping

from coordinator.admin.endpoint import RefusedRequest
from coordinator.config.loopback import is_loopback

_CHANGES_NOTHING = frozenset({"GET", "HEAD", "OPTIONS"})


def check_host(headers: Mapping[str, str], listens_on: str) -> None:
    """Raises RefusedRequest: 403 the request came by a name that is not of this host."""
    host = _host(headers.get("host", ""))
    if not host or host == listens_on or _is_address(host) or is_loopback(host):
        return
    if is_loopback(listens_on):
        raise RefusedRequest(
            403, f"admin HTTP listens on {listens_on}, so Host must be an address or localhost; {host} is neither"
        )
    if "." in host:
        raise RefusedRequest(
            403,
            f"Host {host} needs credentials (admin.token); without them it must be an address or a name without a dot",
        )


def check_origin(method: str, headers: Mapping[str, str]) -> None:
    """Raises RefusedRequest: 403 a page of another origin sent a request that changes something."""
    if method in _CHANGES_NOTHING:
        return
    origin = headers.get("origin")
    same = origin is None or origin.partition("://")[2] == headers.get("host")
    if not same or headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise RefusedRequest(403, "a web page of another origin must not change anything here")


def _host(value: str) -> str:
    """The name in a Host header, without the port."""
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.partition(":")[0].rstrip(".").lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
