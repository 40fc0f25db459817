"""`coordinator protocol`: shows protocol messages, and the permissions of the APIs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from coordinator.cli.command_line import Group, examples, fail, refused

if TYPE_CHECKING:
    from coordinator.protocol.schema import Definition, Structure


@click.group(cls=Group)
def protocol() -> None:
    """Show protocol messages, and the permissions of the APIs."""


@protocol.command(
    epilog=examples(
        "coordinator protocol show JoinGroup 9",
        "coordinator protocol show OffsetCommitValue 4",
        "coordinator protocol show JoinGroupRequest 8 --dialect kip-792",
    )
)
@click.argument("message")
@click.argument("version", type=int)
@click.option("--dialect", metavar="NAME", help="The name of a folder in protocol_schemas/dialects.")
def show(message: str, version: int, dialect: str | None) -> int:
    """Show the fields of a message in one version, and the code that reads and writes it.

    MESSAGE is for example JoinGroupRequest, or JoinGroup for request and response.
    """
    from coordinator.protocol.codec import Codec
    from coordinator.protocol.schema import SchemaError

    try:
        codec = Codec.of(dialect)
    except SchemaError as error:
        return refused(error)
    known = codec.schemas.names
    names = [message + suffix for suffix in ("", "Request", "Response") if message + suffix in known]
    if not names:
        return refused(f"there is no message {message!r}; try JoinGroup or OffsetCommitValue")
    for name in names:
        versions = codec.versions(name)
        if version not in versions:
            return refused(f"{name} has versions {versions.lowest} to {versions.highest}, not {version}")
    for name in names:
        print("\n".join(_fields(codec.definition(name), version)))
        print(f"\n{codec.source(name, version)}\n")
    return 0


@protocol.command(epilog=examples("coordinator protocol access"))
def access() -> int:
    """Show the permissions that each API asks an authorizer for, as a table in Markdown."""
    print("\n".join(access_table()))
    return 0


def access_table() -> Iterator[str]:
    """A row for each API, with its permissions in the order in which it asks for them."""
    from coordinator import requests
    from coordinator.api.declaration import supported_apis

    yield "| API | permissions |"
    yield "|---|---|"
    for api in sorted(supported_apis(requests).values(), key=lambda each: each.name):
        permissions = ", ".join(f"{each.operation.name} of {each.resource_type.name}" for each in api.access)
        yield f"| {api.name} | {permissions or 'none'} |"


@protocol.command(epilog=examples("coordinator protocol precompile"))
def precompile() -> int:
    """Store the code of all messages in the cache folder (COORDINATOR_CACHE_DIR), and print its path.

    For images whose file system is read-only. Without this, a server stores the code that reads and writes a message when it
    first uses it.
    """
    from coordinator.protocol.codec import Codec
    from coordinator.protocol.messages import CLASS_SPECS
    from coordinator.protocol.schema import dialects
    from coordinator.world.code_cache import CODE_CACHE

    if CODE_CACHE.folder is None:
        return refused("there is no cache folder; set COORDINATOR_CACHE_DIR")
    for codec in (Codec.of(dialect) for dialect in (None, *dialects())):
        for name in codec.schemas.names:
            if not all(codec.store(name, version) for version in codec.versions(name)):
                return fail(f"{CODE_CACHE.folder} must be writable, and by no other user")
            CLASS_SPECS.constructor(name, name)
    CLASS_SPECS.store()
    print(CODE_CACHE.folder)
    return 0


def _fields(definition: "Definition", version: int) -> Iterator[str]:
    """The fields of a message in this version as an indented list, with types and tags."""
    flexible = ", flexible" if version in definition.flexible else ""
    yield f"{definition.name} v{version}{flexible}"

    def of(structure: "Structure", indent: str) -> Iterator[str]:
        for each in structure.fields:
            if version in each.versions:
                kind = f"[]{each.type.name}" if each.type.is_array else each.type.name
                nullable = " or null" if version in each.nullable else ""
                tag = f", tag {each.tag}" if version in each.tagged else ""
                yield f"{indent}{each.name}: {kind}{nullable}{tag}"
                if each.type.is_struct:
                    yield from of(definition.structures[each.type.name], indent + "    ")

    yield from of(definition.root, "    ")
