"""Share partitions (KIP-932): what the leader of a partition does for the share groups that read it.

    in_flight.py   offsets that are acquired, acknowledged or were given back, in spans of one state
    machine.py     the decisions: acquire, acknowledge, release, expire, move the start; pure, time is an argument
    leader.py      one share partition: the machine, its durable state (share_state/), the timer of its locks
    sessions.py    share sessions: what a member reads, and the epoch of its next request
    manager.py     all share partitions and sessions of a server
    fetch.py       one ShareFetch: acknowledges, waits for records, acquires them
    outcomes.py    what becomes of acquired records, counted and reported

Acquisition locks are only in memory, as in Kafka: after a crash the records of a lock are available again, and their delivery
count is what it was when they were last acknowledged, given back or expired. What was acknowledged is durable before its
client hears of it.
"""
