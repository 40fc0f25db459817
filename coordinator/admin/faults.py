"""Fault rules over HTTP: set, list, wait for, release and clear them (rules/; docs/control.md)."""

import re
from collections.abc import Callable, Container
from typing import Annotated

from msgspec import Meta, Struct, structs, to_builtins

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request, TimeoutMs
from coordinator.admin.fault_events import fault_events
from coordinator.admin.server_view import ServerView
from coordinator.rules.check import RefusedRule
from coordinator.rules.faults import RULES_MAX, Fault, Faults, TooManyRules
from coordinator.rules.model import Cleared, FaultList, FaultStatus, Released, ReleaseRequest, Rule

_COUNTS: dict[str, Callable[[Fault], int]] = {
    "acted": lambda fault: fault.acted,
    "matched": lambda fault: fault.matched,
    "held": lambda fault: len(fault.held),
}


class ScopeQuery(Struct, frozen=True):
    scope: Annotated[str, Meta(description="Only rules or recordings of this scope.")] | None = None


class ClearQuery(ScopeQuery, frozen=True):
    all: Annotated[bool, Meta(description="Those of every scope, and those without one.")] = False


def scope_to_clear(request: Request) -> str | None:
    """The scope to clear; None: everything. Raises RefusedRequest: 422 the query does not say which."""
    query: ClearQuery = request.query
    if (query.scope is None) is not query.all:
        raise RefusedRequest(422, "give scope=NAME, or all=true for the rules of every scope")
    return query.scope


class FaultQuery(Struct, frozen=True):
    until: (
        Annotated[str, Meta(pattern="^(acted|matched|held):[0-9]{1,9}$", description="acted:2, matched:2 or held:1.")]
        | None
    ) = None
    timeout_ms: TimeoutMs = 0


CHOSEN_ID = "Coordinator-Id"
"""The header by which whoever sets a rule or begins a recording chooses its id: the same one at several workers."""
ID_HEADER = {CHOSEN_ID: "The id that it gets, such as f7 or r7, if it is not in use; without it, the next one."}


def chosen_id(request: Request, letter: str, taken: Container[str]) -> str | None:
    """The id of the header; None: there is none. Raises RefusedRequest: 409 it is in use; 422 it is no id."""
    chosen = request.headers.get(CHOSEN_ID.lower())
    if chosen is None:
        return None
    if re.fullmatch(f"{letter}[0-9]{{1,15}}", chosen) is None:
        raise RefusedRequest(422, f"{CHOSEN_ID}: an id is {letter} and a number")
    if chosen in taken:
        raise RefusedRequest(409, f"{chosen} is in use")
    return chosen


def set_fault(server: ServerView, request: Request) -> FaultStatus:
    """Sets a rule. It acts on requests that arrive from now on."""
    faults = _faults(server)
    fault_id = chosen_id(request, "f", faults.by_id)
    try:
        return faults.add(request.body, fault_id).status
    except RefusedRule as error:
        raise RefusedRequest(422, error.text, error.allowed or None) from None
    except TooManyRules:
        raise RefusedRequest(409, f"there are {RULES_MAX} rules; clear some") from None


def list_faults(server: ServerView, request: Request) -> FaultList:
    """The rules of a scope, or all."""
    return FaultList([fault.status for fault in _faults(server).of_scope(request.query.scope)])


def clear_faults(server: ServerView, request: Request) -> Cleared:
    """Clears the rules of a scope, or all, and lets what they hold go on."""
    faults = _faults(server)
    return Cleared(faults.clear(faults.of_scope(scope_to_clear(request))))


async def view_fault(server: ServerView, request: Request) -> FaultStatus:
    """A rule, now or when it has acted, matched or held the given number of times, or is cleared."""
    faults, fault = _faults(server), _fault(server, request)
    until: str | None = request.query.until
    if until is None:
        return fault.status
    kind, _, number = until.partition(":")
    counted = _COUNTS[kind]

    def is_reached() -> bool:
        return counted(fault) >= int(number)

    await fault.changes.wait(lambda: is_reached() or fault.id not in faults.by_id, request.query.timeout_ms)
    return structs.replace(fault.status, reached=is_reached())


def clear_fault(server: ServerView, request: Request) -> Cleared:
    """Clears a rule, and lets what it holds go on."""
    return Cleared(_faults(server).clear([_fault(server, request)]))


def release_fault(server: ServerView, request: Request) -> Released:
    """Releases what the rule holds, the oldest first."""
    return Released(_fault(server, request).release(request.body.count))


def _faults(server: ServerView) -> Faults:
    """The rules of the server, whose actions are among its events."""
    faults, on_acted = server.interceptor.faults, fault_events(server).add
    if on_acted not in faults.subscribers:
        faults.subscribers.append(on_acted)
        of_worker = server.cluster_statistics
        if of_worker is not None:
            faults.subscribers.append(lambda acted: of_worker.on_fault_acted(to_builtins(acted)))
            faults.make_shared = of_worker.shared_count
    return faults


def _fault(server: ServerView, request: Request) -> Fault:
    fault_id = request.parameters["fault_id"]
    fault = _faults(server).by_id.get(fault_id)
    if fault is None:
        raise RefusedRequest(404, f"there is no fault {fault_id}: it never was, or is cleared")
    return fault


_FAULT = "/v1/faults/{fault_id}"
ENDPOINTS = (
    Endpoint(
        "POST", "/v1/faults", "set a fault rule", set_fault, name="createFault", body=Rule, returns=FaultStatus,
        refusals=(409, 422), headers=ID_HEADER, control=True, creates="/v1/faults/{id}",
    ),
    Endpoint(
        "GET", "/v1/faults", "list fault rules", list_faults, name="listFaults", query=ScopeQuery, returns=FaultList,
        control=True,
    ),
    Endpoint(
        "DELETE", "/v1/faults", "clear fault rules", clear_faults, name="clearFaults", query=ClearQuery,
        returns=Cleared, refusals=(422,), control=True,
    ),
    Endpoint(
        "GET", _FAULT, "get a fault rule; ?until= waits for it", view_fault, name="getFault", query=FaultQuery,
        returns=FaultStatus, refusals=(404,), control=True,
    ),
    Endpoint(
        "DELETE", _FAULT, "clear a fault rule", clear_fault, name="clearFault", returns=Cleared, refusals=(404,),
        control=True,
    ),
    Endpoint(
        "POST", f"{_FAULT}/release", "release what a fault rule holds", release_fault, name="releaseFault",
        body=ReleaseRequest, returns=Released, refusals=(404,), control=True,
    ),
)  # fmt: skip
