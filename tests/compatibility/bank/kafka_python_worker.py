"""The bank's worker on kafka-python."""

import sys

import work
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition


def main() -> None:
    bootstrap, group, transactional_id, _ = work.arguments()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=transactional_id,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=work.SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=300,
        max_poll_records=work.BATCH,
    )
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=transactional_id,
        transactional_id=transactional_id,
        transaction_timeout_ms=work.TRANSACTION_TIMEOUT_MS,
    )
    producer.init_transactions()
    consumer.subscribe([work.TRANSFERS])
    work.say("began")
    while True:
        records = [record for polled in consumer.poll(200).values() for record in polled]
        reader = consumer.group_metadata()  # of the generation in which the records were read
        if not records:
            continue
        try:
            producer.begin_transaction()
            ends = {}
            for record in records:
                for account, entry in work.entries(record.value.decode()):
                    producer.send(work.LEDGER, entry, partition=account)
                ends[TopicPartition(work.TRANSFERS, record.partition)] = OffsetAndMetadata(record.offset + 1, "", -1)
            producer.flush()
            work.stop_if_asked()
            producer.send_offsets_to_transaction(ends, reader)
            producer.commit_transaction()
        except KafkaError as failure:
            work.say("aborted", why=type(failure).__name__)
            try:
                producer.abort_transaction()
            except KafkaError as fatal:
                work.say("ended", why=type(fatal).__name__)
                sys.exit(3)
            for place in consumer.assignment():
                committed = consumer.committed(place)
                consumer.seek(place, committed or 0)


work.obey_signals()
main()
