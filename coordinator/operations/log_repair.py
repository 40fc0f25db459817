"""`coordinator log repair`: shows what can be saved of the damaged logs of a data folder and what is lost; `--execute` does it.

Without `--execute` nothing is changed. With it, everything that is replaced is kept in a folder beside the data folder.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coordinator.journal.slot import PREFIX
from coordinator.log import catalog, segment_list
from coordinator.log.segment_swap import finish_swaps
from coordinator.operations import repair
from coordinator.operations.known_logs import (
    META_PROPERTIES,
    data_folder_problems,
    journaled_batches,
    known_logs,
    replay_batch,
)
from coordinator.operations.log_folders import (
    LogFolder,
    NoLogFolder,
    Problem,
    ReadableFile,
    SegmentFile,
    base_offset_of,
    find_log_folders,
)
from coordinator.operations.repair_plan import FilePlan, LogPlan, plan_log
from coordinator.server import data_folder
from coordinator.topics import names
from coordinator.topics.registry import Registry, Topic
from coordinator.world.disk import RealDisk

_METADATA_FOLDER = f"{names.CLUSTER_METADATA}-0"
_GROUPS_SHOWN = 20


@dataclass(slots=True)
class FolderPlan:
    """What is to be done in a data folder."""

    path: Path
    problems: list[Problem]
    """Of the files that belong to no log."""
    logs: list[LogPlan]
    registry: Registry = field(default_factory=Registry)
    """What remains of the metadata log, if it has to be repaired."""
    restored: list[Topic] = field(default_factory=list)
    """Topics that the metadata log has lost and the catalog still has."""

    @property
    def is_empty(self) -> bool:
        return not self.problems and not self.logs

    @property
    def repairs_metadata(self) -> bool:
        return any(plan.folder.name == _METADATA_FOLDER for plan in self.logs)


def make_plan(path: Path, *, is_ours: bool = False) -> FolderPlan:
    """The plan for a data folder. Raises NoLogFolder and OSError. `is_ours`: this process has locked it."""
    folders = find_log_folders(path, known_logs(path), journaled_batches(path, is_ours=is_ours))
    if folders == [LogFolder(path)]:
        raise NoLogFolder(f"{path} is the folder of one log; a repair takes the data folder")
    logs = [plan for plan in map(plan_log, folders) if plan is not None and _needs_repair(plan)]
    plan = FolderPlan(path, list(data_folder_problems(path, is_ours=is_ours)), logs)
    for log in logs:
        if log.folder.name == _METADATA_FOLDER:
            plan.registry = _remaining_registry(log)
            plan.restored = _lost_topics(path, plan.registry)
    return plan


def _needs_repair(plan: LogPlan) -> bool:
    """A start cuts a torn tail by itself."""
    return any(problem.kind != "torn tail" for problem in plan.problems)


def _remaining_registry(plan: LogPlan) -> Registry:
    registry = Registry()
    for file_plan in plan.kept_files:
        file = ReadableFile(file_plan.path)
        segment = SegmentFile(file_plan.path, base_offset_of(file_plan.path), file)
        for position, header in file_plan.kept:
            replay_batch(segment, header, position, registry, lambda *_: None)
        file.close()
    return registry


def _lost_topics(path: Path, registry: Registry) -> list[Topic]:
    """The topics of the catalog that the registry neither has nor had."""
    found = catalog.read(RealDisk(), str(path))
    topics: dict[str, Topic] = {}
    for log in found.logs.values() if found is not None else ():
        name, _, index = log.folder.rpartition("-")
        if log.topic_id != catalog.NO_ID and name not in registry.topics and name not in registry.removed:
            known = topics.get(name, Topic(name, bytes.fromhex(log.topic_id), 0))
            topics[name] = Topic(name, known.topic_id, max(known.partitions, int(index) + 1))
    return list(topics.values())


def run(path: Path, *, execute: bool, as_json: bool) -> int:
    """Prints the plan, and carries it out if `execute`. Returns 0 if nothing is damaged, or nothing any more; else 1.

    Raises NoLogFolder, CannotStart if a server uses the folder, and OSError.
    """
    if not execute:
        plan = make_plan(path)
        _print(plan, None, as_json=as_json)
        return 0 if plan.is_empty else 1
    find_log_folders(path, known_logs(path))
    with data_folder.lock(str(path)):
        for folder in make_plan(path, is_ours=True).logs:
            if folder.folder.path.is_dir():
                finish_swaps(RealDisk(), str(folder.folder.path))
        plan = make_plan(path, is_ours=True)
        if plan.is_empty:
            _print(plan, None, as_json=as_json)
            return 0
        kept = path.resolve().with_name(f"{path.resolve().name}-replaced-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}")
        kept.mkdir()
        _carry_out(plan, kept)
        left = make_plan(path, is_ours=True)
    _print(plan, kept, as_json=as_json)
    return 0 if left.is_empty else 1


def _carry_out(plan: FolderPlan, kept: Path) -> None:
    if any(Path(problem.file).name == META_PROPERTIES for problem in plan.problems):
        repair.restore_cluster_id(plan.path, kept)
    for log in plan.logs:
        repair.repair_log(log, kept)
    if plan.repairs_metadata:
        repair.restore_topics(plan.path / _METADATA_FOLDER, plan.restored, plan.registry.next_producer_id)
    if any(Path(problem.file).name.startswith(PREFIX) for problem in plan.problems):
        repair.set_journal_aside(plan.path, kept)
    repair.repair_catalog(plan.path, [log.folder.name for log in plan.logs], kept)


# --- output -----------------------------------------------------------------------------------------------------------


def _print(plan: FolderPlan, kept: Path | None, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_as_json(plan, kept), indent=2))
        return
    for problem in plan.problems:
        print(problem)
        print("  to do: " + _remedy(problem))
    for log in plan.logs:
        for problem in log.problems:
            print(problem)
        for line in _steps(log):
            print(f"  to do: {line}")
        for line in _losses(log):
            print(f"  lost: {line}")
    for topic in plan.restored:
        print(f"  to do: restore the topic {topic.name} with {topic.partitions} partitions; its settings are lost")
    if plan.is_empty:
        print("nothing to repair")
    elif kept is None:
        print(
            f"nothing was changed; to repair it, stop the server and run: coordinator log repair {plan.path} --execute\n"
            f"if another server (Kafka, or an older version of this one) has written to this folder since, nothing may be "
            f"damaged: remove {catalog.NAME} and every {segment_list.NAME} instead"
        )
    else:
        print(f"repaired; what was replaced is in {kept}")


def _remedy(problem: Problem) -> str:
    name = Path(problem.file).name
    if name == catalog.NAME:
        return "remove it; the next start writes a new one"
    if name.startswith(PREFIX):
        return "set the journal aside; records that only it has are lost"
    return "write it with the cluster.id of the catalog"


def _steps(plan: LogPlan) -> list[str]:
    steps = [_file_step(file) for file in plan.files if file.set_aside or file.is_rewritten]
    if plan.needs_segment:
        steps.append(f"continue at offset {plan.end_offset}")
    return [*steps, "write its checkpoint and its list of segments"]


def _file_step(file: FilePlan) -> str:
    if file.set_aside:
        return f"set {file.path.name} aside: {file.set_aside}"
    dropped = file.size_bytes - file.kept_bytes
    return f"drop {dropped} of {file.size_bytes} bytes of {file.path.name}, and keep {len(file.kept)} batches"


def _losses(plan: LogPlan) -> list[str]:
    lines = [f"offsets {first} to {end - 1}, up to {end - first} records" for first, end in plan.lost]
    if plan.lost and plan.groups:
        shown = sorted(plan.groups)[:_GROUPS_SHOWN]
        more = f" and {len(plan.groups) - len(shown)} more" if len(shown) < len(plan.groups) else ""
        lines.append(f"perhaps the latest state of {len(plan.groups)} groups: {', '.join(map(repr, shown))}{more}")
    return lines


def _as_json(plan: FolderPlan, kept: Path | None) -> dict[str, Any]:
    return {
        "path": str(plan.path),
        "executed": kept is not None,
        "replaced_files": None if kept is None else str(kept),
        "problems": [problem.as_json() for problem in plan.problems],
        "logs": [
            {
                "folder": str(log.folder.path),
                "problems": [problem.as_json() for problem in log.problems],
                "steps": _steps(log),
                "next_offset": log.end_offset,
                "lost_offsets": [list(each) for each in log.lost],
                "groups": sorted(log.groups) if log.lost else [],
            }
            for log in plan.logs
        ],
        "restored_topics": {topic.name: topic.partitions for topic in plan.restored},
    }
