// kafkajs as a client program: the same commands and events as the programs in ../clients.
//
// kafkajs has no static members and no cooperative rebalance, and its own assignor speaks a protocol of its own name; the
// two here are those of the other libraries, so that it can share a group with them.
"use strict";
const fs = require("node:fs");
const readline = require("node:readline");
const { AssignerProtocol, CompressionCodecs, CompressionTypes, Kafka, logLevel } = require("kafkajs");

CompressionCodecs[CompressionTypes.Snappy] = require("kafkajs-snappy");
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy };
const bootstrap = process.argv[2];
const { MemberAssignment, MemberMetadata } = AssignerProtocol;
const TOPIC_RESOURCE = 2;
let consumer, group, owned = [];

const security = JSON.parse(process.env.SECURITY || "{}");
/** The settings of SECURITY (see ../clients/commands.py). */
const secured = () => {
  const read = (name) => (security[name] ? fs.readFileSync(security[name]) : undefined);
  const settings = security.ca ? { ssl: { ca: [read("ca")], cert: read("certificate"), key: read("key") } } : {};
  const { mechanism, user: username, password, token: value } = security;
  if (mechanism === "OAUTHBEARER") settings.sasl = { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value }) };
  else if (mechanism) settings.sasl = { mechanism: mechanism.toLowerCase(), username, password };
  return settings;
};
const say = (message) =>
  process.stdout.write(`${JSON.stringify({ ...message, at_ns: Number(process.hrtime.bigint()) })}\n`);
const kafka = (clientId, retries = 100) =>
  new Kafka({
    clientId, brokers: [bootstrap], ...secured(), retry: { initialRetryTime: 100, maxRetryTime: 300, retries },
    logCreator: () => ({ log, label }) => process.stderr.write(`${label} ${JSON.stringify(log)}\n`), logLevel: logLevel.WARN,
  });
const pairs = (assignment) =>
  Object.entries(assignment).flatMap(([topic, partitions]) => partitions.map((partition) => [topic, partition]));

const range = (members, partitions) => partitions.map((_, index) => {
  const least = Math.floor(partitions.length / members.length), more = partitions.length % members.length;
  const atMore = more * (least + 1);
  return members[index < atMore ? Math.floor(index / (least + 1)) : more + Math.floor((index - atMore) / least)];
});
const roundrobin = (members, partitions) => partitions.map((_, index) => members[index % members.length]);

/** An assignor of this protocol name; `choose` gives the owner of each partition of a topic. */
const assignor = (name, choose) => ({ cluster }) => ({
  name, version: 0,
  protocol: ({ topics }) => ({ name, metadata: MemberMetadata.encode({ version: 0, topics, userData: Buffer.alloc(0) }) }),
  async assign({ members, topics }) {
    const ids = members.map(({ memberId }) => memberId).sort();
    const shares = Object.fromEntries(ids.map((id) => [id, {}]));
    for (const topic of topics) {
      const indexes = cluster.findTopicPartitionMetadata(topic).map(({ partitionId }) => partitionId).sort((a, b) => a - b);
      choose(ids, indexes).forEach((id, at) => (shares[id][topic] ??= []).push(indexes[at]));
    }
    return ids.map((memberId) => ({
      memberId, memberAssignment: MemberAssignment.encode({ version: 0, assignment: shares[memberId], userData: Buffer.alloc(0) }),
    }));
  },
});
const ASSIGNORS = { range: assignor("range", range), roundrobin: assignor("roundrobin", roundrobin) };

const withProducer = async (settings, use) => {
  const producer = kafka("producer").producer(settings);
  await producer.connect();
  try { return await use(producer); } finally { await producer.disconnect(); }
};
const withAdmin = async (use) => {
  const admin = kafka("admin", 5).admin(); // it tries again what is wrong for good, too
  await admin.connect();
  try { return await use(admin); } finally { await admin.disconnect(); }
};
/** The offsets of [topic, partition]s as numbers; null for those that a list of kafkajs does not know. */
const numbers = (asked, lists) =>
  asked.map(([topic, partition]) => {
    const offset = lists[topic].find((entry) => entry.partition === partition)?.offset ?? "-1";
    return Number(offset) < 0 ? null : Number(offset);
  });
const committed = (groupId, partitions) =>
  withAdmin(async (admin) => {
    const topics = [...new Set(partitions.map(([topic]) => topic))];
    const found = await admin.fetchOffsets({ groupId, topics });
    return numbers(partitions, Object.fromEntries(found.map((each) => [each.topic, each.partitions])));
  });

