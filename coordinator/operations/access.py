"""Lists, adds and removes ACLs and SCRAM users over the Kafka protocol."""

import hashlib
import secrets
from collections.abc import Sequence
from typing import NamedTuple

from coordinator.operations.client import Client, OperationFailed, refuse_error
from coordinator.protocol.messages import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeUserScramCredentialsRequest,
)
from coordinator.security.access import AclOperation, ResourceType
from coordinator.security.acls import Acl, AclFilter, PatternType, PermissionType

MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
ITERATIONS = 8192
_SALT_BYTES = 24


class User(NamedTuple):
    """A SCRAM credential of a user."""

    name: str
    mechanism: str
    iterations: int


def list_acls(client: Client, wanted: AclFilter) -> list[Acl]:
    """The ACLs that a filter selects, in order. Raises OperationFailed."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    answer = client.any().ask(request)
    refuse_error(answer.error_code, "cannot list ACLs", answer.error_message)
    return sorted(
        Acl(
            ResourceType(resource.resource_type),
            resource.resource_name,
            PatternType(resource.pattern_type),
            each.principal,
            each.host,
            AclOperation(each.operation),
            PermissionType(each.permission_type),
        )
        for resource in answer.resources
        for each in resource.acls
    )


def add_acls(client: Client, acls: Sequence[Acl]) -> None:
    """Adds ACLs; those that exist stay. Raises OperationFailed for the first that the server refuses."""
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            resource_pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    answer = client.any().ask(CreateAclsRequest(creations=creations))
    for acl, outcome in zip(acls, answer.results, strict=True):
        refuse_error(outcome.error_code, f"cannot add {acl}", outcome.error_message)


def remove_acls(client: Client, filters: Sequence[AclFilter]) -> int:
    """Removes the ACLs that filters select; returns how many. Raises OperationFailed."""
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
    )
    answer = client.any().ask(request)
    for result in answer.filter_results:
        refuse_error(result.error_code, "cannot remove ACLs", result.error_message)
    return sum(len(result.matching_acls) for result in answer.filter_results)


def list_users(client: Client) -> list[User]:
    """All SCRAM credentials, by name. Raises OperationFailed."""
    request = DescribeUserScramCredentialsRequest(users=None)
    answer = client.any().ask(request)
    refuse_error(answer.error_code, "cannot list users", answer.error_message)
    return sorted(
        User(result.user, MECHANISMS.get(info.mechanism, str(info.mechanism)), info.iterations)
        for result in answer.results
        for info in result.credential_infos
    )


def set_password(client: Client, name: str, mechanism: str, password: str) -> None:
    """Sets the SCRAM credential of a user; the password does not leave this process. Raises OperationFailed."""
    salt = secrets.token_bytes(_SALT_BYTES)
    hash_name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=name,
        mechanism=_code(mechanism),
        iterations=ITERATIONS,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, ITERATIONS),
    )
    _alter(client, AlterUserScramCredentialsRequest(upsertions=[upsertion]), f"cannot add user {name}")


def remove_user(client: Client, name: str) -> None:
    """Removes all SCRAM credentials of a user. Raises OperationFailed."""
    found = [user for user in list_users(client) if user.name == name]
    if not found:
        raise OperationFailed(f"there is no user {name}")
    for user in found:
        deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=name, mechanism=_code(user.mechanism))
        _alter(client, AlterUserScramCredentialsRequest(deletions=[deletion]), f"cannot remove user {name}")


def _code(mechanism: str) -> int:
    return next(code for code, name in MECHANISMS.items() if name == mechanism)


def _alter(client: Client, request: AlterUserScramCredentialsRequest, doing: str) -> None:
    answer = client.any().ask(request)
    for result in answer.results:
        refuse_error(result.error_code, doing, result.error_message)
