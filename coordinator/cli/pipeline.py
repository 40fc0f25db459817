"""`coordinator pipeline`: runs the Spark jobs."""

from types import SimpleNamespace

from coordinator.cli.command_line import Group
from coordinator.pipeline import arguments


def _run(options: SimpleNamespace) -> int:
    from coordinator.pipeline import job

    return job.run(options)


pipeline = arguments.jobs(_run, Group)