const COMMANDS = {
  async join(how) {
    group = how.group;
    consumer = kafka(how.client_id).consumer({
      groupId: group, sessionTimeout: how.session_timeout_ms, heartbeatInterval: how.heartbeat_ms, maxWaitTimeInMs: 200,
      rebalanceTimeout: 10_000, partitionAssigners: how.assignors.split(",").map((name) => ASSIGNORS[name]),
    });
    const { GROUP_JOIN, REBALANCING, CRASH } = consumer.events;
    const lose = () => {
      if (owned.length) say({ event: "revoked", partitions: owned });
      owned = [];
    };
    consumer.on(REBALANCING, lose);
    consumer.on(CRASH, lose);
    consumer.on(GROUP_JOIN, ({ payload }) => {
      lose();
      owned = pairs(payload.memberAssignment);
      say({ event: "assigned", partitions: owned });
    });
    await consumer.connect();
    await consumer.subscribe({ topics: how.topics, fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch }) => {
        const records = batch.messages.map(({ offset, value }) => [batch.topic, batch.partition, Number(offset), `${value}`]);
        read.push(...records);
        say({ event: "records", records });
      },
    });
  },
  async commit() {
    const next = {};
    for (const [topic, partition, offset] of read) next[JSON.stringify([topic, partition])] = offset + 1;
    const mine = owned.filter((pair) => JSON.stringify(pair) in next);
    await COMMANDS.commit_at({ offsets: mine.map((pair) => [...pair, next[JSON.stringify(pair)]]) });
  },
  commit_at: ({ offsets }) =>
    consumer.commitOffsets(offsets.map(([topic, partition, offset]) => ({ topic, partition, offset: `${offset}` }))),
  committed: ({ partitions }) => committed(group, partitions),
  group_offsets: (asked) => committed(asked.group, asked.partitions),
  seek: async ({ topic, partition, offset }) => consumer.seek({ topic, partition, offset: `${offset}` }),
  async leave() {
    await consumer.disconnect();
    consumer = undefined;
  },
  produce: ({ topic, values, partition, idempotent, codec, times }) =>
    withProducer({ idempotent, maxInFlightRequests: idempotent ? 1 : undefined }, (producer) =>
      producer.send({
        topic, acks: -1, compression: CODECS[codec ?? "none"],
        messages: values.map((value, at) => ({ value, partition, timestamp: times && `${times[at]}` })),
      })),
  /** Reads so many records of a partition, the first being the first of that time or later. */
  async read_since({ topic, partition, time_ms, count }) {
    const found = await withAdmin((admin) => admin.fetchTopicOffsetsByTimestamp(topic, time_ms));
    const { offset } = found.find((entry) => entry.partition === partition);
    const reader = kafka("reader").consumer({ groupId: `reader-${process.hrtime.bigint()}`, maxWaitTimeInMs: 200 });
    await reader.connect();
    await reader.subscribe({ topic });
    const values = [];
    try {
      await new Promise((resolve, reject) => {
        const take = async ({ message, partition: from }) => {
          if (from === partition && Number(message.offset) >= Number(offset)) values.push(`${message.value}`);
          if (values.length === count) resolve();
        };
        reader.run({ autoCommit: false, eachMessage: take }).catch(reject);
        reader.seek({ topic, partition, offset });
      });
    } finally { await reader.disconnect(); }
    return values;
  },
  list_groups: () => withAdmin(async (admin) => (await admin.listGroups()).groups.map(({ groupId }) => groupId)),
  describe_group: (asked) =>
    withAdmin(async (admin) => {
      const { groups: [{ state, members }] } = await admin.describeGroups([asked.group]);
      return { state, members: members.map(({ clientId }) => clientId) };
    }),
  end_offsets: ({ partitions }) =>
    withAdmin(async (admin) => {
      const lists = {};
      for (const [topic] of partitions) lists[topic] ??= await admin.fetchTopicOffsets(topic);
      return numbers(partitions, lists);
    }),
  alter_offsets: (wanted) =>
    withAdmin(async (admin) => {
      for (const [topic, partition, offset] of wanted.offsets)
        await admin.setOffsets({ groupId: wanted.group, topic, partitions: [{ partition, offset: `${offset}` }] });
    }),
  delete_group: (doomed) => withAdmin(async (admin) => { await admin.deleteGroups([doomed.group]); }),
  create_topic: ({ topic, count, configs }) =>
    withAdmin(async (admin) => {
      const configEntries = Object.entries(configs ?? {}).map(([name, value]) => ({ name, value }));
      const topics = [{ topic, numPartitions: count, replicationFactor: 1, configEntries }];
      if (!(await admin.createTopics({ topics }))) throw new Error("it exists already"); // kafkajs only says false
    }),
  delete_topic: ({ topic }) => withAdmin((admin) => admin.deleteTopics({ topics: [topic] })),
  /** The number of its partitions; 0 if there is no such topic. */
  topic: ({ topic }) =>
    withAdmin(async (admin) => {
      if (!(await admin.listTopics()).includes(topic)) return 0;
      return (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length;
    }),
  add_partitions: ({ topic, count }) =>
    withAdmin(async (admin) => { await admin.createPartitions({ topicPartitions: [{ topic, count }] }); }),
  delete_records: ({ topic, partition, offset }) =>
    withAdmin(async (admin) => {
      await admin.fetchTopicOffsets(topic); // else kafkajs does not know the topic
      await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: `${offset}` }] });
    }),
  set_config: ({ topic, configs }) =>
    withAdmin(async (admin) => {
      const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
      await admin.alterConfigs({ resources: [{ type: TOPIC_RESOURCE, name: topic, configEntries }] });
    }),
  configs: ({ topic }) =>
    withAdmin(async (admin) => {
      const { resources: [{ configEntries }] } = await admin.describeConfigs({ resources: [{ type: TOPIC_RESOURCE, name: topic }] });
      return Object.fromEntries(configEntries.map(({ configName, configValue }) => [configName, configValue]));
    }),
  brokers: () => withAdmin(async (admin) => (await admin.describeCluster()).brokers.length),
};
const read = [];

const obey = async ({ id, do: name, ...values }) => {
  try {
    say({ id, result: (await COMMANDS[name](values)) ?? null });
  } catch (error) {
    process.stderr.write(`${error.stack}\n`);
    say({ id, error: `${error}` });
  }
};
let last = Promise.resolve();
readline.createInterface({ input: process.stdin })
  .on("line", (line) => { last = last.then(() => obey(JSON.parse(line))); })
  .on("close", () => process.exit(0));
say({ event: "ready" });
