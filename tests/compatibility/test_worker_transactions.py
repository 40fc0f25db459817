"""Transactions of real clients over three workers and PostgreSQL, while workers are killed and stopped.

The workers have no records of topics, so the transactions commit offsets only, as those of a consume-process-produce loop do
beside their records.
"""

import json
import time

import pytest

from tests.compatibility.three_workers import create, disturb, is_spread, three_workers
from tests.compatibility.transaction_programs import OffsetReader, Transactions, check, confluent, java_command
from tests.support.tls import certificates
from tests.support.waiting import wait_until

pytest.importorskip("asyncpg")

DEBUG = {"debug": "eos,broker,protocol", "log_level": 7}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def run(workers, programs: list[Transactions], faults: tuple[str, ...], security: dict[str, str]) -> None:
    """Disturbs the workers one after another, and checks what clients see."""
    bootstrap = ",".join(worker.bootstrap for worker in workers)
    readers = [OffsetReader(bootstrap, program.group, program.topic, security) for program in programs]
    try:
        for worker, fault in zip(workers, ("", *faults), strict=False):
            began = time.time()
            if fault:
                print(fault, disturb(workers, worker, fault))
            for program in programs:
                program.mark()
            for program in programs:
                wait_until(program.goes_on, lambda program=program, began=began: program.trouble(workers, began))
        for program in programs:
            program.end()
    finally:
        for program in programs:
            program.kill()
        for reader in readers:
            reader.end()
    for program, reader in zip(programs, readers, strict=True):
        check(program, reader.read)
        print(program.said(), f"{len(reader.read)} reads")


@pytest.mark.java
@pytest.mark.timeout(300)
def test_transactions_are_all_or_nothing_while_workers_die(tmp_path, database, fresh):
    """Those of the Java client and of librdkafka, whose coordinator and group are at any worker."""
    with three_workers(tmp_path, database, fresh("cluster")) as workers:
        bootstrap = ",".join(worker.bootstrap for worker in workers)
        topic = fresh("topic")
        create(bootstrap, topic)
        wait_until(lambda: is_spread(workers), "an even spread")
        programs = [Transactions(java_command(), bootstrap, fresh("java"), topic)]
        groups = [fresh(f"confluent-{number}") for number in range(2)]
        programs += [Transactions(confluent(), bootstrap, group, topic, json.dumps(DEBUG)) for group in groups]
        run(workers, programs, ("kill", "stop"), {})


@pytest.mark.timeout(300)
def test_transactions_span_workers_whose_listener_has_tls_and_scram(tmp_path, database, fresh):
    """Workers ask each other at that listener, as a user who may do what brokers may."""
    pem = certificates(tmp_path)
    (tmp_path / "keystore.pem").write_text(pem.key.read_text() + pem.certificate.read_text())
    (tmp_path / "users").write_text("worker:worker-secret\nclient:client-secret\n")
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.keystore.location": str(tmp_path / "keystore.pem"),
        "ssl.truststore.location": str(pem.ca),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.users.file": str(tmp_path / "users"),
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config":
            f'{SCRAM} required username="worker" password="worker-secret";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:worker;User:client",
    }  # fmt: skip
    security = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(pem.ca),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "client",
        "sasl.password": "client-secret",
    }
    with three_workers(tmp_path, database, fresh("cluster"), settings) as workers:
        bootstrap = ",".join(worker.bootstrap for worker in workers)
        topic = fresh("topic")
        create(bootstrap, topic, security)
        wait_until(lambda: is_spread(workers), "an even spread")
        groups = [fresh(f"group-{number}") for number in range(2)]
        client = json.dumps(security | DEBUG)
        programs = [Transactions(confluent(), bootstrap, group, topic, client) for group in groups]
        run(workers, programs, ("kill",), security)
