"""Makes a data folder from a source: complete, or not at all."""

import gc
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from coordinator.client.login.tls import Security
from coordinator.config.settings import ServerConfig
from coordinator.groups import group_configs
from coordinator.operations.client import OperationFailed, parse_address
from coordinator.operations.fork import ForkFailed
from coordinator.operations.fork.data_folder import ForkedFolder
from coordinator.operations.fork.folder_source import FolderSource
from coordinator.operations.fork.groups_read import GroupsReader, members_of
from coordinator.operations.fork.network_source import NetworkSource
from coordinator.operations.fork.source import Source
from coordinator.operations.fork.summary import Summary
from coordinator.operations.fork.topics import CommittedOffsets, topics_of
from coordinator.operations.progress import progress
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.java import positive_hash
from coordinator.protocol.messages import ConfigRecord
from coordinator.server import CannotStart, data_folder
from coordinator.topics import topic_settings
from coordinator.topics.registry import Topic
from coordinator.topics.topics import new_topic_id
from coordinator.world.disk import RealDisk
from coordinator.world.entropy import RealEntropy
from coordinator.world.folder_lock import LOCK_NAME

SUFFIX = ".unfinished-fork"
"""The folder is built under its name with this at the end."""


def open_source(text: str, timeout_s: float, security: Security) -> Source:
    """The source of this name: a folder, or HOST:PORT. Raises ForkFailed and OSError."""
    path = Path(text)
    if text and path.is_dir():
        return FolderSource(path)
    if "/" in text or re.search(r":[0-9]+\Z", text) is None:
        raise ForkFailed(f"{text!r} is neither a folder nor HOST:PORT")
    try:
        for each in text.split(","):
            parse_address(each)
    except OperationFailed as error:
        raise ForkFailed(str(error)) from error
    return NetworkSource(text, timeout_s, security)


