"""`coordinator control faults`: sets fault rules, waits until they act, and clears them."""

from typing import TYPE_CHECKING, Any

import click

from coordinator.cli.client_options import json_option, timeout_option
from coordinator.cli.command_line import Group, exactly_one, examples
from coordinator_testing.cli.control_options import admin_option, given, rule_options, scope_option, with_control

if TYPE_CHECKING:
    from coordinator_testing.control import Control

_fault = click.argument("fault")


@click.group(cls=Group)
def faults() -> None:
    """Set fault rules, wait until they act, clear them."""


@faults.command(
    epilog=examples(
        "coordinator control faults add --api Heartbeat --group billing --error ILLEGAL_GENERATION --times 2",
        "coordinator control faults add --api OffsetCommit --group billing --lose answer",
        "coordinator control faults add --group billing --coordinator moved --for-ms 500 --scope my-test",
    )
)
@rule_options
@scope_option
@admin_option
@json_option
def add(scope: str | None, admin: str, as_json: bool, **rule: Any) -> int:
    """Set a fault rule: the requests that it matches, what it does to them, and how many times."""
    from coordinator_testing.cli.control_shown import show_faults

    return with_control(admin, lambda control: show_faults([control.fault(**given(rule)).status()], as_json), scope)


@faults.command("list", epilog=examples("coordinator control faults list --scope my-test --json"))
@scope_option
@admin_option
@json_option
def list_(scope: str | None, admin: str, as_json: bool) -> int:
    """List the rules, of one scope or all, with how often they have matched and acted."""
    from coordinator_testing.cli.control_shown import show_faults

    return with_control(admin, lambda control: show_faults(control.faults(), as_json), scope)


@faults.command(
    epilog=examples("coordinator control faults wait f1 --acted 2", "coordinator control faults wait f2 --held 1")
)
@_fault
@click.option("--acted", type=int, metavar="N", help="Until it has acted this many times.")
@click.option("--matched", type=int, metavar="N", help="Until it has matched this many times.")
@click.option("--held", type=int, metavar="N", help="Until it holds this many requests.")
@admin_option
@timeout_option
@json_option
def wait(
    fault: str, acted: int | None, matched: int | None, held: int | None, admin: str, timeout: float, as_json: bool
) -> int:
    """Wait until a rule has acted, or holds something."""
    from coordinator_testing.cli.control_shown import show_faults
    from coordinator_testing.control.blocking import Fault

    exactly_one(acted=acted, matched=matched, held=held)
    until = given({"acted": acted, "matched": matched, "held": held})

    def show(control: "Control") -> int:
        return show_faults([Fault(control, fault).wait(timeout_s=timeout, **until)], as_json)

    return with_control(admin, show)


@faults.command(epilog=examples("coordinator control faults release f2 --count 1"))
@_fault
@click.option("--count", type=int, metavar="N", help="At most this many, the oldest first.")
@admin_option
@json_option
def release(fault: str, count: int | None, admin: str, as_json: bool) -> int:
    """Release requests and answers that a rule holds."""
    from coordinator_testing.cli.control_shown import show_count
    from coordinator_testing.control.blocking import Fault

    return with_control(admin, lambda control: show_count("released", Fault(control, fault).release(count), as_json))


@faults.command(
    epilog=examples("coordinator control faults clear f1", "coordinator control faults clear --scope my-test")
)
@click.argument("fault", required=False)
@scope_option
@click.option("--all", "every", is_flag=True, default=None, help="The rules of every scope.")
@admin_option
@json_option
def clear(fault: str | None, scope: str | None, every: bool | None, admin: str, as_json: bool) -> int:
    """Remove a rule, the rules of a scope, or all rules, and release what they hold."""
    from coordinator_testing.cli.control_shown import show_count
    from coordinator_testing.control.blocking import Fault

    exactly_one(fault=fault, scope=scope, all=every)

    def show(control: "Control") -> int:
        if fault is None:
            return show_count("cleared", control.clear_faults(), as_json)
        Fault(control, fault).clear()
        return show_count("cleared", 1, as_json)

    return with_control(admin, show, scope)
