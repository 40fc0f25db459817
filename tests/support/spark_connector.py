"""The jars of Spark's Kafka connector, from Maven.

A connector of another 4.x version than the session's is good enough for tests, and not every mirror has the newest.
Dependencies that Spark includes are left out; the remaining ones are listed here, so that Maven has nothing to choose.
"""

import os
from functools import cache

import pytest

from tests.support.java_support import kafka_classpath

TEST_MARKERS = ("java",)

SPARK = "4.2.0"
_ARTIFACTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
_BROUGHT_BY_SPARK = (
    "org.apache.spark:*",
    "org.apache.hadoop:*",
    "org.scala-lang:*",
    "org.scala-lang.modules:*",
    "com.google.code.findbugs:*",
    "org.slf4j:*",
    "com.github.luben:*",
    "org.lz4:*",
    "at.yawk.lz4:*",
    "org.xerial.snappy:*",
)


@cache
def connector_jars() -> tuple[str, ...] | None:
    """Paths of the jars; None where they cannot be fetched (`why_no_connector` returns the reason)."""
    try:
        return tuple(kafka_classpath(_ARTIFACTS, exclude=_BROUGHT_BY_SPARK).split(os.pathsep))
    except pytest.skip.Exception as reason:
        _why.append(str(reason))
        return None


_why: list[str] = []


def why_no_connector() -> str:
    """The reason why there are no jars."""
    return _why[0] if _why else ""
