"""Spark's door to the log of a group coordinator, our server's or Kafka's.

    spark.read.format("coordinator_log").option("view", "commits").load("data")
    spark.readStream.format("coordinator_log").option("view", "history").load("data")

Installed where Spark's driver and workers run, the package registers itself by its name. The layers, each of which may
import those below it:

    source     what Spark calls: batch and stream readers          kafka      the same columns from Kafka's own source
    planning   which task reads what                               measure    how fast it is
    positions  how far a stream has read, and of which log
    options    what a reader may be told
    reading    a range of offsets from its files
    folders    a data folder as it lies on the disk
    views      records as the columns of a view
    commits, decisions, assignments     what is frequent, a column at a time
    messages               everything else, one by one
    records, batches       where the records are; whole, sound, plain batches
    fields     one field after the other, of many records at once
    gather     many values at once from one buffer
    columns    the columns of the views

`source` alone and `kafka` need Spark. The rest is a library that turns bytes of a log into Arrow.
"""

from typing import Any

JAVA_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""For the JVMs that get what is read, executors or a local driver: Arrow checks every access of every value otherwise.

Spark asks before each whether there is a value. It is a quarter of all the time that reading takes.
"""


def __getattr__(name: str) -> Any:
    """The data source is made when Spark asks for it, so that the decoder can be had without Spark."""
    if name == "DefaultSource":
        from pyspark_coordinator_log.source import DefaultSource  # noqa: PLC0415

        return DefaultSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
