"""One small Spark session for all pipeline tests. Where Spark is unavailable they skip and say why."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_coordinator_log import JAVA_OPTIONS
from tests.pipeline.group_activity import LONG_SESSIONS, run_groups, run_transactions
from tests.pipeline.pipeline_rows import quick
from tests.support.kafka_broker import KafkaBroker

REPOSITORY = Path(__file__).resolve().parents[2]
_NEEDS = ("pyspark", "pyarrow", "pandas", "numpy")
_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions"
    " -XX:-BytecodeVerificationRemote"
)
"""Most code runs only a few times, so the second JIT compiler and bytecode verification would never pay off.

With the first compiler alone the JVM shrinks the code cache to a fifth and would keep evicting code.
"""
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "1g",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {_JAVA_OPTIONS}",
    "spark.log.level": "ERROR",
    # Every action renders its whole plan as text for listeners; there are none.
    "spark.sql.maxPlanStringLength": "0",
    "spark.sql.debug.maxToStringFields": "1",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """A local session with two cores and 1 GB."""
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("java is not installed")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Workers must use this Python and find the package by name in a folder of the path, as where it is installed;
    # an editable install is not in such a folder.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    from pyspark.sql import SparkSession

    _remember_names()
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def quick_plans(spark: object) -> Iterator[None]:
    """For the tests of a module: settings under which Spark spends little time on planning."""
    with quick(spark):
        yield


@pytest.fixture(scope="session")
def kafka_with_history(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A running Kafka broker whose log contains classic and consumer groups, and transactions."""
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), LONG_SESSIONS)
    try:
        broker.start()
        run_groups(broker.bootstrap)
        run_transactions(broker.bootstrap)
        yield broker
    finally:
        broker.stop()


def _remember_names() -> None:
    """Caches the JVM's classes and static methods, which py4j otherwise looks up on every access.

    To resolve `functions.col` it searches Spark's 280 jars for a class `functions$col`, and a plan has hundreds of such calls.
    """
    from py4j.java_gateway import JavaClass, JavaMember, JVMView

    def remembered(kind: type, what: type) -> None:
        known: dict[tuple[object, str], object] = {}
        ask = kind.__getattr__  # type: ignore[attr-defined]

        def answer(self: object, name: str) -> object:
            key = (vars(self).get("_fqn"), name)
            found = known.get(key)
            if found is None:
                found = ask(self, name)
                if isinstance(found, what):
                    known[key] = found
            return found

        kind.__getattr__ = answer  # type: ignore[attr-defined]

    remembered(JVMView, JavaClass)
    remembered(JavaClass, JavaMember)