def run(source_name: str, config: ServerConfig, *, keep_members: bool, timeout_s: float, security: Security) -> Summary:
    """Makes the data folder of the configuration. Raises ForkFailed; then there is no data folder."""
    try:
        _refuse_inside(source_name, Path(config.log_dir))
        with (
            _new_folder(Path(config.log_dir)) as folder,
            closing(open_source(source_name, timeout_s, security)) as source,
        ):
            return _fork(source, folder, config, keep_members=keep_members)
    except CannotStart as error:
        raise ForkFailed(str(error)) from error
    except FileNotFoundError as error:
        raise ForkFailed(
            f"{error.filename} went away while {source_name} was read: a server works on it; read it over the network,"
            " or copy the folder while the server is stopped"
        ) from error
    except OSError as error:
        raise ForkFailed(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from error


@contextmanager
def _new_folder(target: Path) -> Iterator[str]:
    """A folder that becomes `target` at the end of the block, and is removed if the block fails."""
    target = target.resolve()
    _refuse_used(target)
    building = target.with_name(target.name + SUFFIX)
    with data_folder.lock(str(building)):
        try:
            _empty(building)  # what a killed fork has left
            yield str(building)
            _put_in_place(building, target)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise


def _refuse_inside(source_name: str, target: Path) -> None:
    """Nothing is written to a source, so a fork cannot be made in its folder."""
    source = Path(source_name)
    if source_name and source.is_dir() and target.resolve().is_relative_to(source.resolve()):
        raise ForkFailed(f"the data folder {target} is in the folder that is to be forked")


def _refuse_used(target: Path) -> None:
    if target.is_dir() and {each.name for each in target.iterdir()} - {LOCK_NAME}:
        raise ForkFailed(
            f"the data folder {target} is not empty: start without --from to go on with it, or use another --data-dir"
        )
    if os.path.ismount(target):
        raise ForkFailed(f"the data folder {target} is a mount point: use a folder in it as --data-dir")


def _empty(building: Path) -> None:
    for each in building.iterdir():
        if each.name != LOCK_NAME:
            shutil.rmtree(each) if each.is_dir() else each.unlink()


def _put_in_place(building: Path, target: Path) -> None:
    if target.is_dir():
        (target / LOCK_NAME).unlink(missing_ok=True)
        target.rmdir()
    building.rename(target)
    RealDisk().sync_folder(str(target.parent))


def _fork(source: Source, folder: str, config: ServerConfig, *, keep_members: bool) -> Summary:
    now_ms = time.time_ns() // 1_000_000
    made = ForkedFolder(
        RealDisk(),
        folder,
        group_partitions=config.log.offsets_topic_num_partitions,
        segment_bytes=config.log.offsets_topic_segment_bytes,
        node_id=config.node_id,
        now_ms=now_ms,
    )
    summary = Summary(source.name, keep_members, partition_count=source.partition_count)
    committed = _copy_groups(source, made, config, summary, now_ms, keep_members=keep_members)
    _copy_topics(source, made, config, summary, committed)
    made.close()
    return summary


def _copy_groups(
    source: Source, made: ForkedFolder, config: ServerConfig, summary: Summary, now_ms: int, *, keep_members: bool
) -> CommittedOffsets:
    committed = CommittedOffsets()
    homes: dict[str, int] = {}
    with progress("reading groups", sum(source.partitions.values())) as advance:
        for index in source.partitions:
            reader = GroupsReader(config.groups, keep_members=keep_members)
            source.read(index, reader.visit, advance)
            misplaced = set(_misplaced(reader, index, source.partition_count, homes))
            summary.misplaced_groups += sorted(misplaced)
            for group_id, key, value in reader.records(now_ms):
                if group_id not in misplaced:
                    made.add_group_record(group_id, key, value)
            for group_id, offsets in reader.offsets.by_group.items():
                if group_id not in misplaced:
                    committed.add_all(offsets)
                    summary.offsets += len(offsets)
            _count(reader, misplaced, summary)
            del reader
            gc.collect()
    return committed


def _misplaced(reader: GroupsReader, index: int, partition_count: int | None, homes: dict[str, int]) -> Iterator[str]:
    """The groups that the source itself does not look for in this partition. Raises ForkFailed if that cannot be decided."""
    for group in reader.groups:
        group_id = group.group_id
        if partition_count is not None and positive_hash(group_id) % partition_count != index:
            yield group_id
        elif homes.setdefault(group_id, index) != index:
            raise ForkFailed(
                f"group {group_id} is in the partitions {homes[group_id]} and {index}: the folders are of different servers"
            )


def _count(reader: GroupsReader, misplaced: set[str], summary: Summary) -> None:
    summary.partitions_read += 1
    summary.records_read += reader.records_read
    for group in reader.groups:
        if group.group_id not in misplaced:
            summary.groups[group.kind] = summary.groups.get(group.kind, 0) + 1
            summary.members += members_of(group)
    summary.pending += reader.pending()
    summary.share_groups += reader.skipped.share_groups
    for number, count in reader.skipped.unknown_types.items():
        summary.unknown_types[number] = summary.unknown_types.get(number, 0) + count


def _copy_topics(
    source: Source, made: ForkedFolder, config: ServerConfig, summary: Summary, committed: CommittedOffsets
) -> None:
    found = source.read_topics()
    summary.notes += found.notes
    for topic, is_inferred in topics_of(found, committed):
        configs = _accepted(
            topic.configs, lambda one: topic_settings.check(one.items()), f"topic {topic.name}", summary
        )
        topic_id = topic.topic_id or new_topic_id(RealEntropy())
        made.add_topic(Topic(topic.name, topic_id, topic.partitions, configs), topic.ranges)
        summary.topics += 1
        summary.topic_partitions += topic.partitions
        if is_inferred:
            summary.inferred_topics.append(topic.name)
    for group_id, overrides in found.group_configs.items():
        known = _accepted(overrides, lambda one: group_configs.check(config.groups, one), f"group {group_id}", summary)
        for name, value in known.items():
            made.add_metadata(
                ConfigRecord(resource_type=group_configs.RESOURCE_TYPE, resource_name=group_id, name=name, value=value)
            )


def _accepted(
    configs: Mapping[str, str], check: Callable[[dict[str, str]], object], owner: str, summary: Summary
) -> dict[str, str]:
    """The configs that this server accepts."""
    accepted = {}
    for name, value in configs.items():
        try:
            check({name: value})
        except KafkaError:
            summary.refused_configs.append(f"{name} of {owner}")
        else:
            accepted[name] = value
    return accepted
