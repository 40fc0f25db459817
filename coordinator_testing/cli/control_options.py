"""The options of `coordinator control`, and how its commands reach a server."""

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from coordinator.cli.command_line import combined, fail, refused

if TYPE_CHECKING:
    import msgspec

    from coordinator_testing.control import Control

ACCESS_VARIABLES = {"token": "ADMIN_TOKEN", "ca": "ADMIN_CA", "certificate": "ADMIN_CERTIFICATE"}
"""A token is no option, because other users of the machine see the arguments of a process."""
WRONG_ARGUMENTS = {400, 422}
"""The HTTP statuses of a request that can never succeed."""

admin_option = click.option(
    "--admin",
    default="127.0.0.1:9644",
    show_default=True,
    envvar="ADMIN_URL",
    show_envvar=True,
    metavar="HOST:PORT",
    help="The admin address of the server, or its URL.",
)
scope_option = click.option(
    "--scope", metavar="NAME", help="The scope: rules and recordings that are cleared together."
)


def _names(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> Any:
    """One name as itself, several as a tuple."""
    return values[0] if len(values) == 1 else values or None


def _versions(_context: click.Context, _option: click.Parameter, text: str | None) -> Any:
    """`3` as a number, `3-5` as two."""
    if text is None:
        return None
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise click.BadParameter(f"{text!r} is no version, such as 3, and no range, such as 3-5")
    return (int(first), int(last)) if dash else int(first)


def _fields(_context: click.Context, _option: click.Parameter, text: str | None) -> Any:
    """A JSON object."""
    if text is None:
        return None
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"it is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise click.BadParameter("it is no JSON object")
    return fields


match_options = combined(
    click.option(
        "--api", multiple=True, callback=_names, metavar="NAME", help="Kafka's name of an API; can be repeated."
    ),
    click.option("--version", callback=_versions, metavar="N[-M]", help="A version of the API, or a range."),
    click.option("--group", metavar="GLOB", help="Requests of this group."),
    click.option("--topic", metavar="GLOB", help="Requests that name this topic."),
    click.option("--transactional-id", metavar="GLOB", help="Requests of this transactional id."),
    click.option("--member-id", metavar="GLOB", help="Requests of this member."),
    click.option("--instance-id", metavar="GLOB", help="Requests of this static member."),
    click.option("--client-id", metavar="GLOB", help="Requests of clients with this id."),
    click.option("--client-host", metavar="GLOB", help="Requests from this IP address."),
    click.option("--listener", metavar="GLOB", help="Requests to this listener, HOST:PORT as advertised."),
    click.option("--role", type=click.Choice(["leader", "follower"]), help="The member's role in its classic group."),
    click.option(
        "--group-state", multiple=True, callback=_names, metavar="STATE", help="The group's state; can be repeated."
    ),
    click.option("--principal", metavar="GLOB", help="Requests of this client, such as User:alice."),
    click.option("--where", callback=_fields, metavar="JSON", help='Fields of the request: {"MemberEpoch": {">": 3}}.'),
)
"""Which requests a rule or a recording is about."""

rule_options = combined(
    match_options,
    click.option("--nth", type=int, metavar="N", help="Act from the nth match on."),
    click.option(
        "--per",
        type=click.Choice(["member", "connection", "group"]),
        help="Count --nth and --times separately for each.",
    ),
    click.option("--error", metavar="NAME", help="Answer with this error; the request has no effect."),
    click.option("--message", metavar="TEXT", help="With --error: the error message."),
    click.option(
        "--partition",
        "partitions",
        type=int,
        multiple=True,
        metavar="N",
        help="With --error: only for this partition; can be repeated.",
    ),
    click.option("--force", is_flag=True, help="With --error: even if clients never get it from this API."),
    click.option(
        "--lose",
        type=click.Choice(["request", "answer"]),
        help="Close the connection before the request is handled, or instead of the answer.",
    ),
    click.option(
        "--answer", callback=_fields, metavar="JSON", help='Fields of the answer of your own: {"ErrorCode": 27}.'
    ),
    click.option("--instead", is_flag=True, help="With --answer: the server does not handle the request."),
    click.option("--flip-bits", type=int, metavar="N", help="Flip this many bits of the answer."),
    click.option("--size", type=int, metavar="BYTES", help="The size that the answer says it has."),
    click.option("--cut-after", type=int, metavar="BYTES", help="Close the connection within the answer."),
    click.option("--bytes-per-s", type=int, metavar="N", help="The rate at which the answer leaves."),
    click.option("--observe", is_flag=True, help="Only count."),
    click.option("--delay-ms", type=int, metavar="MS", help="Delay the request or its answer by this time."),
    click.option(
        "--when", type=click.Choice(["before", "after"]), help="With --delay-ms: before or after it is handled."
    ),
    click.option(
        "--hold", type=click.Choice(["request", "answer"]), help="Keep it until `coordinator control faults release`."
    ),
    click.option("--close", is_flag=True, help="Close the connection after the answer."),
    click.option("--throttle-ms", type=int, metavar="MS", help="Throttle the client, as a quota would."),
    click.option(
        "--coordinator",
        type=click.Choice(["moved", "loading", "unavailable"]),
        help="Answer as if the coordinator were elsewhere, or loading.",
    ),
    click.option("--times", type=int, metavar="N", help="How many times the rule acts. Default: once."),
    click.option("--until", type=click.Choice(["cleared"]), help="Act until the rule is cleared."),
    click.option("--for-ms", type=int, metavar="MS", help="How long the rule stays active, by the server's clock."),
    click.option("--probability", type=float, metavar="P", help="Act on a match with this probability."),
    click.option("--seed", type=int, metavar="N", help="With --probability and --flip-bits: choose the same again."),
    click.option(
        "--in-progress", is_flag=True, help="Act also on answers to requests that wait in the server already."
    ),
)
"""A whole fault rule."""


def given(options: Mapping[str, Any]) -> Any:
    """The keyword arguments for the options that have a value."""
    return {name: value for name, value in options.items() if value is not None and value is not False and value != ()}


def with_control(admin: str, show: "Callable[[Control], int]", scope: str | None = None) -> int:
    """Calls `show` with a client and returns its exit code. What was set stays set. An error is printed on one line."""
    from coordinator_testing.control import Access, Control, ControlError, ControlRefused

    named = {name: os.environ.get(variable) or None for name, variable in ACCESS_VARIABLES.items()}
    try:
        control = Control(admin, scope, Access(**named))
    except (ValueError, OSError) as error:
        return refused(error)
    try:
        return show(control)
    except ControlRefused as error:
        return refused(error) if error.status in WRONG_ARGUMENTS else fail(error)
    except ControlError as error:
        return fail(error)
    finally:
        control.disconnect()


def show_done(admin: str, as_json: bool, act: "Callable[[Control], msgspec.Struct]") -> int:
    """Calls `act` with a client as `with_control` does, and prints what the server has done."""
    from coordinator_testing.cli.control_shown import show_row

    return with_control(admin, lambda control: show_row(act(control), as_json))
