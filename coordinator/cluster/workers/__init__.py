"""Several workers over one engine: who has which shard, and what all of them know.

A worker is a server process. The shards of groups and transactions are spread evenly over the workers that live. Beats and the
list of the living only decide *when* a shard moves. That two workers never both acknowledge is the engine's doing: it fences
the older claim of a log in the statement that appends.

    assignment.py        which worker should have which log: even, with few moves; pure
    lease.py             until when a worker that the engine may not hear may still answer reads
    cluster.py           the living workers and the owners, as clients see them
    reachability.py      whether clients can reach this worker
    ownership.py         beats, looks, claims what this worker should have, releases what others should have
    replay_turns.py      in which order the shards that it takes are replayed
    take_over.py         one log: claim, replay, load; hand over, release
    snapshots.py         bounds the replay of a log
    shared_events.py     the event log of a shard: its end at a take-over, the rest behind it, its retention
    metadata_sharing.py  topics, settings, users and producer ids: one log that every worker follows, and any may write
    joining.py           before a server is made: the cluster's id, the metadata, and whether this worker may join
    inter_broker.py      how a worker connects to others, and who it is there
    peers.py             asks another worker: markers and partitions of transactions whose shard is there
    statistics.py        what a worker counts of its shards and appends, for metrics
    tasks.py             ends tasks, and runs steps in a thread
"""
