"""The token and the TLS of admin HTTP. What makes them is imported where there are some: most servers have none."""

from typing import TYPE_CHECKING

from coordinator.config.settings import AdminConfig

if TYPE_CHECKING:
    from coordinator.security.tls import TlsContext


def admin_protection(admin: AdminConfig) -> "tuple[str, TlsContext | None]":
    """The token, empty without one, and TLS. Raises CannotStart."""
    if not (admin.admin_token or admin.admin_token_file or admin.admin_ssl_keystore_location):
        return "", None
    from coordinator.server.listener_security import read_admin_protection  # noqa: PLC0415 - see above

    return read_admin_protection(admin)
