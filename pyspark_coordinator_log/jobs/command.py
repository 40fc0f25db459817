"""`coordinator pipeline`: runs the Spark jobs."""

from types import SimpleNamespace

from coordinator.cli.command_line import Group
from pyspark_coordinator_log.jobs import arguments


def _run(options: SimpleNamespace) -> int:
    from pyspark_coordinator_log.jobs import job  # noqa: PLC0415 - imports Spark

    return job.run(options)


pipeline = arguments.jobs(_run, Group)
