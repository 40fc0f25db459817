"""The obvious read-process-write program of aiokafka: one transaction for each batch, which sends the offsets.

Its `send_offsets_to_transaction` takes a group id and no member (before KIP-447), so the coordinator cannot fence it.
"""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError, ProducerFenced
from settings import ARGUMENTS, GROUP, OUTPUT_TOPIC, TOPIC, TRANSACTIONAL_ID, Stop, classic_only, report


async def read_again(consumer: AIOKafkaConsumer) -> None:
    for place in consumer.assignment():
        consumer.seek(place, await consumer.committed(place) or 0)


async def main() -> None:
    stop = Stop()
    consumer = AIOKafkaConsumer(
        TOPIC,
        **ARGUMENTS,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    producer = AIOKafkaProducer(**ARGUMENTS, transactional_id=TRANSACTIONAL_ID)
    async with producer, consumer:
        while not stop:
            batches = await consumer.getmany(timeout_ms=500, max_records=20)
            if not batches:
                continue
            try:
                async with producer.transaction():
                    for records in batches.values():
                        for record in records:
                            await producer.send(OUTPUT_TOPIC, record.value, record.key)
                    ends = {place: records[-1].offset + 1 for place, records in batches.items()}
                    await producer.send_offsets_to_transaction(ends, GROUP)
            except ProducerFenced:
                raise
            except KafkaError as failure:
                report("aborted", failure)
                await read_again(consumer)


classic_only("aiokafka")
asyncio.run(main())
