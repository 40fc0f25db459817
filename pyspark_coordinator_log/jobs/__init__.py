"""Spark jobs over the coordinator's logs: causes of rebalances, partition owners, zombie commits.

The input is the views of `pyspark_coordinator_log` (the contract is its columns.py); the output is tables, audits and a
report. Every step is a function from DataFrames to a DataFrame:

    sources              where rows come from: a log folder, a Kafka cluster, or the archive that `follow` keeps
    intervals            when each member was at each epoch, and when it owned each partition
    rebalances           the epochs and generations of a group: cause, duration, slowest member
    transactions         the outcome of offsets committed in transactions
    verdicts             every decided commit, compared with history and with the other fencing policies
    judging              the same for one Arrow batch, in NumPy, without Spark
    assignment_history   the lookup from a commit to the intervals that judge it; also without Spark
    findings             sums over the verdicts, and the invariants they break
    invariants           violations: epochs out of order, two owners, accepted zombies
    gaps                 where the logs are complete, and where events are missing
    tables, audit        writing all of it; files: Parquet files that tasks write themselves
    report               collects the data of the HTML report; pages, drawing and markup render it
    follow               the same, continuously
    synthetic_log        a generated log with a known number of zombies, to try the jobs on
    job                  arguments, session, progress, exit codes; daemon: forks the Python workers

Three rules hold throughout.

- *The log defines the order.* Rows are ordered by the offset inside a shard, never by a timestamp. An event decided when
  the state log ended at `state_offset` sees the records before that offset and none at or after it.
- *No group is held in memory.* Spark's windows sort and spill, and their keys go down to member and partition. Commits are
  not sorted at all: they are judged as they are read, against the much smaller history of owners. A group that
  makes up a third of the log is therefore spread over the tasks like any other.
- *Missing stays missing.* Where the log does not say, a column is null and a table is empty.

The server imports nothing from here, and only this package needs `pyspark` (the extra `pipeline`).
"""
