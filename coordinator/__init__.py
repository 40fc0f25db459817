"""A Kafka group coordinator that runs on its own: to Kafka clients it looks like a broker.

One rule carries the whole server:

    decode -> decide -> replay -> persist -> reply

    socket bytes              frame               exchange                 the group's shard
    network/connection  -->  api/dispatch  -->  requests/<api>.py  -->  runtime/shard
                                                                            | operation(state, request, context, now_ms)
                                                                            v   groups/<kind>/<operation>.py     pure
                                                                Result(reply, records, timers, replies, facts)
                                                                            | replay(record)
                                                                            v   only this changes durable state
                                                                journal: one entry per turn for all shards, fdatasync
                                                                            | durable up to offset N
                                                                            v
    network/connection  <--  api/exchange encodes  <--------------------  runtime/parking releases the replies behind <= N

An operation is a plain function. It has no access to a clock, an event loop, a disk or randomness; whatever must be remembered,
it returns as records. A start replays the records of the log through the same code, so recovery is not a second program. A
reply leaves when every record that it depends on is durable. Replies to reads wait too, so nobody sees state that a crash could
undo.

The packages, from the top. Each may import those below it, never those above (import-linter checks it):

    pytest_plugin  a server as a fixture of a test suite
    cli         the command line: parses arguments, makes one call, returns an exit code
    certify     puts a consumer program of any language through rare events, and judges what it did
    control     the client of a server's control: faults, groups, time; sync and asyncio
    pipeline    Spark over the logs: who owned what, why groups rebalanced, which commits were from zombies
    operations  tools for people: inspect log folders, describe and change groups and topics
    bench       the server's speed, measured beside a bare echo server
    faults      simulated twins of everything outside; a whole server in a world of faults, reproducible from a seed
    server      the composition root: makes the parts, wires them, starts and stops them; the server's process
    overlay     in front of a real cluster: groups and offsets are ours, all else is forwarded to its brokers
    fastpath    shortcuts for the most frequent work, which change no byte: repeated commits, event encoding, bulk replay
    front       admin HTTP of several workers: one address that answers for all of them
    admin       HTTP: health, metrics, views of groups and transactions, control; its OpenAPI document
    page        the files of the page: groups and their timelines in a browser, also for the pipeline's report
    network     listeners and connections: limits, flow control, responses in the order of the requests
    rules       fault rules and recordings: what a test lets fail, wait or get lost; what clients asked and were answered
    workers     several servers over one engine: who has which shard, take-overs, the metadata that all of them follow
    supervisor  several workers on one machine: the process that has the data folder and its journal
    requests    one file per Kafka API, named as Kafka names it: versions, access, handler, refusal
    api         what API files share: how one is declared, what it may use of the server, dispatch, the way back to the client
    quotas      how much a client may send, fetch, ask and change in a time, and for how long it waits when it did more
    security    who a client is: TLS and certificates, SASL and its mechanisms, principals; and what it may do
    config      all settings, and how a file, the environment and the command line become one configuration
    groups      classic, consumer and streams groups, assignors, offsets, fencing: one file per operation; deterministic
    topics      topics, produce, fetch, retention: the data plane; its decisions are deterministic
    transactions  transactional producers and the end of their transactions; deterministic, except for marker delivery,
                verification and the pool of producer ids, which talk to shards
    runtime     what makes a state machine durable: result, shard, router, event log, parking, timers, loader
    journal     one write and one sync a turn for all internal logs, whose segments are written behind it
    engine      what several workers share: logs, claims of them, beats; over PostgreSQL, Kafka, or the supervisor
    log         a partition's folder in Kafka's format: batch, segment, index, writer, reader, recovery, compaction
    login       the client's side of SASL: how this program proves to another server who it is
    protocol    bytes and messages: definitions, the generated codec, headers, frames, error codes
    world       clock, randomness, disk, worker threads: the outside as small protocols, with the real implementations;
                the cache of generated code, lines of the server's log

To find a behaviour, look for its Kafka name: an API in `requests/`, an operation in `groups/<kind>/`, `topics/` or
`transactions/`. docs/architecture.md maps Kafka's classes to modules and has the glossary.

Outside the package: `protocol_schemas/` (message definitions in Kafka's own form), `config/` (configuration files), `docs/`,
`tests/` (a mirror of the packages).
"""
