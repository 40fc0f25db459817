"""A Spark session for a job, or the one that there is.

Under `spark-submit` the cluster's settings are there before we are; by itself a job runs on this machine. What is set here
is what the jobs' results depend on (UTC, since days are cut by it) and what makes a laptop bearable; `--conf` overrides all.
"""

import os
import sys

from pyspark.sql import SparkSession

from pyspark_coordinator_log import JAVA_OPTIONS

WORKER_WITHIN_S = 60
"""How long Spark and its Python workers wait for each other's first word; on a busy machine its own 15 are not enough."""
DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.python.authenticate.socketTimeout": f"{WORKER_WITHIN_S}s",
    # Or the Kafka source reads nothing of an internal topic, and does not say so (pyspark_coordinator_log/kafka.py).
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
}
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "16",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # Each action tells listeners its whole plan as text; nobody here listens.
    "spark.sql.maxPlanStringLength": "0",
}
"""Where driver and executors are this process."""
QUICK = {
    "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
}
"""For jobs whose work is done in Python: what Java's second compiler would take is more than it would save.

The classes are Spark's own, from where pip put them: what it takes to verify all of them is a part in six of its start.
"""


def session(master: str | None, settings: dict[str, str], *, quick: bool = False) -> SparkSession:
    """The session; `settings` are the user's own, and `quick` is for a job of which Java does little."""
    builder = SparkSession.builder.appName("kafka-group-coordinator")
    submitted = "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    if master is None and not submitted:
        master = "local[*]"
    values = dict(DEFAULTS)
    os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", str(WORKER_WITHIN_S))
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            # Workers, and whoever looks for data sources: not the first python3 of the PATH, which knows none of this.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            values |= LOCAL | (QUICK if quick else {})
    for name, value in (values | settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
