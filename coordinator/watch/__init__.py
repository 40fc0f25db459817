"""`coordinator watch`: the page, the causes, the metrics and the events of a Kafka cluster that is not ours.

It reads `__consumer_offsets` and `__transaction_state` of the cluster as a consumer does, and replays them into the state of a
server. Everything that shows groups works on that state. Kafka's log has no causes and no refusals, so the events of groups are
derived: from the group before a record and after it.

    the cluster's log  ->  source       fetches, from the leader of each partition
                           shard        replays a batch; its position is that of the cluster's log
                           changes      what a record changed in a group, as events
                           commits      offsets that were committed, as events
                       ->  the event log of the shard, in the data folder

The event log is also the memory of a restart. The state is read from the cluster again, because it is compacted there; events
go on from the offset that the event log covers.

server        a server without listeners for clients, whose admin HTTP changes nothing
process       reaches the cluster, and runs that server
"""
