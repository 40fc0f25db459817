"""`serve --workers N`: real clients over the processes of one data folder."""

import json
import os
import shutil
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli import main
from tests.support.tls import certificates
from tests.support.waiting import wait_until

pytest.importorskip("confluent_kafka")

from tests.cluster.supervisor.world import PARTITIONS, SHARDS, TOPIC, Committer, Machine, Transactor, committed_numbers


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.server.stop()


@pytest.fixture
def committing(machine: Machine) -> Iterator[list[Committer]]:
    """Groups that commit all the time, once a test has started them."""
    committers: list[Committer] = []
    yield committers
    for committer in committers:
        committer.stop()


GROUPS = [f"group-{number}" for number in range(8)]


def check_folder(machine: Machine) -> None:
    assert main(["log", "check", str(machine.server.data_dir)]) == 0


def assert_nothing_lost(machine: Machine, committing: list[Committer]) -> None:
    for each in committing:
        acknowledged = each.acknowledged
        assert machine.committed(each.group) >= acknowledged > 0, each.group


def test_groups_are_on_all_workers_and_topics_on_the_first(machine):
    server = machine.serve(3)
    assert set(server.ready) == {"ready", "bootstrap", "admin", "pid", "startup_ms", "workers"}
    machine.create()
    nodes = machine.nodes()
    assert sorted(nodes) == [1, 2, 3]
    assert server.bootstrap not in nodes.values()
    assert machine.leaders(TOPIC) == [1] * PARTITIONS

    def spread() -> list[int]:
        leaders = machine.leaders("__consumer_offsets")
        return [leaders.count(node) for node in (1, 2, 3)]

    # Workers that a busy machine starts one after another move shards first.
    wait_until(lambda: spread() == [SHARDS // 3] * 3, lambda: f"an even spread: {spread()}")
    producer = machine.producer()
    for number in range(40):
        producer.produce(TOPIC, str(number), partition=number % PARTITIONS)
    assert producer.flush(20) == 0
    consumers = [machine.consumer(group) for group in GROUPS]
    for consumer in consumers:
        consumer.subscribe([TOPIC])
    for consumer in consumers:
        assert len({message.value() for message in consumer.consume(40, timeout=30)}) == 40
        consumer.commit(asynchronous=False)
        consumer.close()
    assert server.terminate() == 0
    check_folder(machine)


def test_one_process_and_several_workers_serve_a_folder_in_turn(machine):
    machine.serve(0)
    machine.create()
    stopped = []
    for turn, workers in enumerate((3, 2, 0)):
        committing = [Committer(machine, f"{group}-{turn}") for group in GROUPS[:3]]
        for committer in committing:
            committer.go_on(5)
            committer.stop()
        stopped += committing
        assert machine.server.terminate() == 0
        check_folder(machine)
        machine.serve(workers)
        assert_nothing_lost(machine, stopped)


@pytest.mark.parametrize("killed", [0, 1])
def test_a_worker_that_is_killed_loses_nothing_and_is_started_again(machine, committing, killed):
    machine.serve(3)
    machine.create()
    committing += [Committer(machine, group) for group in GROUPS]
    for committer in committing:
        committer.go_on()
    machine.kill_worker(killed)
    for committer in committing:
        committer.go_on()
    wait_until(lambda: len(machine.nodes()) == 3)
    assert_nothing_lost(machine, committing)
    assert machine.server.log.count("event=worker_ended") == 1


@pytest.mark.parametrize("killed", ["data worker", "another worker"])
def test_transactions_are_whole_whichever_worker_is_killed(machine, killed):
    """Each committed one has its record, once, and its offset (TxnOffsetCommit); none that was not committed is visible."""
    machine.serve(3)
    machine.create()
    transactors = [Transactor(machine, f"transactor-{number}", commits_offsets=True) for number in range(3)]
    try:
        for transactor in transactors:
            transactor.go_on()
        machine.kill_worker(0 if killed == "data worker" else 2)
        for transactor in transactors:
            transactor.go_on()
    finally:
        for transactor in transactors:
            transactor.stop()
    found = committed_numbers(machine, [transactor.name for transactor in transactors])
    for transactor in transactors:
        numbers = found[transactor.name]
        assert numbers == sorted(set(numbers)), "a record is there twice, or in another order"
        assert set(transactor.acknowledged) <= set(numbers) <= set(transactor.attempted)
        assert machine.committed(transactor.name) == numbers[-1]


def test_an_event_log_that_fails_keeps_no_shard_from_being_served(machine, committing):
    """Its events are lost, which the health check reports; those of other shards are recorded."""
    server = machine.serve(2)
    assert server.terminate() == 0
    folder = server.data_dir / "__coordinator_events-0"
    shutil.rmtree(folder)
    folder.write_bytes(b"")
    machine.serve(2)
    machine.create()
    committing += [Committer(machine, group) for group in GROUPS]
    for committer in committing:
        committer.go_on(3)
        committer.stop()

    def ready() -> str:
        with urllib.request.urlopen(f"{server.admin}/health/ready", timeout=20) as answer:
            return answer.read().decode()

    (lost,) = json.loads(ready())["events_lost"]
    assert "shard 0: the event log cannot be opened" in lost
    with urllib.request.urlopen(f"{server.admin}/v1/groups?limit=100", timeout=20) as answer:
        assert len(json.load(answer)["groups"]) == len(GROUPS)
    assert_nothing_lost(machine, committing)
    assert server.log.count("event=event_log_failed") <= 2, "the shard is not taken again and again"


def test_nothing_acknowledged_is_lost_when_everything_is_killed(machine, committing):
    machine.serve(3)
    machine.create()
    committing += [Committer(machine, group) for group in GROUPS]
    for committer in committing:
        committer.go_on()
    machine.kill_all()
    machine.serve(2)
    for committer in committing:
        committer.go_on()
    assert_nothing_lost(machine, committing)


def test_workers_end_when_their_supervisor_is_killed(machine, committing):
    machine.serve(2)
    machine.create()
    committing += [Committer(machine, group) for group in GROUPS[:2]]
    for committer in committing:
        committer.go_on()
    pids = machine.workers
    machine.server.kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    machine.serve(0)
    for committer in committing:
        committer.go_on()
    assert_nothing_lost(machine, committing)


def test_a_worker_that_hangs_is_fenced_and_then_killed(machine, committing):
    machine.server.settings["journal.beat.timeout.ms"] = 1_500
    machine.serve(2)
    machine.create()
    committing += [Committer(machine, group) for group in GROUPS]
    for committer in committing:
        committer.go_on()
    os.kill(machine.workers[1], signal.SIGSTOP)
    wait_until(lambda: 'reason="it does not beat"' in machine.server.log)
    for committer in committing:
        committer.go_on()
    wait_until(lambda: len(machine.nodes()) == 2)
    assert_nothing_lost(machine, committing)


def test_clients_with_credentials_reach_every_worker(tmp_path):
    """Metadata names the ports of the listener that the client uses; workers ask each other at another one."""
    (tmp_path / "users").write_text("alice:right\n")
    pem = certificates(tmp_path)
    (tmp_path / "both.pem").write_text(pem.key.read_text() + pem.certificate.read_text())
    machine = Machine(
        tmp_path,
        **{
            "listeners": "SASL_SSL://127.0.0.1:0,INNER://127.0.0.1:0",
            "listener.security.protocol.map": "INNER:PLAINTEXT",
            "inter.broker.listener.name": "inner",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.users.file": str(tmp_path / "users"),
            "ssl.keystore.location": str(tmp_path / "both.pem"),
        },
    )
    machine.access = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "right",
        "ssl.ca.location": str(pem.ca),
    }
    try:
        machine.serve(3)
        machine.create()
        transactors = [Transactor(machine, f"transactor-{number}", commits_offsets=True) for number in range(4)]
        for transactor in transactors:
            transactor.go_on(2)
            transactor.stop()
        for transactor in transactors:
            assert machine.committed(transactor.name) == transactor.acknowledged[-1]
    finally:
        machine.server.stop()


def test_admin_http_answers_for_all_workers(machine):
    server = machine.serve(2)
    machine.create()
    committers = [Committer(machine, group) for group in GROUPS]
    for committer in committers:
        committer.go_on(3)
        committer.stop()

    def get(path: str) -> str:
        with urllib.request.urlopen(f"{server.admin}{path}", timeout=20) as answer:
            return answer.read().decode()

    assert json.loads(get("/health/ready"))["status"] == "ready"
    metrics = get("/metrics")
    owned = [line for line in metrics.splitlines() if line.startswith("coordinator_shard_owned{")]
    assert sum(float(line.rpartition(" ")[2]) for line in owned) == 2 * SHARDS + 1, "groups, transactions, share states"
    assert metrics.count("# TYPE coordinator_shard_owned ") == 1
    assert 'coordinator_worker_restarts_total{worker="1"} 0' in metrics
    began = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--workers", "0"], "0 is not in the range"),
        (["--workers", "51"], "allowed: at most 50, the smaller one of offsets.topic.num.partitions"),
        (["--workers", "2", "--journal", "postgresql://db/x"], "workers and journal"),
        (
            ["--workers", "2", "--set", "data.plane=none", "--set", "data.bootstrap.servers=kafka:9092"],
            "workers and data.bootstrap.servers: several workers in front of a cluster share a journal; remove workers",
        ),
    ],
)
def test_what_several_workers_cannot_be_is_refused(tmp_path, capsys, arguments, reason):
    assert main(["serve", "--data-dir", str(tmp_path / "data"), *arguments]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "data").exists()


