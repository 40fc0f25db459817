"""The generated log for trying the jobs: what the audit would report in it is what was planted."""

import pytest

pytest.importorskip("pyarrow")

from pyspark_coordinator_log import columns, planning
from pyspark_coordinator_log.jobs.synthetic_log import Plan, write_synthetic_log
from pyspark_coordinator_log.options import parse
from pyspark_coordinator_log.reading import read


def test_its_members_are_dynamic(tmp_path):
    """With an empty instance id they would all be one static member, whose epochs fall."""
    write_synthetic_log(tmp_path, Plan(groups=3, decisions=200))
    options = parse({"path": str(tmp_path), "view": columns.STATE})
    how = options.reading(("type", "member_id", "instance_id"))
    rows = [
        row
        for task in planning.tasks(options)
        for part in task
        for batch in read(part, how)
        for row in batch.to_pylist()
    ]
    members = [row for row in rows if row["type"] == "ConsumerGroupMemberMetadata"]
    assert {row["instance_id"] for row in members} == {None}
    assert len({row["member_id"] for row in members}) > 3
