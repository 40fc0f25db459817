"""The process that Spark forks Python workers from, which has already imported what they need.

Otherwise each worker imports it for itself.
"""

import gc
from importlib import import_module

from pyspark import daemon
from pyspark import worker as _worker  # noqa: F401 - forked

from pyspark_coordinator_log.jobs import tables  # noqa: F401 - imports the functions of all tasks

import_module("pandas")  # pyspark.worker imports it in its functions.

if __name__ == "__main__":
    gc.freeze()  # Each worker collects garbage after each task; it need not search what was imported here.
    daemon.manager()
