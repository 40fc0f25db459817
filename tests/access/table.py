"""The table: what each user gets for each request, as a server answers or as Kafka was recorded to answer.

A row of the matrix is one request, asked by users of whom each may do one thing only, or everything but one thing. A case is a
request about several resources, by a user with the rules of that case.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from string import ascii_letters
from typing import Any

from coordinator import requests
from coordinator.api.declaration import supported_apis
from tests.access import furnish
from tests.access.asked import Asked
from tests.access.cases import CASES, OPEN_CASES, OWNED, Case
from tests.access.probes import PROBES, Ask
from tests.access.rules import OPERATIONS, TYPES
from tests.support.wire import ConnectionClosed, Values

RECORDED = Path(__file__).with_name("kafka_4_4_answers.json")
SUPPORTED = {
    "topic": ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    "group": ("READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    "cluster": (
        "CREATE",
        "DELETE",
        "ALTER",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
    ),
    "txn": ("WRITE", "DESCRIBE"),
    "token": ("DESCRIBE",),
    "user": ("CREATE_TOKENS", "DESCRIBE_TOKENS"),
}
"""The operations of each type of resource (Kafka: `AclEntry.supportedOperations`)."""


def _all(resource_type: str) -> str:
    return "cluster" if resource_type == "cluster" else f"{resource_type}:*"


def single_permissions() -> Iterator[tuple[str, str, str]]:
    """Each operation on each type of resource, and the end of the names of its users."""
    for resource_type, operations in SUPPORTED.items():
        for operation in operations:
            yield operation, resource_type, f"{operation}-{resource_type}".lower().replace("_", "-")


def matrix_users() -> dict[str, str]:
    """The users of the matrix, with their rules."""
    everything = "; ".join(f"ALL {_all(each)}" for each in TYPES)
    users = {furnish.ROOT: "", "nothing": "", "everything": everything}
    for operation, resource_type, name in single_permissions():
        users[f"only-{name}"] = f"{operation} {_all(resource_type)}"
        users[f"but-{name}"] = f"{everything}; !{operation} {_all(resource_type)}"
    return users


assert set(OPERATIONS) >= {each for operations in SUPPORTED.values() for each in operations}
EVERYBODY = "READ topic:public"
"""The rules of User:*."""


def users() -> dict[str, str]:
    """All users with their rules."""
    return matrix_users() | {case.user: case.rules for case in CASES}


def open_users() -> dict[str, str]:
    """Those of a server with allow.everyone.if.no.acl.found."""
    return {furnish.ROOT: "", "owner": OWNED} | {case.user: case.rules for case in OPEN_CASES}


def row_name(api: str, version: int, special: str) -> str:
    return f"{api} v{version} {special}".strip()


def said(client: Asked, api: str, version: int, values: Values) -> Values | str:
    try:
        return client.ask(api, version, values)
    except TimeoutError:
        return "no answer"
    except ConnectionClosed:
        return "closed"


def ask_matrix(bootstrap: str, names: dict[bytes, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row, with the answers by user."""
    with ExitStack() as stack:

        def connected(user: str) -> Asked:
            return stack.enter_context(closing(Asked(bootstrap, user, names)))

        clients = {user: connected(user) for user in matrix_users()}
        for (api, version, special), values in PROBES.items():
            found = {user: said(client, api, version, values(user)) for user, client in clients.items()}
            clients |= {user: connected(user) for user, answer in found.items() if isinstance(answer, str)}
            yield row_name(api, version, special), found


SHAPES = {
    ("AddPartitionsToTxn", 5): 4,
    ("Fetch", 17): 13,
    ("FindCoordinator", 6): 4,
    ("LeaveGroup", 5): 3,
}
"""The first version of the shape that the request of this version has, if it is not the first itself."""


IN_ALL_VERSIONS: dict[str, Ask] = {
    "CreateDelegationToken": lambda _: {"max_lifetime_ms": 600_000},
    "DescribeGroups": lambda _: {"groups": ["classic"]},
    "ListConfigResources": lambda _: {},
    "Metadata": lambda _: {"topics": [{"name": "mine"}]},
}
"""Requests without fields that only some versions have."""


def each_version() -> Iterator[tuple[str, int, Ask]]:
    """A request of each API in each of its versions."""
    for api in supported_apis(requests).values():
        shapes = sorted(
            (SHAPES.get((name, version), version), special, ask)
            for (name, version, special), ask in PROBES.items()
            if name == api.name
        )
        if api.name in IN_ALL_VERSIONS:
            shapes = [(0, "", IN_ALL_VERSIONS[api.name])]
        for version in range(api.versions[0], api.versions[1] + 1) if shapes else ():
            fitting = [shape for shape in shapes if shape[0] <= version]
            yield api.name, version, (fitting[-1] if fitting else shapes[0])[2]


def ask_versions(bootstrap: str, names: dict[bytes, str]) -> Iterator[tuple[str, Any]]:
    """Each version of each API, with the answer to a user without permissions."""
    for api, version, ask in each_version():
        with closing(Asked(bootstrap, "nothing", names)) as client:
            yield row_name(api, version, ""), said(client, api, version, ask("nothing"))


def ask_cases(cases: Iterable[Case], bootstrap: str, names: dict[bytes, str]) -> Iterator[tuple[str, Any]]:
    """Each case, with its answer."""
    for case in cases:
        with closing(Asked(bootstrap, case.user, names)) as client:
            yield case.name, said(client, case.api, case.version, case.ask(case.user))


def short(answers: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the matrix as it is kept: the different answers, each with a letter, and a letter for each user."""
    letters: dict[str, str] = {}
    row = ""
    for user in matrix_users():
        text = json.dumps(answers[user])
        row += letters.setdefault(text, ascii_letters[len(letters)])
    return {"users": row} | {letter: json.loads(text) for text, letter in letters.items()}


def long(row: Mapping[str, Any]) -> dict[str, Any]:
    """The answers by user of a row that was kept."""
    return dict(zip(matrix_users(), (row[letter] for letter in row["users"]), strict=True))


def answers(bootstrap: str) -> dict[str, Any]:
    """What a new server answers, as it is kept."""
    with closing(Asked(bootstrap, furnish.ROOT, {})) as root:
        furnish.furnish(root, users() | {"*": EVERYBODY}, [f"doomed-{user}" for user in users()])
        matrix = {name: short(row) for name, row in ask_matrix(bootstrap, root.names)}
        cases = dict(ask_cases(CASES, bootstrap, root.names))
        return {"matrix": matrix, "cases": cases, "versions": dict(ask_versions(bootstrap, root.names))}


def open_answers(bootstrap: str) -> dict[str, Any]:
    """What a new server with allow.everyone.if.no.acl.found answers."""
    with closing(Asked(bootstrap, furnish.ROOT, {})) as root:
        furnish.furnish(root, open_users(), [])
        return {"open": dict(ask_cases(OPEN_CASES, bootstrap, root.names))}


def read() -> dict[str, Any]:
    return json.loads(RECORDED.read_text())


def write(recorded: Mapping[str, Any]) -> None:
    """One line for each row and case."""

    def lines(table: Mapping[str, Any]) -> str:
        return ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in table.items())

    parts = (f"{json.dumps(part)}: {{\n{lines(table)}\n}}" for part, table in recorded.items())
    RECORDED.write_text("{\n" + ",\n".join(parts) + "\n}\n")
