"""A listener with SASL says what Kafka 4.4's says, to clients that do it right and to all others.

Kafka's answers are kept in kafka_4_4_sasl_answers.json. `pytest tests/security --rewrite` records them again from a live Kafka.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.security import sasl_servers
from tests.security.sasl_dialogs import DIALOGS, heard

RECORDED = Path(__file__).with_name("kafka_4_4_sasl_answers.json")

_CLOSES = "the connection closes; Kafka decodes the request and answers ILLEGAL_SASL_STATE before it closes"
_UNKNOWN = "an unknown user is refused at the second message, as a wrong password is"
_STRICT = "the library refuses what Kafka lets pass"
DIFFERENCES = {
    "versions between handshake and token": _CLOSES,
    "handshakes with two mechanisms": _CLOSES,
    "metadata instead of a token": _CLOSES,
    "refused token and another request": _CLOSES,
    "asks in the middle of authenticating again": _CLOSES,
    "SCRAM-SHA-256: unknown user": _UNKNOWN,
    "SCRAM-SHA-512: unknown user": _UNKNOWN,
    "SCRAM final: short proof": "an error is answered; Kafka closes the connection",
    "SCRAM final: an extension": _STRICT,
    "SCRAM first: as itself": "an authorization id is refused, also the user's own",
    "SCRAM first: as another": "the text is the common one",
    "SCRAM first: with a mandatory extension": f"{_STRICT}; RFC 5802 wants it refused",
    "SCRAM first: without a binding that it could use": "accepted, as RFC 5802 wants it; Kafka refuses it",
    "OAUTHBEARER: without a subject": "refused; Kafka's unsecured mode accepts it",
    "OAUTHBEARER: another scheme": "an error is answered; Kafka closes the connection",
    "authenticates again with another mechanism": "an error is answered; Kafka closes the connection",
    "authenticates again with an unknown mechanism": "an error is answered; Kafka closes the connection",
}


def answers(server: Any) -> dict[str, list[Any]]:
    try:
        server.start()
        sasl_servers.add_carol(server.bootstrap)
        return heard(server.bootstrap)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return json.loads(RECORDED.read_text())


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return answers(sasl_servers.ours(tmp_path_factory.mktemp("ours")))


@pytest.mark.parametrize("name", DIALOGS)
def test_a_client_hears_what_kafka_says(name, ours, recorded):
    if name in DIFFERENCES:
        assert ours[name] != recorded[name], "listed as a difference"
    else:
        assert ours[name] == recorded[name]


@pytest.mark.thorough
@pytest.mark.java
def test_kafka_answers_as_recorded(tmp_path: Path, request: pytest.FixtureRequest):
    found = answers(sasl_servers.kafka(tmp_path))
    if request.config.getoption("--rewrite"):
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in found.items())
        RECORDED.write_text(f"{{\n{lines}\n}}\n")
    assert found == json.loads(RECORDED.read_text())
