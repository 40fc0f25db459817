"""The bank's worker on confluent-kafka (librdkafka)."""

import sys
from collections.abc import Callable

import work
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

CALL_S = 10.0


class Worker:
    def __init__(self, bootstrap: str, group: str, transactional_id: str, protocol: str):
        common = {
            "bootstrap.servers": bootstrap,
            "client.id": transactional_id,
            # librdkafka 2.16 may lose a coordinator permanently if it forgets all brokers.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
        how = {"group.protocol": protocol}
        if protocol == "classic":
            how |= {"session.timeout.ms": work.SESSION_TIMEOUT_MS, "heartbeat.interval.ms": 300}
        self.consumer = Consumer(
            common
            | how
            | {
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self.producer = Producer(
            common
            | {
                "transactional.id": transactional_id,
                "transaction.timeout.ms": work.TRANSACTION_TIMEOUT_MS,
                "linger.ms": 0,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self.batch: list[Message] = []

    def run(self) -> None:
        self.again(lambda: self.producer.init_transactions(CALL_S))
        self.consumer.subscribe([work.TRANSFERS], on_revoke=self._taken, on_lost=self._taken)
        work.say("began")
        while True:
            self._collect()
            if self.batch:
                # Of the generation in which the batch was read: the next may arrive before the offsets are sent.
                metadata = self.consumer.consumer_group_metadata()
                try:
                    self._transact(metadata)
                except KafkaException as failure:
                    self._abort(failure.args[0])
                self.batch.clear()

    def _taken(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {each.partition for each in partitions}
        self.batch = [message for message in self.batch if message.partition() not in gone]

    def _collect(self) -> None:
        wait_s = 0.2
        while len(self.batch) < work.BATCH:
            message = self.consumer.poll(wait_s)
            if message is None:
                return
            if message.error() is None:
                self.batch.append(message)
                wait_s = 0.0

    def _transact(self, metadata: object) -> None:
        producer = self.producer
        producer.begin_transaction()
        for message in self.batch:
            for account, entry in work.entries(message.value().decode()):
                producer.produce(work.LEDGER, entry, partition=account)
        producer.flush(CALL_S)
        work.stop_if_asked()
        ends: dict[int, int] = {}
        for message in self.batch:
            ends[message.partition()] = message.offset() + 1
        offsets = [TopicPartition(work.TRANSFERS, partition, offset) for partition, offset in ends.items()]
        self.again(lambda: producer.send_offsets_to_transaction(offsets, metadata, CALL_S))
        self.again(lambda: producer.commit_transaction(CALL_S))

    def _abort(self, why: KafkaError) -> None:
        if why.fatal():
            self.end(why)
        work.say("aborted", why=why.name())
        try:
            self.again(lambda: self.producer.abort_transaction(CALL_S))
        except KafkaException as failure:
            self.end(failure.args[0])
        assigned = self.consumer.assignment()
        if assigned:
            try:
                for place in self.consumer.committed(assigned, CALL_S):
                    self.consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
            except KafkaException as failure:
                self.end(failure.args[0])

    @staticmethod
    def again(call: Callable[[], object]) -> None:
        """Repeats the call until it succeeds or fails permanently: calls of a transaction may be repeated after a
        retriable error.
        """
        while True:
            try:
                call()
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
            else:
                return

    @staticmethod
    def end(why: KafkaError) -> None:
        """The supervisor starts another worker."""
        work.say("ended", why=why.name())
        sys.exit(3)


work.obey_signals()
Worker(*work.arguments()).run()
