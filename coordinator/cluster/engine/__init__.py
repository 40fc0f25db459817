"""The durable engine that several coordinators share: it keeps logs and says who owns which of them.

With an embedded journal one process owns every log. With an engine N workers do: each claims some logs, and another worker
takes them over when it dies. The engine is a database that its users run anyway.

    claim     the newest claim of a log has the highest epoch; an append of an older epoch is *fenced*: it leaves nothing
    replay    the newest complete snapshot of a log, then the pieces behind it
    append    the pieces of a turn, of all logs of a worker, become durable together or are fenced one by one
    snapshot  replaces the beginning of a log, so that a replay is bounded
    beats     which workers live, by the engine's clock

Beats only decide when to take over. Safety comes from the log alone: the engine checks a claim's epoch in the statement that
appends, so a worker that was paused and wakes up acknowledges nothing. An append whose outcome is not certain ends the claims
in it; the next claim's replay shows what became of it.

    engine.py      the types, and the protocol that every engine implements
    address.py     an engine's URL, which shows no password, and the engine that it names
    ended.py       which claims of a worker have ended
    local/         the engine over the supervisor of one machine, which has an embedded journal
    postgresql/    the engine over PostgreSQL
    kafka/         the engine over a Kafka-compatible cluster

`coordinator_lab/simulation/memory_engine.py` is its simulated twin. docs/scale-out.md says what operators need.
"""
