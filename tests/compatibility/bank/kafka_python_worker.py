"""The bank's worker on kafka-python."""

import sys

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition
from work import (
    BATCH,
    LEDGER,
    SESSION_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    TRANSFERS,
    arguments,
    entries,
    obey_signals,
    say,
    stop_if_asked,
)


def main() -> None:
    bootstrap, group, transactional_id, _ = arguments()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=transactional_id,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=300,
        max_poll_records=BATCH,
    )
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=transactional_id,
        transactional_id=transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
    )
    producer.init_transactions()
    consumer.subscribe([TRANSFERS])
    say("began")
    while True:
        records = [record for polled in consumer.poll(200).values() for record in polled]
        reader = consumer.group_metadata()  # of the generation in which the records were read
        if not records:
            continue
        try:
            producer.begin_transaction()
            ends = {}
            for record in records:
                for account, entry in entries(record.value.decode()):
                    producer.send(LEDGER, entry, partition=account)
                ends[TopicPartition(TRANSFERS, record.partition)] = OffsetAndMetadata(record.offset + 1, "", -1)
            producer.flush()
            stop_if_asked()
            producer.send_offsets_to_transaction(ends, reader)
            producer.commit_transaction()
        except KafkaError as failure:
            say("aborted", why=type(failure).__name__)
            try:
                producer.abort_transaction()
            except KafkaError as fatal:
                say("ended", why=type(fatal).__name__)
                sys.exit(3)
            for place in consumer.assignment():
                committed = consumer.committed(place)
                consumer.seek(place, committed or 0)


obey_signals()
main()
