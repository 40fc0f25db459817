"""A Kafka group coordinator that runs on its own: to Kafka clients it looks like a broker.

One rule carries the whole server:

    decode -> decide -> replay -> persist -> reply

    socket bytes              frame               exchange                 the group's shard
    network/connection  ->  network/dispatch  ->  requests/<api>.py  ->  runtime/shard
                                                                            | operation(state, request, context, now_ms)
                                                                            v   groups/<kind>/<operation>.py     pure
                                                                Result(reply, records, timers, replies, facts)
                                                                            | replay(record)
                                                                            v   only this changes durable state
                                                                journal: one entry per turn for all shards, fdatasync
                                                                            | durable up to offset N
                                                                            v
    network/connection  <--  api/exchange sends    <--------------------  runtime/parking releases the replies behind <= N

An operation is a plain function. It has no access to a clock, an event loop, a disk or randomness; whatever must be remembered,
it returns as records. A start replays the records of the log through the same code, so recovery is not a second program. A
reply leaves when every record that it depends on is durable. Replies to reads wait too, so nobody sees state that a crash could
undo.

The packages, from the top. Each may import those below it, never those above (import-linter checks it):

    cli         the command line: parses arguments, makes one call, returns an exit code
    operations  tools for people: inspect log folders, describe and change groups and topics
    cluster     several processes as one service: the engine that keeps their logs, who has which shard, take-overs, and the
                supervisor of the workers of one machine
    watch       the groups of a Kafka cluster, whose log is replayed into a server without clients
    server      the composition root: makes the parts, wires them, starts and stops them; the server's process
    overlay     in front of a real cluster: groups and offsets are ours, all else is forwarded to its brokers
    fastpath    shortcuts for the most frequent work, which change no byte: repeated commits, event encoding, bulk replay
    admin       HTTP: health, metrics, views of groups and transactions, control; its OpenAPI document; one address for several
                workers
    page        the files of the page: groups and their timelines in a browser, also for the report of the Spark jobs
    network     listeners and connections: limits, flow control, responses in the order of the requests
    rules       fault rules and recordings: what a test lets fail, wait or get lost; what clients asked and were answered
    requests    one file per Kafka API, named as Kafka names it: versions, access, handler, refusal
    nodes       several brokers in one process: who leads what, and the server as the clients of each broker see it
    quotas      how much a client may send, fetch, ask and change in a time, and for how long it waits when it did more
    api         what API files share: how one is declared, what it may use of the server, dispatch, the way back to the client
    security    who a client is: TLS and certificates, SASL and its mechanisms, principals; and what it may do
    config      all settings, and how a file, the environment and the command line become one configuration
    groups      classic, consumer, streams and share groups, assignors, offsets, fencing: one file per operation; deterministic
    topics      topics, produce, fetch, retention: the data plane; its decisions are deterministic
    transactions  transactional producers and the end of their transactions; deterministic, except for marker delivery,
                verification and the pool of producer ids, which talk to shards
    share_state  the share coordinator: what the leaders of share partitions know; deterministic, except for the part that asks
                shards
    runtime     what makes a state machine durable: result, shard, router, event log, parking, timers, loader
    journal     one write and one sync a turn for all internal logs, whose segments are written behind it
    log         a partition's folder in Kafka's format: batch, segment, index, writer, reader, recovery, compaction
    client      the client's side of the protocol: how this program asks another broker, and proves to it who it is
    protocol    bytes and messages: definitions, the generated codec, headers, frames, error codes
    world       clock, randomness, disk, threads: the outside as small protocols, with the real implementations;
                the cache of generated code, lines of the server's log

To find a behaviour, look for its Kafka name: an API in `requests/`, an operation in `groups/<kind>/`, `topics/`,
`transactions/` or `share_state/`. docs/architecture.md maps Kafka's classes to modules and has the glossary.

Three packages beside this one use it, and it imports none of them; the command line finds their commands by entry points:
`coordinator_testing` (what test suites use: control, certify, the pytest plugin), `coordinator_lab` (the simulation, replays of
recorded groups, the bench, the measuring programs) and `pyspark_coordinator_log` (a Spark data source for logs, and the jobs
that audit them).

Outside the packages: `protocol_schemas/` (message definitions in Kafka's own form), `config/` (configuration files), `docs/`,
`tests/` (a mirror of the packages).
"""
