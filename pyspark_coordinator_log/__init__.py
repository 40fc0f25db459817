"""A Spark data source for the log of a group coordinator: our server's, or Kafka's.

    spark.read.format("coordinator_log").option("view", "commits").load("data")
    spark.readStream.format("coordinator_log").option("view", "history").load("data")

Spark finds the package by its name wherever it is installed for driver and workers. The layers, each of which may import
those below it:

    source     what Spark calls: batch and stream readers          measure    benchmarks
    planning   ranges of the log for each task
    positions  how far a stream has read, and of which log
    options    the options of a reader
    reading    reads a range of offsets from files
    folders    the layout of a data folder on disk
    views      records as the columns of a view
    commits, decisions, assignments     the frequent record types, decoded by column
    messages               all other types, decoded one record at a time
    records, batches       finds the records; checks and decompresses batches
    fields     reads the next field of many records at once
    buffers    reads many values at once from one buffer
    columns    the columns of the views

Only `source` needs Spark. The rest is a library that turns the bytes of a log into Arrow.
"""

from typing import Any

JAVA_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""For the JVMs that receive the rows (executors, or a local driver): turns off Arrow's checks on every access.

Spark tests for null before each access anyway. The checks take a quarter of the total reading time.
"""


def __getattr__(name: str) -> Any:
    """Imports the data source on first use, so that the decoder works without Spark."""
    if name == "DefaultSource":
        from pyspark_coordinator_log.source import DefaultSource  # noqa: PLC0415

        return DefaultSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
