"""Makes the authorizer of a server, which follows the ACLs in the metadata log."""

import logging
from collections.abc import Callable, Sequence

from coordinator.config.access_control import AccessControlConfig, principals
from coordinator.protocol.messages import AccessControlEntryRecord, Message, RemoveAccessControlEntryRecord
from coordinator.security.acls import acl_of
from coordinator.security.audit import AuditLog
from coordinator.security.standard_authorizer import StandardAuthorizer
from coordinator.topics.topics import Topics

_log = logging.getLogger(__name__)


def make_authorizer(config: AccessControlConfig, topics: Topics, now_ms: Callable[[], int]) -> StandardAuthorizer:
    """The authorizer with the ACLs of the registry. It gets the changes of these, too."""
    acls = {acl_id: acl_of(record) for acl_id, record in topics.registry.acls.items()}
    authorizer = StandardAuthorizer(
        principals(config.super_users),
        allow_if_none=config.allow_everyone_if_no_acl_found,
        acls=acls,
        audit=AuditLog(now_ms),
    )

    def follow(records: Sequence[Message]) -> None:
        for record in records:
            if isinstance(record, AccessControlEntryRecord):
                authorizer.add(record.id, acl_of(record))
            elif isinstance(record, RemoveAccessControlEntryRecord):
                authorizer.remove(record.id)

    topics.metadata_observers.append(follow)
    if not (acls or config.super_users or config.allow_everyone_if_no_acl_found):
        _log.warning(
            "event=nobody_may_do_anything reason=there are no ACLs and no super.users, so no client can create ACLs"
        )
    return authorizer
