"""`coordinator acls` and `coordinator users`: lists, adds and removes ACLs and SCRAM users over the Kafka protocol."""

import hashlib
import secrets
from collections.abc import Sequence
from typing import NamedTuple

from coordinator.operations.client import Client, OperationFailed, refuse_error
from coordinator.operations.json_values import print_as
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
    answer = client.any().ask(DescribeAclsRequest(*wanted))
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
    creations = [CreateAclsRequest.AclCreation(*acl) for acl in acls]
    answer = client.any().ask(CreateAclsRequest(creations))
    for acl, outcome in zip(acls, answer.results, strict=True):
        refuse_error(outcome.error_code, f"cannot add {acl}", outcome.error_message)


def remove_acls(client: Client, filters: Sequence[AclFilter]) -> int:
    """Removes the ACLs that filters select; returns how many. Raises OperationFailed."""
    wanted = [DeleteAclsRequest.DeleteAclsFilter(*each) for each in filters]
    answer = client.any().ask(DeleteAclsRequest(wanted))
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


# --- output -----------------------------------------------------------------------------------------------------------


def show_acls(client: Client, principal: str | None, *, as_json: bool) -> int:
    """Prints the ACLs of a principal, or all."""
    wanted = AclFilter(ResourceType.ANY, None, PatternType.ANY, principal, None, AclOperation.ANY, PermissionType.ANY)
    header = ("PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "PATTERN", "NAME", "HOST")
    rows = [
        (
            acl.principal,
            acl.permission.name,
            acl.operation.name,
            acl.resource_type.name,
            acl.pattern_type.name,
            acl.resource_name,
            acl.host,
        )
        for acl in list_acls(client, wanted)
    ]
    print_as(as_json, {"acls": [dict(zip(map(str.lower, header), row, strict=True)) for row in rows]}, header, rows)
    return 0


def show_added(client: Client, acls: Sequence[Acl]) -> int:
    """Adds ACLs and prints how many."""
    add_acls(client, acls)
    print(f"{len(acls)} ACLs added")
    return 0


def show_removed(client: Client, acls: Sequence[Acl]) -> int:
    """Removes ACLs and prints how many there were. Returns 1 if there was none."""
    count = remove_acls(client, [AclFilter(*acl) for acl in acls])
    print(f"{count} ACLs removed")
    return 0 if count else 1


def show_users(client: Client, *, as_json: bool) -> int:
    """Prints all SCRAM users."""
    found = list_users(client)
    value = {"users": [user._asdict() for user in found]}
    print_as(as_json, value, ("USER", "MECHANISM", "ITERATIONS"), [tuple(user) for user in found])
    return 0


def show_password_set(client: Client, name: str, mechanism: str, password: str) -> int:
    """Sets the password of a user and says so."""
    set_password(client, name, mechanism, password)
    print(f"user {name} can authenticate with {mechanism}")
    return 0


def show_user_removed(client: Client, name: str) -> int:
    """Removes a user and says so."""
    remove_user(client, name)
    print(f"user {name} removed")
    return 0
