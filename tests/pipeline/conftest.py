"""One Spark session for all tests of the pipeline, as small as Spark gets; where it cannot be had, they skip and say why."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from spark_connector import connector_jars

REPOSITORY = Path(__file__).resolve().parents[2]
_NEEDS = ("pyspark", "pyarrow", "pandas", "numpy")


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """A local session of two cores and 1 GB, with Kafka's connector where its jars can be had."""
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("java is not installed")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Its workers are to be this Python, and to find the package by its name among the folders of the path, as they
    # would where it is installed; an editable install is not in a folder.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    from pyspark.sql import SparkSession

    jars = connector_jars()
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "1g")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.jars", "" if jars is None else ",".join(jars))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    yield session
    session.stop()
