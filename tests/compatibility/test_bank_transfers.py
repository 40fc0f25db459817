"""Money moves between accounts in transactions of real clients while everything around them fails; none is lost or
created.

Workers read transfers, write two entries for each and commit their offsets, all in one transaction. In turn a worker is
killed, the server is killed, and a worker is stopped in the middle of a transaction until its group has continued
without it: a zombie, whose offsets are refused when it wakes up because it is no longer a member. In the end each
transfer has its two entries once, and the balances add up to zero.
"""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compatibility.bank_world import (
    CHUNK,
    GROUP,
    SETTINGS,
    TOPICS,
    TRANSFER_PARTITIONS,
    Bank,
    Worker,
    at_any_moment,
    java_program,
    kill_a_worker_and_the_server,
    make_a_zombie,
    python_program,
)
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

NO_SETTINGS: Mapping[str, str] = {}
REFUSED_AS_NO_MEMBER = {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH", "CommitFailedError"}


@pytest.fixture
def open_bank(coordinator_process: Callable[..., ServerProcess], tmp_path: Path) -> Iterator[Callable[..., Bank]]:
    with ExitStack() as stack:

        def open_bank(
            program: list[str], protocol: str, transaction_version: int, settings: Mapping[str, str] = NO_SETTINGS
        ) -> Bank:
            server = coordinator_process(settings=SETTINGS | {"transaction.version": transaction_version, **settings})
            with Connection(server.bootstrap) as link:
                topics = [{"name": name, "num_partitions": n, "replication_factor": 1} for name, n in TOPICS.items()]
                link.call("CreateTopics", 7, topics=topics, timeout_ms=10_000)
            bank = Bank(
                server, lambda name: [*program, server.bootstrap, GROUP, name, protocol, str(tmp_path / name)], tmp_path
            )
            stack.callback(bank.close)
            return bank

        yield open_bank


def in_mid_transaction(bank: Bank) -> Callable[[Worker], None]:
    def stop(worker: Worker) -> None:
        worker.process.send_signal(signal.SIGUSR1)
        while not worker.is_stopped:  # it may own nothing
            bank.order(CHUNK)
            bank.wait_until(
                lambda: worker.is_stopped or bank.done == 2 * len(bank.transfers), "the worker to stop in a transaction"
            )

    return stop


@pytest.mark.parametrize(
    ("protocol", "transaction_version"),
    [
        ("classic", 1),
        ("consumer", 2),
        *(pytest.param(*each, marks=pytest.mark.thorough) for each in (("classic", 2), ("consumer", 1))),
    ],
)
def test_the_sums_are_exact_with_librdkafka(
    open_bank: Callable[..., Bank], protocol: str, transaction_version: int
) -> None:
    """Killed workers, a killed server and a zombie change no balance; the zombie's commit is refused because it is no
    member.
    """
    bank = open_bank(python_program("confluent"), protocol, transaction_version)
    kill_a_worker_and_the_server(bank)
    zombie = make_a_zombie(bank, in_mid_transaction(bank))
    bank.wait_until(lambda: bool(zombie.refusals() & REFUSED_AS_NO_MEMBER), "the refusal of the zombie's commit")
    bank.wait_until_all_is_done()


def test_the_sums_are_exact_with_kafka_python(open_bank: Callable[..., Bank]) -> None:
    """The same with another library.

    A consumer of kafka-python that lost its membership names no member when it commits in a transaction, and Kafka accepts
    such commits. `fencing.require.member` refuses them; without it transfers are sometimes processed twice.
    """
    bank = open_bank(python_program("kafka_python"), "classic", 2, {"fencing.require.member": "true"})
    kill_a_worker_and_the_server(bank)
    zombie = make_a_zombie(bank, in_mid_transaction(bank))
    bank.wait_until(lambda: bool(zombie.refusals()) or not zombie.alive, "the refusal of the zombie's commit")
    bank.wait_until_all_is_done()


@pytest.mark.java
@pytest.mark.parametrize(
    ("protocol", "transaction_version"), [pytest.param("classic", 1, marks=pytest.mark.thorough), ("consumer", 2)]
)
def test_the_sums_are_exact_with_the_java_client(
    open_bank: Callable[..., Bank],
    protocol: str,
    transaction_version: int,
) -> None:
    """The same with Kafka's own client, which under transaction.version 2 adds its partitions implicitly (KIP-890)."""
    bank = open_bank(java_program("BankWorker"), protocol, transaction_version)
    kill_a_worker_and_the_server(bank)
    make_a_zombie(bank, at_any_moment(bank))


@pytest.mark.java
@pytest.mark.parametrize(
    ("protocol", "transaction_version"),
    [pytest.param(*each, marks=pytest.mark.thorough) for each in (("classic", 1), ("classic", 2), ("streams", 2))],
)
def test_the_sums_are_exact_with_kafka_streams(
    open_bank: Callable[..., Bank], protocol: str, transaction_version: int
) -> None:
    """The same with Kafka Streams and exactly_once_v2; the balances in its state store are correct, too."""
    bank = open_bank(java_program("BankStreams"), protocol, transaction_version)
    bank.wait_until_all_work()
    kill_a_worker_and_the_server(bank)
    bank.wait_until_all_work()
    make_a_zombie(bank, at_any_moment(bank))
    bank.wait_until_the_balances_are_right()
    with Connection(bank.server.bootstrap) as link:
        (group,) = (each for each in link.call("ListGroups", 5)["groups"] if each["group_id"] == GROUP)
        assert group["group_type"] == protocol
        if protocol == "streams":
            bank.wait_until(lambda: _is_settled(link), "every task to have its owner and its copy")


def _is_settled(link: Connection) -> bool:
    """Whether each task of the application is active in one place, and stateful ones have a standby in another."""
    (group,) = link.call("StreamsGroupDescribe", 1, group_ids=[GROUP])["groups"]
    held: dict[str, list[tuple[str, int, str]]] = {"active_tasks": [], "standby_tasks": []}
    for member in group["members"]:
        for kind, tasks in held.items():
            tasks += [
                (each["subtopology_id"], number, member["process_id"])
                for each in member["assignment"][kind]
                for number in each["partitions"]
            ]
    every = [(part, number) for part in ("0", "1") for number in range(TRANSFER_PARTITIONS)]
    assert len({*held["active_tasks"], *held["standby_tasks"]}) == sum(map(len, held.values())), "twice in a process"
    return (
        group["group_state"] == "Stable"
        and sorted(task[:2] for task in held["active_tasks"]) == every
        and sorted(task[:2] for task in held["standby_tasks"]) == [task for task in every if task[0] == "1"]
    )
