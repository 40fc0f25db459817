"""Three real brokers of Apache Kafka for tests, each with three replicas of everything.

They are controllers, too, so any one of them may be killed or paused. Heaps are small, and a broker that is gone is noticed
within seconds, because tests wait for that.
"""

import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Self

from tests.support.cuttable_proxy import CuttableProxy
from tests.support.java_support import archive_to_make, kafka_classpath
from tests.support.kafka_broker import BROKER, TOOLS_API, Detour, KafkaBroker, Member, new_cluster_id
from tests.support.ports import HeldPort

TEST_MARKERS = ("kafka",)

BROKERS = 3
HEAP_MIB = 256
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.replication.factor": "3",
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "1000",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.enable": "false",
    "controlled.shutdown.enable": "false",
}


class KafkaCluster:
    """The brokers, by node id - 1.

    `ways`: how many clients reach them through proxies of their own, of which each has one for each broker.
    """

    def __init__(self, settings: dict[str, str] | None = None, brokers: int = BROKERS, ways: int = 0) -> None:
        _make_archive()
        self.proxies = [[CuttableProxy("") for _ in range(brokers)] for _ in range(ways)]
        """By way, then by broker."""
        self._folder = Path(tempfile.mkdtemp(prefix="kafka-cluster-"))
        cluster_id, controllers = new_cluster_id(), [HeldPort() for _ in range(brokers)]
        self.brokers = [
            KafkaBroker(
                self._folder / f"broker-{number}",
                SETTINGS | (settings or {}),
                member=Member(number, cluster_id, controllers, HEAP_MIB, self._ways_to(number)),
            )
            for number in range(1, brokers + 1)
        ]
        try:
            with ThreadPoolExecutor() as threads:
                list(threads.map(KafkaBroker.start, self.brokers))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    def url(self, way: int | None = None) -> str:
        """The address of the engine, also through the proxies of a way."""
        if way is None:
            return f"kafka://{self.bootstrap}"
        return f"kafka://{','.join(proxy.address for proxy in self.proxies[way])}"

    def _ways_to(self, number: int) -> list[Detour]:
        ways = []
        for way, proxies in enumerate(self.proxies):
            proxy, held = proxies[number - 1], HeldPort()
            proxy.target = held.address
            ways.append(Detour(f"WAY{way}", held, proxy.address))
        return ways

    def close(self) -> None:
        """Kills the brokers: nobody needs what they have."""
        for broker in self.brokers:
            with suppress(AssertionError):
                broker.kill()
            broker.stop()
        for proxy in chain.from_iterable(self.proxies):
            proxy.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _make_archive() -> None:
    """A broker alone makes the class archive: one that must wait for others cannot."""
    classpath = kafka_classpath(BROKER, exclude=(TOOLS_API,))
    with archive_to_make(classpath) as archive:
        if archive is None:
            return
    with tempfile.TemporaryDirectory() as folder:
        alone = KafkaBroker(Path(folder) / "broker")
        try:
            alone.start()
        finally:
            alone.stop()
