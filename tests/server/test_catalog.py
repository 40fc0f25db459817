"""The catalog of the data folder: written when logs appear, whole after any crash, and of no consequence for deleted topics."""

from random import Random

import pytest

from coordinator.log import catalog
from coordinator.log.catalog import NO_CATALOG, Catalog, KnownLog
from coordinator.log.recovery import DamagedLog
from coordinator.server.catalog_keeper import INTERVAL_MS, CatalogKeeper
from coordinator.server.data_folder import cluster_id, make_shard_folders, read_catalog
from coordinator_lab.simulation.disk import PowerCut, SimulatedDisk
from tests.topics.data_plane import FOLDER, DataPlane, batch

LOG = KnownLog("orders-0", "ab" * 16, -1, 7, 5, 0x1234)
FULL = Catalog("cluster", {log.folder: log for log in (LOG, LOG._replace(folder="__consumer_offsets-1", topic_id="-"))})


@pytest.fixture
def disk():
    disk = SimulatedDisk()
    disk.make_folder(FOLDER)
    disk.sync_folder("/")
    return disk


class Keeper:
    """A keeper with logs that the test sets, a timer that it fires and a worker that it runs."""

    def __init__(self, disk, found=NO_CATALOG):
        self.logs, self.jobs, self.timers = [], [], []
        self.has_journal = False
        self.keeper = CatalogKeeper(
            disk,
            FOLDER,
            found,
            "cluster",
            lambda: self.logs,
            lambda: self.has_journal,
            run_in_thread=self.submit,
            schedule=self.schedule,
        )

    def submit(self, function, done):
        self.jobs.append((function, done))

    def schedule(self, delay_ms, callback):
        assert delay_ms == INTERVAL_MS
        self.timers.append(callback)
        return self

    def fire(self):
        self.timers.pop()()

    def work(self):
        function, done = self.jobs.pop()
        try:
            done(function())
        except OSError as error:
            done(error)


def test_what_is_written_is_read_and_a_damaged_file_is_noticed():
    content = catalog.encode(FULL)
    assert catalog.decode(content) == FULL
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1
        assert catalog.decode(bytes(damaged)) is None
        assert catalog.decode(content[:position]) is None or position == len(content) - 1


def test_a_start_writes_the_catalog_if_it_has_changed(disk):
    keeper = Keeper(disk)
    keeper.logs = [LOG]
    keeper.keeper.begin()
    assert catalog.read(disk, FOLDER) == Catalog("cluster", {"orders-0": LOG})
    operations = disk.operations
    keeper.keeper.write()
    assert disk.operations == operations


def test_the_timer_writes_it_when_a_log_or_a_segment_is_new_and_not_for_mere_growth(disk):
    keeper = Keeper(disk)
    keeper.keeper.begin()
    keeper.logs = [LOG]
    keeper.fire()
    assert not keeper.keeper.idle
    keeper.fire()
    assert len(keeper.jobs) == 1, "one write at a time"
    keeper.work()
    assert keeper.keeper.idle
    assert catalog.read(disk, FOLDER).logs == {"orders-0": LOG}
    keeper.logs = [LOG._replace(end_offset=8)]
    keeper.fire()
    assert not keeper.jobs
    keeper.logs = [LOG._replace(end_offset=8, base_offset=8)]
    keeper.fire()
    keeper.work()
    assert catalog.read(disk, FOLDER).logs["orders-0"].base_offset == 8


def test_a_full_disk_keeps_the_old_catalog_and_the_next_time_writes_the_new_one(disk, caplog):
    keeper = Keeper(disk)
    keeper.logs = [LOG]
    keeper.keeper.begin()
    used = disk.used_bytes()
    disk.capacity_bytes = used + 10
    keeper.logs = [LOG, LOG._replace(folder="orders-1")]
    keeper.fire()
    keeper.work()
    assert "event=catalog_not_written" in caplog.text
    assert (catalog.read(disk, FOLDER).logs, disk.used_bytes()) == ({"orders-0": LOG}, used)
    disk.capacity_bytes = None
    keeper.fire()
    keeper.work()
    assert len(catalog.read(disk, FOLDER).logs) == 2


@pytest.mark.parametrize("operations", range(8))
@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_leaves_the_old_or_the_new_catalog(disk, operations, seed):
    old = Catalog("cluster", {})
    catalog.write(disk, FOLDER, old)
    disk.cut_after(operations)
    try:
        catalog.write(disk, FOLDER, FULL)
        was_written = True
    except PowerCut:
        was_written = False
    disk.crash(Random(seed))
    assert catalog.read(disk, FOLDER) in ([FULL] if was_written else [old, FULL])


def test_a_start_refuses_a_damaged_catalog_and_the_cluster_id_of_another_folder(disk):
    catalog.write(disk, FOLDER, FULL)
    found = read_catalog(disk, FOLDER)
    with pytest.raises(DamagedLog, match=r"meta\.properties .*the file is missing; it had cluster\.id=cluster"):
        cluster_id(disk, FOLDER, None, found)
    file = disk.open(f"{FOLDER}/meta.properties")
    file.append(b"cluster.id=other\n")
    with pytest.raises(DamagedLog, match=r"it has cluster\.id=other"):
        cluster_id(disk, FOLDER, None, found)
    file.truncate(0)
    file.append(b"cluster.id=cluster\n")
    assert cluster_id(disk, FOLDER, None, found) == "cluster"
    disk.open(f"{FOLDER}/{catalog.NAME}").truncate(9)
    with pytest.raises(DamagedLog, match=r"log-catalog .*wrong checksum"):
        read_catalog(disk, FOLDER)


def test_a_folder_that_the_catalog_has_is_not_made_again(disk):
    make_shard_folders(disk, FOLDER, [("__consumer_offsets", 2)], [], FULL)
    assert disk.list(FOLDER) == ["__consumer_offsets-0"]


def test_the_records_of_a_deleted_topic_are_not_missed_when_its_name_is_used_again():
    plane = DataPlane()
    plane.create("t")
    plane.produce(batch())
    logs = {log.folder: log for log in plane.topics.known_logs()}
    assert set(logs) == {"t-0"}
    plane.delete("t")
    plane.create("t")
    plane.killed(Catalog("cluster", logs))
    assert plane.topics.offline == {}
    assert plane.produce(batch()).base_offset == 0


def test_a_partition_without_its_folder_is_offline_until_it_is_repaired():
    plane = DataPlane()
    plane.create("t")
    plane.produce(batch())
    logs = {log.folder: log for log in plane.topics.known_logs()}
    for name in plane.disk.list(f"{FOLDER}/t-0"):
        plane.disk.remove(f"{FOLDER}/t-0/{name}")
    plane.disk.remove_folder(f"{FOLDER}/t-0")
    for _ in range(2):
        plane.killed(Catalog("cluster", logs))
        assert plane.topics.offline == {"t": frozenset({0})}
        assert {log.folder: log for log in plane.topics.known_logs()}["t-0"] == logs["t-0"]
