// Programs that the argument names. All but `batch` are wrong:
//
// back       commits the end of a batch, then once more its beginning
// skips      takes a copy that cannot be written for a bad record, and commits it
// unawaited  begins to process a record, and lets kafkajs commit it meanwhile
// short      commits the offset of the last record, and not the one that follows
// outside    copies in transactions, and commits the offsets by itself before the transaction ends
// stays      ends without leaving its group
// batch      lets kafkajs commit each batch when all of it is copied
"use strict";
const { Kafka } = require("kafkajs");

const { BOOTSTRAP, TOPIC, GROUP, OUTPUT_TOPIC, INSTANCE, GROUP_PROTOCOL } = process.env;
if ((GROUP_PROTOCOL || "classic") !== "classic") {
  process.stderr.write("kafkajs has classic groups only\n");
  process.exit(2);
}
const mistake = process.argv[2];
const kafka = new Kafka({ clientId: "wrong", brokers: [BOOTSTRAP] });
const consumer = kafka.consumer({ groupId: GROUP });
const transactional = { transactionalId: `${GROUP}-${INSTANCE}`, maxInFlightRequests: 1, idempotent: true };
const producer = kafka.producer(
  mistake === "outside" ? transactional : mistake === "skips" ? { retry: { retries: 0 } } : {});

const copies = (messages) => ({ topic: OUTPUT_TOPIC, messages: messages.map(({ key, value }) => ({ key, value })) });
const after = ({ offset }) => `${BigInt(offset) + 1n}`;

const copyBatch = async ({ batch: { topic, partition, messages } }) => {
  const begin = messages[0].offset, last = messages[messages.length - 1];
  const commit = (offset) => consumer.commitOffsets([{ topic, partition, offset }]);
  if (mistake === "outside") {
    const transaction = await producer.transaction();
    await transaction.send(copies(messages));
    await commit(after(last));
    await transaction.commit();
    return;
  }
  try {
    await producer.send(copies(messages));
  } catch (failure) {
    if (mistake !== "skips") throw failure;
    process.stderr.write(`skipped: ${failure}\n`);
  }
  if (mistake === "batch") return;  // kafkajs commits it then
  if (mistake === "short") return commit(last.offset);
  await commit(after(last));
  if (mistake === "back") {
    await commit(begin);
    await commit(after(last));
  }
};

const eachMessage = async ({ message }) => {
  setTimeout(() => producer.send(copies([message])), 1000);
};

const main = async () => {
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topic: TOPIC, fromBeginning: true });
  await consumer.run(
    mistake === "unawaited" ? { eachMessage } : { autoCommit: mistake === "batch", eachBatch: copyBatch });
};

consumer.on(consumer.events.CRASH, ({ payload: { error, restart } }) => {
  process.stderr.write(`crash: ${error}, restart: ${restart}\n`);
  if (!restart) process.exit(1);
});
const stop = async () => {
  if (mistake === "stays") process.exit(0);
  await consumer.disconnect();
  if (mistake === "unawaited") await new Promise((resolve) => setTimeout(resolve, 1500));
  await producer.disconnect();
  process.exit(0);
};
process.on("SIGTERM", stop);
process.on("SIGINT", stop);
main().catch((failure) => {
  process.stderr.write(`${failure.stack}\n`);
  process.exit(1);
});
