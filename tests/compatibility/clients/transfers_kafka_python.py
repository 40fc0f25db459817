"""One worker of the transfers: kafka-python, as transfers_confluent.py.

transfers_kafka_python.py BOOTSTRAP NAME GROUP PROTOCOL
"""

import faulthandler
import sys
import time

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

BATCH, PAUSE_S, WITHIN_S = 5, 0.05, 15.0


def main(bootstrap: str, name: str, group: str, _protocol: str) -> None:
    consumer = KafkaConsumer(
        "transfers",
        bootstrap_servers=bootstrap,
        client_id=name,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=1500,
        heartbeat_interval_ms=300,
        reconnect_backoff_max_ms=200,
    )
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=name,
        transactional_id=name,
        transaction_timeout_ms=10_000,
        reconnect_backoff_max_ms=200,
    )
    producer.init_transactions()
    while True:
        # Its calls wait for ever; then the process ends, and says where it was.
        faulthandler.dump_traceback_later(WITHIN_S, exit=True)
        polled = consumer.poll(timeout_ms=200, max_records=BATCH)
        if not polled:
            continue
        # Not later: a member that was thrown out joins again by itself, and its new generation would vouch for old records.
        metadata = consumer.group_metadata()
        producer.begin_transaction()
        following = {}
        for partition, records in polled.items():
            for record in records:
                number, source, target, amount = record.value.decode().split()
                producer.send("ledger", f"{number} {source} -{amount}".encode(), source.encode())
                producer.send("ledger", f"{number} {target} {amount}".encode(), target.encode())
            following[TopicPartition(*partition)] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        time.sleep(PAUSE_S)
        try:
            producer.send_offsets_to_transaction(following, metadata)
            producer.commit_transaction()
        except KafkaError:
            producer.abort_transaction()
            raise


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KafkaError as error:
        sys.exit(f"gone: {error}")
