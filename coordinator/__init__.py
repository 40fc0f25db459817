"""A Kafka group coordinator that runs alone.

One rule carries the whole server:

    decode -> decide -> replay -> persist -> reply

    socket bytes             frame             request                    its group's shard
    network/connection --> protocol/frame --> requests/<api>.py --------> runtime/shard
                                                                             | operation(state, request, call, now)
                                                                             v   groups/<kind>/<operation>.py    pure
                                                                 Result(reply, records, timers, replies, facts)
                                                                             | replay(record)
                                                                             v   state changes here, only here
                                                                 log/writer: one batch a turn, write, fdatasync
                                                                             | durable up to offset N
                                                                             v
    network/connection <-- protocol encodes <-- runtime/parking lets go every reply that waited at <= N

An operation is a plain function: it knows no clock, loop, disk or chance. What it wants remembered it returns as records,
and a load replays the same records through the same code, so a restart is not a second program. A reply leaves when every
record it depends on is durable; replies of reads wait as well, so nobody sees what a crash could undo.

The packages, in the order in which they may import: each only from those below it (checked by import-linter).

    pytest_plugin  a server for a test suite
    cli         the command line: arguments, one call, an exit code
    pipeline    Spark over the logs: who owned what, why groups rebalanced, which commits were zombies
    operations  what a person does from outside: look into log folders, look at and change groups
    bench       the server's speed, measured beside a bare echo
    faults      simulated twins of all that is outside; a whole server in a world of faults, run from a seed
    server      the composition root: makes clock, disk, sockets once and wires the parts
    fastpath    the frequent cases, faster: repeated commits, event encoding, bulk replay; nothing below it knows of it
    admin       HTTP: health, metrics, views of groups and transactions
    network     listeners and connections; answers leave in the order of the requests
    requests    one file per Kafka API: its key, versions and access; ApiVersions is derived from them
    api         what every API file needs: how an API is declared, how a frame reaches it, how its answer leaves
    config      every setting; a file, the environment and the command line become a server's configuration
    groups      deterministic: classic, consumer and streams groups, assignors, offsets, what is fenced; one operation, one file
    topics      deterministic where it decides: topics, produce, fetch, retention
    transactions  deterministic: who may produce under a transactional id, and how its transactions end; above that,
                the delivery of markers, the verification of writes, a producer id kept ready
    runtime     what makes a state machine durable: result, shard, event log, parking, timers, router
    log         a partition's folder in Kafka's format: batch, segment, index, writer, reader, recovery, compaction
    protocol    bytes and messages: definitions, generated codec, headers, frames, errors
    world       clock, entropy, disk, worker threads: the outside, as small protocols with their real ones

Beside them: `protocol_schemas/` (message definitions in Kafka's own form), `config/` (settings), `tests/`.
"""
