"""`coordinator acls` and `coordinator users`: prints the results of access.py as tables or as JSON."""

from collections.abc import Sequence

from coordinator.operations import access
from coordinator.operations.client import Client
from coordinator.operations.json_values import print_json, print_table
from coordinator.security.access import AclOperation, ResourceType
from coordinator.security.acls import Acl, AclFilter, PatternType, PermissionType


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
        for acl in access.list_acls(client, wanted)
    ]
    if as_json:
        print_json({"acls": [dict(zip(map(str.lower, header), row, strict=True)) for row in rows]})
    else:
        print_table(header, rows)
    return 0


def show_added(client: Client, acls: Sequence[Acl]) -> int:
    """Adds ACLs and prints how many."""
    access.add_acls(client, acls)
    print(f"{len(acls)} ACLs added")
    return 0


def show_removed(client: Client, acls: Sequence[Acl]) -> int:
    """Removes ACLs and prints how many there were. Returns 1 if there was none."""
    count = access.remove_acls(client, [AclFilter(*acl) for acl in acls])
    print(f"{count} ACLs removed")
    return 0 if count else 1


def show_users(client: Client, *, as_json: bool) -> int:
    """Prints all SCRAM users."""
    found = access.list_users(client)
    if as_json:
        print_json({"users": [user._asdict() for user in found]})
    else:
        print_table(("USER", "MECHANISM", "ITERATIONS"), [tuple(user) for user in found])
    return 0


def show_password_set(client: Client, name: str, mechanism: str, password: str) -> int:
    """Sets the password of a user and says so."""
    access.set_password(client, name, mechanism, password)
    print(f"user {name} can authenticate with {mechanism}")
    return 0


def show_user_removed(client: Client, name: str) -> int:
    """Removes a user and says so."""
    access.remove_user(client, name)
    print(f"user {name} removed")
    return 0
