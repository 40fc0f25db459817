"""The journal: one write and one sync make everything durable that all internal logs appended in a turn of the loop.

Fifty shards with a log each, and an event log each, would need a hundred writes and syncs a turn. So the batches of a turn
leave together, as one *entry* of the journal, and the replies leave when the entry is durable. The logs' own segments, in
Kafka's format, are written behind it in larger pieces.

    turn of the loop                                                  a tenth of a second later, or a megabyte
    shard 3  --+                                                      __consumer_offsets-3/....log
    shard 41 --+-- one entry --> coordinator.journal.7  (fdatasync)   __consumer_offsets-41/....log
    events   --+                                                      __coordinator_events-3/....log
    metadata --+                                                      __cluster_metadata-0/....log

An entry is durable as a whole or not at all: decisions and the events that describe them, or a transaction's state in several
shards, cannot be separated by a crash.

The journal is a few preallocated files, its *slots*, which are used in turn. When one is full, the segments of every log
that has batches in it are synced (a *checkpoint*), and then the slot may be overwritten. After a crash the next start appends
to each log what its segments lack, and syncs it, before it begins a journal of its own. After an orderly stop no slot is left:
the folder then is as Kafka's, and as that of versions without a journal.

    entry.py      the bytes of an entry
    slot.py       a file of the journal
    recovery.py   reads what a dead server left, and distinguishes a torn end from damage
    journal.py    gathers, commits, writes behind, checkpoints
    turns.py      what every journal has: the writers of its logs, and the end of a turn
    shared_journal.py  the same turns over an engine that several workers share (coordinator/cluster/engine)
    writer.py     what a shard or another log's owner has of it: `write`, and two callbacks

User topics do not use it: their batches may be large, and each partition syncs its own log (log/writer.py).
"""
