"""A service that bills orders: it reads them as a member of a group, and commits an order when it is billed.

    python orders.py BOOTSTRAP TOPIC GROUP

An order may arrive twice, because a commit can fail, or be refused after a rebalance. So billing is idempotent: the ledger
bills an order's id once. An order is never lost, because nothing is committed that is not billed.
test_orders.py provokes the rare events and shows both.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

BATCH = 100
POLL_S = 0.05


class Ledger:
    """The bills, by the id of the order."""

    def __init__(self) -> None:
        self._bills: dict[str, int] = {}
        self._changed = threading.Condition()
        self.repeated: list[str] = []
        """Orders that arrived again after they were billed."""

    def bill(self, order: str, cents: int) -> None:
        """Bills an order, unless it has a bill."""
        with self._changed:
            if order in self._bills:
                self.repeated.append(order)
                return
            self._bills[order] = cents
            self._changed.notify_all()

    def wait_for(self, orders: Iterable[str], timeout_s: float = 30) -> bool:
        """Waits until all of these orders are billed. Returns False when the time is over."""
        wanted = set(orders)
        with self._changed:
            return self._changed.wait_for(lambda: wanted <= self._bills.keys(), timeout_s)


class OrderService:
    """One instance of the service. `run` is its whole life, in the calling thread; `stop` ends it from another one."""

    def __init__(self, bootstrap: str, topic: str, group: str, ledger: Ledger, **settings: str | float | bool) -> None:
        self._topic = topic
        self._ledger = ledger
        self._stopped = threading.Event()
        self._billed: dict[tuple[str, int], int] = {}
        """The next offset of each partition that this instance owns, for orders that are billed and not committed."""
        defaults = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **defaults, **settings})

    def run(self) -> None:
        """Bills orders until `stop`."""
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        try:
            while not self._stopped.is_set():
                for message in self._consumer.consume(BATCH, POLL_S):
                    self._bill(message)
                self._commit()
        finally:
            self._consumer.close()

    def stop(self) -> None:
        """Makes `run` return after the current batch."""
        self._stopped.set()

    def _bill(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.fatal():
                raise KafkaException(error)
            return
        order, _, cents = message.value().decode().partition(" ")
        self._ledger.bill(order, int(cents))
        self._billed[message.topic(), message.partition()] = message.offset() + 1

    def _commit(self) -> None:
        """Commits what is billed. If that fails, the next commit covers it, or the orders arrive again."""
        if not self._billed:
            return
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in self._billed.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as failed:
            print(f"cannot commit: {failed}", file=sys.stderr)
            if failed.args[0].code() in NOT_MINE_ANY_MORE:
                self._billed.clear()
        else:
            self._billed.clear()

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        print(f"assigned {names(partitions)}", file=sys.stderr)

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """The partitions are still ours: what is billed is committed before another instance reads on."""
        print(f"revoked {names(partitions)}", file=sys.stderr)
        self._commit()
        self._forget(partitions)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """The partitions may have another owner already: a commit would be refused, or would overwrite the owner's."""
        print(f"lost {names(partitions)}", file=sys.stderr)
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._billed.pop((each.topic, each.partition), None)


NOT_MINE_ANY_MORE = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
}
"""Errors of a commit after which the group gives the partitions out again, so the orders are read again."""


def names(partitions: list[TopicPartition]) -> str:
    """The partitions for people."""
    return ", ".join(f"{each.topic}-{each.partition}" for each in partitions) or "nothing"


def main(bootstrap: str, topic: str, group: str) -> None:
    service = OrderService(bootstrap, topic, group, Ledger())
    stop: Callable[..., None] = lambda *_: service.stop()  # noqa: E731 - a handler of two signals
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    service.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
