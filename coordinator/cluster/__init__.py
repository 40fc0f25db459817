"""Several processes as one service. A server is one of the workers of a cluster; it knows nothing of this package.

supervisor     the workers of one machine: a process that keeps their logs, starts them and watches them
start          joins a cluster before the server is made, and waits for an engine that does not answer
sharing        what a server has in addition as one of several workers: its `InternalLogs`
workers        who has which shard, take-overs, what all workers know, requests of one worker to another
engine_writer  the claims of one worker, and what it appends to the engine
engine         what keeps the logs of several workers: a database or Kafka cluster, or the supervisor
"""
