"""Settings of Kafka that are no settings of this server: each with the reason, or with what to use.

load.py refuses them in a file and in --set. In the environment, where a compose file for Kafka's image has some of them, those
without effect are listed in a warning.
"""

from typing import Any

ONLY_VALUE: dict[str, tuple[Any, str]] = {
    "offsets.topic.replication.factor": (1, "there is one node"),
    "default.replication.factor": (1, "there is one node"),
    "min.insync.replicas": (1, "there is one node"),
    "transaction.state.log.replication.factor": (1, "there is one node"),
    "transaction.state.log.min.isr": (1, "there is one node"),
    "offsets.topic.compression.codec": (0, "the groups' log is not compressed"),
    "ssl.keystore.type": ("PEM", "OpenSSL reads no other; convert a JKS or PKCS12 file with `openssl pkcs12 -nodes`"),
    "ssl.truststore.type": ("PEM", "OpenSSL reads no other"),
    "share.coordinator.append.linger.ms": (-1, "the server writes a batch as soon as it is free to"),
    "share.coordinator.state.topic.compression.codec": (0, "the log of share states is not compressed"),
    "share.coordinator.state.topic.min.isr": (1, "there is one node"),
    "share.coordinator.state.topic.replication.factor": (1, "there is one node"),
    "group.share.assignors": ("simple", "there is no other"),
    "group.coordinator.append.linger.ms": (-1, "the server writes a batch as soon as it is free to"),
}
"""Settings of Kafka that can have only one value here, and why."""

NOT_YET: dict[str, str] = {
    "group.streams.num.warmup.": "warm-up tasks of streams groups (KIP-1071)",
    "group.streams.max.warmup.": "warm-up tasks of streams groups (KIP-1071)",
    "group.streams.topology.description.": "topology descriptions of streams groups (KIP-1331)",
    "transaction.two.phase.commit.": "two-phase commit (KIP-939)",
    "log.local.": "tiered storage (KIP-405)",
    "log.remote.": "tiered storage (KIP-405)",
    "remote.": "tiered storage (KIP-405)",
    "follower.fetch.last.tiered.": "tiered storage (KIP-405)",
    "ssl.": "this setting of TLS",
    "sasl.": "this setting of SASL",
    "listener.": "this setting of a listener",
    "security.": "TLS and SASL between brokers",
    "authorizer.": "this setting of access control",
    "principal.builder.": "access control",
}
"""Settings of Kafka features that are not supported yet, by the prefix of their names."""

INSTEAD: dict[str, str] = {
    "advertised.listeners": "`advertise:` of an entry of `listeners`, or --advertise",
    "broker.id": "node.id",
    "log.dirs": "log.dir (one folder)",
    "metadata.log.dir": "log.dir (one folder)",
    "log.retention.hours": "log.retention.ms",
    "log.retention.minutes": "log.retention.ms",
    "log.roll.hours": "log.roll.ms",
    "log.flush.interval.ms": "durability",
    "max.connections.per.ip.overrides": "max.connections.per.ip (one limit for all addresses)",
    "queued.max.requests": "limit.requests.in.flight (per connection)",
    "queued.max.request.bytes": "limit.memory.bytes",
}
"""Settings of Kafka that have another name here."""

_ONE_NODE = "there is one node"
_ONE_FOLDER = "there is one data folder"
_ONE_LOOP = "one event loop serves all clients and groups"
_NO_QUORUM = "the controller is part of the one node"
_NO_CLASSES = "the server loads no Java classes"
_NO_PURGATORY = "waiting requests are removed at once when they end"
_METRICS = "admin HTTP serves the metrics"
_CLEANER = "the server compacts one log at a time, with buffers of its own size"
_SOCKETS = "the operating system sizes the buffers of sockets"
_NEAREST = "there is one node, so no replica is nearer to a client than another"

WITHOUT_EFFECT: dict[str, str] = {
    "add.partitions.to.txn.": _ONE_NODE,
    "alter.config.policy.": _NO_CLASSES,
    "alter.log.dirs.": _ONE_FOLDER,
    "auto.include.jmx.": _METRICS,
    "auto.leader.": _ONE_NODE,
    "background.threads": _ONE_LOOP,
    "broker.heartbeat.": _ONE_NODE,
    "broker.rack": _NEAREST,
    "broker.session.": _ONE_NODE,
    "client.quota.": _NO_CLASSES,
    "compression.": "the server stores batches as the producer compressed them",
    "config.providers": _NO_CLASSES,
    "controlled.shutdown.": _ONE_NODE,
    "controller.": _NO_QUORUM,
    "cordoned.log.dirs": _ONE_FOLDER,
    "create.topic.policy.": _NO_CLASSES,
    "delete.records.purgatory.": _NO_PURGATORY,
    "early.start.listeners": _NO_QUORUM,
    "fetch.purgatory.": _NO_PURGATORY,
    "group.coordinator.background.threads": _ONE_LOOP,
    "group.coordinator.cached.buffer.": "the buffers of the groups' logs grow and shrink with the requests",
    "group.coordinator.threads": _ONE_LOOP,
    "group.consumer.assignor.offload.": _ONE_LOOP,
    "group.share.assignor.offload.": _ONE_LOOP,
    "group.streams.assignor.offload.": _ONE_LOOP,
    "group.share.dlq.": _NO_CLASSES,
    "group.share.persister.": _NO_CLASSES,
    "share.fetch.purgatory.": "requests that wait need no purge",
    "initial.broker.registration.": _NO_QUORUM,
    "kafka.metrics.": _METRICS,
    "leader.imbalance.": _ONE_NODE,
    "log.cleaner.": _CLEANER,
    "log.dir.failure.": _ONE_FOLDER,
    "log.flush.": "`durability` decides when the server syncs its logs",
    "log.message.format.version": "logs have one format, the one of Kafka 4",
    "log.preallocate": "segments grow as they are written",
    "log.segment.delete.delay.": "deleted segments are removed at once",
    "log.roll.jitter.": "all partitions roll by the same clock",
    "max.decompressed.message.bytes": "the server does not decompress batches",
    "max.request.partition.size.limit": "`limit.request.elements` bounds all requests",
    "metadata.": _NO_QUORUM,
    "metric.": _METRICS,
    "metrics.": _METRICS,
    "num.io.threads": _ONE_LOOP,
    "num.network.threads": _ONE_LOOP,
    "num.recovery.threads.": "the server loads its logs one after another",
    "num.replica.": _ONE_NODE,
    "offsets.load.buffer.": "the buffers for loading a log have a fixed size",
    "process.roles": "the one node has both roles",
    "producer.purgatory.": _NO_PURGATORY,
    "replica.selector.": _NEAREST,
    "replica.": _ONE_NODE,
    "replication.quota.": _ONE_NODE,
    "request.timeout.ms": _ONE_NODE,
    "reserved.broker.max.id": _ONE_NODE,
    "share.coordinator.cached.buffer.": "the buffers of the log of share states grow and shrink with the requests",
    "share.coordinator.load.buffer.": "the buffers for loading a log have a fixed size",
    "share.coordinator.threads": _ONE_LOOP,
    "socket.": _SOCKETS,
    "telemetry.": _METRICS,
    "transaction.state.log.load.buffer.": "the buffers for loading a log have a fixed size",
    "unclean.leader.": _ONE_NODE,
    "zookeeper.": "Kafka 4 has no ZooKeeper either",
}
"""Why settings of Kafka have no effect here, by the prefix of their names."""
