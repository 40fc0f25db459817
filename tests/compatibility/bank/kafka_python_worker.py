"""The bank's worker on kafka-python.

After its server was killed, kafka-python's producer sometimes waits forever for a flush, while its sender thread spins without
sending anything (3.0.12; 3 of 43 runs on a loaded machine). So a watchdog ends a worker that makes no progress, and the bank
replaces it, as a supervisor would.
"""

import faulthandler
import sys

import work
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

WATCHDOG_S = 30


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
        faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)
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
