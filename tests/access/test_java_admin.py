"""What Java's Admin does with ACLs and users has the outcomes that it has with Kafka 4.4.

Kafka's are kept in kafka_4_4_java_admin.txt. `pytest tests/access --rewrite` records them again, from a live Kafka.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.access import servers
from tests.access.asked import PASSWORD
from tests.access.furnish import ROOT
from tests.support.java_support import KAFKA_VERSION, compile_java, kafka_classpath, run_java

HERE = Path(__file__).parent
RECORDED = HERE / "kafka_4_4_java_admin.txt"
SECURITY = "org.apache.kafka.common.security"
USERS = {ROOT: ("PLAIN", PASSWORD), "alice": ("PLAIN", PASSWORD), "carol": ("SCRAM-SHA-256", "right")}
SETTINGS = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}
SCRAM = {"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;"}


def outcomes(server: Any, folder: Path) -> str:
    """The program's output against a server that is started for it."""
    classpath = kafka_classpath((f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}", "org.slf4j:slf4j-nop:1.7.36"))
    try:
        server.start()
        files = []
        for user, (mechanism, password) in USERS.items():
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            path = folder / f"{user}.properties"
            path.write_text(
                f"bootstrap.servers={server.bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
                f'sasl.jaas.config={SECURITY}.{module} required username="{user}" password="{password}";\n'
            )
            files.append(str(path))
        done = run_java(compile_java(HERE / "AccessCalls.java", classpath), "AccessCalls", *files)
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.java
def test_the_calls_of_javas_admin_have_kafkas_outcomes(tmp_path: Path, request: pytest.FixtureRequest):
    if request.config.getoption("--rewrite"):
        own = tmp_path / "kafka"
        own.mkdir()
        RECORDED.write_text(outcomes(servers.kafka(own, USERS, SETTINGS | SCRAM), own))
    assert outcomes(servers.ours(tmp_path, USERS, SETTINGS), tmp_path) == RECORDED.read_text()
