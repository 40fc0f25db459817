"""The process that Spark forks Python workers from, which has already imported what they need.

Otherwise each worker imports it for itself. What is frozen, the garbage collection after each task does not search.
"""

import gc

import pandas as _pandas  # noqa: F401, ICN001 - for pyspark.worker, which imports it in its functions
from pyspark import daemon
from pyspark import worker as _worker  # noqa: F401 - forked

from pyspark_coordinator_log.jobs import tables  # noqa: F401 - imports the functions of all tasks

if __name__ == "__main__":
    gc.freeze()
    daemon.manager()
