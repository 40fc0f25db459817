"""`coordinator acls`: ACLs over the Kafka protocol, in the words of kafka-acls.sh."""

from itertools import product
from typing import TYPE_CHECKING, Any, Unpack, cast

import click

from coordinator.cli.client_options import Access, client_options, json_option, with_client
from coordinator.cli.command_line import Group, combined, examples

if TYPE_CHECKING:
    from coordinator.security.acls import Acl

_CLUSTER_NAME = "kafka-cluster"
_TYPES = ("topic", "group", "transactional-id", "delegation-token", "user-principal")

_rule_options = combined(
    *(
        click.option(
            f"--{name}", multiple=True, metavar="NAME", help=f"For this {name}, or * for all; can be repeated."
        )
        for name in _TYPES
    ),
    click.option("--cluster", is_flag=True, help="For the cluster."),
    click.option(
        "--resource-pattern-type",
        type=click.Choice(["literal", "prefixed"]),
        default="literal",
        show_default=True,
        help="Whether names are whole names or prefixes.",
    ),
    click.option("--allow-principal", multiple=True, metavar="TYPE:NAME", help="Allow, such as User:alice."),
    click.option("--deny-principal", multiple=True, metavar="TYPE:NAME", help="Deny, such as User:bob."),
    click.option("--operation", multiple=True, default=("All",), metavar="NAME", help="Such as Read; default: All."),
    click.option("--host", multiple=True, default=("*",), metavar="IP", help="For clients there; default: everywhere."),
)


@click.group(cls=Group)
def acls() -> None:
    """Show, add and remove ACLs over the Kafka protocol, on this server or a real Kafka."""


@acls.command("list", epilog=examples("coordinator acls list", "coordinator acls list --principal User:alice --json"))
@click.option("--principal", metavar="TYPE:NAME", help="Only the ACLs of this principal.")
@client_options
@json_option
def acls_list(principal: str | None, as_json: bool, **access: Unpack[Access]) -> int:
    """List ACLs."""
    from coordinator.operations import access as shown

    return with_client(access, lambda client: shown.show_acls(client, principal, as_json=as_json))


@acls.command(
    epilog=examples(
        "coordinator acls add --allow-principal User:alice --operation Read --topic orders --group billing",
        "coordinator acls add --deny-principal User:bob --topic secret- --resource-pattern-type prefixed",
    )
)
@_rule_options
@client_options
def add(**options: Any) -> int:
    """Add an ACL for each combination of principal, operation, host and resource."""
    from coordinator.operations import access as shown

    rules = _rules(options)
    return with_client(cast("Access", options), lambda client: shown.show_added(client, rules))


@acls.command(epilog=examples("coordinator acls remove --allow-principal User:alice --operation Read --topic orders"))
@_rule_options
@client_options
def remove(**options: Any) -> int:
    """Remove the ACLs that `add` adds with the same options."""
    from coordinator.operations import access as shown

    rules = _rules(options)
    return with_client(cast("Access", options), lambda client: shown.show_removed(client, rules))


def _rules(options: dict[str, Any]) -> "list[Acl]":
    """The ACLs of `_rule_options`, whose values are taken out of the options. Raises click.UsageError."""
    from coordinator.security.access import AclOperation, ResourceType
    from coordinator.security.acls import Acl, PatternType, PermissionType

    context = click.get_current_context()
    pattern = PatternType[options.pop("resource_pattern_type").upper()]
    resources = []
    for name in _TYPES:
        key = name.replace("-", "_")
        resources += [
            (ResourceType[key.removesuffix("_principal").upper()], each, pattern) for each in options.pop(key)
        ]
    if options.pop("cluster"):
        resources.append((ResourceType.CLUSTER, _CLUSTER_NAME, PatternType.LITERAL))
    principals = [(each, PermissionType.ALLOW) for each in options.pop("allow_principal")]
    principals += [(each, PermissionType.DENY) for each in options.pop("deny_principal")]
    if not resources:
        raise click.UsageError("At least one resource is required, such as --topic orders.", context)
    if not principals or not all(":" in name for name, _ in principals):
        raise click.UsageError("A principal is required: --allow-principal TYPE:NAME, such as User:alice.", context)
    operations = {each.name.replace("_", "").lower(): each for each in AclOperation}
    wanted = [(word, operations.get(word.replace("_", "").lower())) for word in options.pop("operation")]
    for word, operation in wanted:
        if operation is None or operation <= AclOperation.ANY:
            raise click.UsageError(f"There is no operation {word}.", context)
    return [
        Acl(resource_type, name, pattern_type, principal, host, operation or AclOperation.ALL, permission)
        for (resource_type, name, pattern_type), (principal, permission), host, (_, operation) in product(
            resources, principals, options.pop("host"), wanted
        )
    ]
