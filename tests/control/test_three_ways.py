"""The same test over HTTP, in Python (blocking and asyncio) and on the command line: each way in leads to the same core."""

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pytest

from coordinator import cli
from coordinator_testing.control import AsyncControl, Control
from coordinator_testing.control.asynchronous import AsyncFault
from coordinator_testing.control.blocking import Fault

WITHIN_S = 60


class Interface(Protocol):
    """What the test does, one way."""

    def wait_until_stable(self, group: str, epoch: int) -> None: ...
    def refuse_heartbeats(self, group: str, times: int) -> str: ...
    def wait_until_acted(self, fault: str, times: int) -> dict[str, int]: ...
    def listed(self) -> list[tuple[str, str | None, int]]: ...
    def clear(self) -> int: ...


def row(fault: Any) -> tuple[str, str | None, int]:
    """Id, error and how often it acted, of a status as JSON."""
    return fault["id"], fault["rule"]["action"].get("error"), fault["acted"]


class Http:
    """As curl does."""

    def __init__(self, admin: str, scope: str, capsys: Any) -> None:
        self.admin, self.scope = admin, scope

    def send(self, method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.admin + path, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=WITHIN_S + 10) as answer:
            return json.load(answer)

    def wait_until_stable(self, group: str, epoch: int) -> None:
        until = f"until=state:Stable,members:1,epoch:{epoch}&timeout_ms={WITHIN_S * 1000}"
        assert self.send("GET", f"/v1/groups/{group}?{until}")["reached"]

    def refuse_heartbeats(self, group: str, times: int) -> str:
        rule = {
            "match": {"api": "Heartbeat", "group": group},
            "action": {"error": "ILLEGAL_GENERATION"},
            "extent": {"times": times},
            "scope": self.scope,
        }
        return self.send("POST", "/v1/faults", rule)["id"]

    def wait_until_acted(self, fault: str, times: int) -> dict[str, int]:
        found = self.send("GET", f"/v1/faults/{fault}?until=acted:{times}&timeout_ms={WITHIN_S * 1000}")
        assert found["reached"]
        return found

    def listed(self) -> list[tuple[str, str | None, int]]:
        return [row(each) for each in self.send("GET", f"/v1/faults?scope={self.scope}")["faults"]]

    def clear(self) -> int:
        return self.send("DELETE", f"/v1/faults?scope={self.scope}")["cleared"]


class Python:
    """With `Control`."""

    def __init__(self, admin: str, scope: str, capsys: Any) -> None:
        self.admin, self.scope = admin, scope

    @contextmanager
    def control(self) -> Iterator[Control]:
        control = Control(self.admin, self.scope)
        yield control
        control.disconnect()

    def wait_until_stable(self, group: str, epoch: int) -> None:
        with self.control() as control:
            control.group(group).wait(state="Stable", members=1, epoch=epoch, timeout_s=WITHIN_S)

    def refuse_heartbeats(self, group: str, times: int) -> str:
        with self.control() as control:
            return control.fault(api="Heartbeat", group=group, error="ILLEGAL_GENERATION", times=times).id

    def wait_until_acted(self, fault: str, times: int) -> dict[str, int]:
        with self.control() as control:
            found = Fault(control, fault).wait(acted=times, timeout_s=WITHIN_S)
        return {"acted": found.acted, "active": found.active}

    def listed(self) -> list[tuple[str, str | None, int]]:
        with self.control() as control:
            return [(each.id, each.rule.action.error, each.acted) for each in control.faults()]

    def clear(self) -> int:
        with self.control() as control:
            return control.clear_faults()


class Asyncio:
    """With `AsyncControl`."""

    def __init__(self, admin: str, scope: str, capsys: Any) -> None:
        self.admin, self.scope = admin, scope

    def run(self, do: Any) -> Any:
        async def main() -> Any:
            control = AsyncControl(self.admin, self.scope)
            try:
                return await do(control)
            finally:
                await control.disconnect()

        return asyncio.run(main())

    def wait_until_stable(self, group: str, epoch: int) -> None:
        self.run(lambda control: control.group(group).wait(state="Stable", members=1, epoch=epoch, timeout_s=WITHIN_S))

    def refuse_heartbeats(self, group: str, times: int) -> str:
        rule = {"api": "Heartbeat", "group": group, "error": "ILLEGAL_GENERATION", "times": times}
        return self.run(lambda control: control.fault(**rule)).id

    def wait_until_acted(self, fault: str, times: int) -> dict[str, int]:
        found = self.run(lambda control: AsyncFault(control, fault).wait(acted=times, timeout_s=WITHIN_S))
        return {"acted": found.acted, "active": found.active}

    def listed(self) -> list[tuple[str, str | None, int]]:
        return [(each.id, each.rule.action.error, each.acted) for each in self.run(lambda control: control.faults())]

    def clear(self) -> int:
        return self.run(lambda control: control.clear_faults())


class CommandLine:
    """With `coordinator control`."""

    def __init__(self, admin: str, scope: str, capsys: Any) -> None:
        self.admin, self.scope, self.capsys = admin, scope, capsys

    def run(self, *words: str) -> Any:
        code = cli.main(["control", *words, "--admin", self.admin, "--json"])
        printed = self.capsys.readouterr()
        assert code == 0, printed.err
        return json.loads(printed.out)

    def wait_until_stable(self, group: str, epoch: int) -> None:
        wanted = ("--state", "Stable", "--members", "1", "--epoch", str(epoch), "--timeout", str(WITHIN_S))
        self.run("groups", "wait", group, *wanted)

    def refuse_heartbeats(self, group: str, times: int) -> str:
        rule = ("--api", "Heartbeat", "--group", group, "--error", "ILLEGAL_GENERATION", "--times", str(times))
        [fault] = self.run("faults", "add", *rule, "--scope", self.scope)["faults"]
        return fault["id"]

    def wait_until_acted(self, fault: str, times: int) -> dict[str, int]:
        [found] = self.run("faults", "wait", fault, "--acted", str(times), "--timeout", str(WITHIN_S))["faults"]
        return found

    def listed(self) -> list[tuple[str, str | None, int]]:
        return [row(each) for each in self.run("faults", "list", "--scope", self.scope)["faults"]]

    def clear(self) -> int:
        return self.run("faults", "clear", "--scope", self.scope)["cleared"]


@pytest.mark.parametrize("how", [Http, Python, Asyncio, CommandLine])
def test_a_fault_is_set_acts_on_a_real_client_is_listed_and_cleared(how: type[Interface], server, join, fresh, capsys):
    way, group = how(server.admin, fresh("scope"), capsys), fresh("group")
    join(group)
    way.wait_until_stable(group, epoch=1)
    fault = way.refuse_heartbeats(group, times=2)
    acted = way.wait_until_acted(fault, 2)
    assert (acted["acted"], acted["active"]) == (2, False)
    way.wait_until_stable(group, epoch=2)  # 3 if the client had joined again before the second refusal
    assert way.listed() == [(fault, "ILLEGAL_GENERATION", 2)]
    assert way.clear() == 1
    assert way.listed() == []
