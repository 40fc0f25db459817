"""Creates the Spark session of a job, or uses the existing one.

Under `spark-submit` the cluster's settings are already in place; otherwise a job runs on this machine. The settings here are
those that results depend on (UTC, because days are cut by it) and those that suit a laptop. `--conf` overrides them all.
"""

import os
import sys

from pyspark.sql import SparkSession

from pyspark_coordinator_log import JAVA_OPTIONS
from pyspark_coordinator_log.jobs.java import archive_options

WORKER_WITHIN_S = 60
"""How long Spark and its Python workers wait for each other. Spark's own 15 seconds are too short on a busy machine."""
DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.python.authenticate.socketTimeout": f"{WORKER_WITHIN_S}s",
}
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "16",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # Local executors have this package; those of a cluster may have Spark alone.
    "spark.python.daemon.module": "pyspark_coordinator_log.jobs.daemon",
    # Every action renders its whole plan as text for listeners; there are none.
    "spark.sql.maxPlanStringLength": "0",
}
"""For a driver and executors in this process."""
QUICK = {
    "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
}
"""For jobs that do most of their work in Python: the JVM's second compiler would cost more than it saves.

The classes are Spark's own, as pip installed them, and verifying them takes a sixth of the start-up time.
"""


def is_connect(master: str | None) -> bool:
    """Whether Spark is reached through Spark Connect, so that this process needs no Java."""
    return master is not None and master.startswith("sc://")


def is_submitted() -> bool:
    """Whether `spark-submit` started this process, which then has its Java already."""
    return "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ


SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""For a log of a few megabytes: to compile a plan, or to plan it again after each stage, takes longer than to run it."""


def session(master: str | None, settings: dict[str, str], *, quick: bool = False, small: bool = False) -> SparkSession:
    """Returns the session. `settings` are the user's own; `quick` suits jobs with little work for Java, `small` short logs."""
    builder = SparkSession.builder.appName("kafka-group-coordinator")
    if master is None and not is_submitted():
        master = "local[*]"
    values = dict(DEFAULTS)
    os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", str(WORKER_WITHIN_S))
    if master is not None and is_connect(master):
        builder = builder.remote(master)
    elif master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            # For workers and data source lookup: the Python that has this package, not the first python3 in PATH.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            values |= LOCAL | (QUICK if quick else {}) | (SMALL if small else {})
            if java_options := archive_options():
                values["spark.driver.defaultJavaOptions"] = java_options
    if is_connect(master):
        # The server has its other settings already.
        values = {name: value for name, value in values.items() if name.startswith("spark.sql.")}
    for name, value in (values | settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
