"""Spark over the logs: why did groups rebalance, who owned what, which commits were zombies.

What goes in are the views of `pyspark_coordinator_log` (its columns.py is the contract); what comes out are tables, audits
and a report. Every step is a function from DataFrames to a DataFrame:

    evidence         where the rows come from: a log folder, a Kafka cluster, the archive of `follow`
    intervals        from when to when was this member at this epoch, and that partition this member's
    rebalances       the epochs and generations of a group: why, how long, who was waited for
    transactions     what became of offsets that were committed in transactions
    verdicts         each commit that was decided, beside what history says about it; what other policies had said
    judging          the same of a batch; holdings: where a commit finds its history; findings: sums of it, and what is broken.
                     NumPy, without Spark
    broken           what must never be: the order of the epochs, two owners, zombies let through
    gaps             from where on the logs say everything, and where they are silent
    tables, audit    all of it, written; files: what tasks write themselves
    report           all of it, for a person: collected; pages, drawing and markup: shown
    follow           the same, continuously
    job              arguments, session, progress, exit codes

Three rules hold throughout. *Order is the log's*: the offset inside a shard, never a timestamp; an event, which was decided
when the state log ended at `state_offset`, sees the records before that offset and none at or after it. *No group is held in
memory*: windows of Spark sort and spill, and their keys go down to the member and the partition; commits are not sorted at all,
but judged as they are read, beside what is small: who had what when. So one group that is a third of the log is spread like the
rest. *Absent is absent*: where the log cannot say, a column is null and a table is empty.

Nothing here is imported by the server, and `pyspark` only by what is in this package: it is the extra `pipeline`.
"""