def test_commands_show_and_reset_groups_whose_partitions_no_worker_leads(tmp_path, capsys):
    machine = Machine(tmp_path, **{"data.plane": "none"})
    server = machine.serve(2)
    try:
        machine.create(partitions=2)
        committer = Committer(machine, "g")
        committer.go_on(5)
        committer.stop()

        def run(*arguments: str) -> tuple[int, str]:
            status = main(["groups", *arguments, "--bootstrap", server.bootstrap])
            printed = capsys.readouterr()
            return status, printed.out + printed.err

        def shown() -> list[dict[str, object]]:
            status, printed = run("offsets", "g", "--json")
            assert status == 0, printed
            return json.loads(printed)["offsets"]

        (row,) = shown()
        assert (row["offset"], row["end"], row["lag"]) == (committer.acknowledged, None, None)
        assert run("describe", "g")[0] == 0
        assert run("reset-offsets", "g", "--topic", TOPIC, "--to-offset", "3", "--execute")[0] == 0
        assert run("reset-offsets", "g", "--topic", f"{TOPIC}:0", "--shift-by", "-1", "--execute")[0] == 0
        assert [row["offset"] for row in shown()] == [2, 3]
        assert run("reset-offsets", "g", "--all-topics", "--to-earliest") == (
            1,
            f"coordinator: {TOPIC}-0 has no leader at the moment\n",
        )
    finally:
        server.stop()
