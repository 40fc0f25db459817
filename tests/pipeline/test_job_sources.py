"""What the jobs leave out of a log, and the process that reads it for them."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from pyspark_coordinator_log.jobs import sources

THREADS = """
import os, pyspark_coordinator_log.jobs.daemon
others = [each for each in os.listdir("/proc/self/task") if int(each) != os.getpid()]
print(*(open(f"/proc/self/task/{each}/comm").read().strip() for each in others))
"""


@pytest.mark.parametrize("kind", ["Consumer", "Share", "Streams"])
def test_target_assignments_of_members_are_left_out_unless_they_cannot_be_decoded(kind):
    target, metadata = f"{kind}GroupTargetAssignmentMember", f"{kind}GroupTargetAssignmentMetadata"
    rows = pa.record_batch({"type": [target, metadata, target, None], "problem": [None, None, "short", "no type"]})
    assert sources._without_targets(rows).to_pylist() == rows.to_pylist()[1:]


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_process_that_spark_forks_has_no_thread_that_a_fork_would_lose():
    """jemalloc starts its own again in the child. Spark sets OMP_NUM_THREADS, too."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    found = subprocess.run([sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) <= {"jemalloc_bg_thd"}
