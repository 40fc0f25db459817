"""Tables in an open format: Delta Lake through delta-rs, Apache Iceberg through pyiceberg. Neither needs a JVM package.

Spark writes the rows as Parquet files into a folder by day, as for any table. `write` copies them into the table as one commit
of its format: in place of all rows or, for a batch of `follow`, in addition to them. The commit names its batch, so one that
Spark repeats after the driver has died is not added twice.

The catalog of Iceberg tables is a SQLite database beside them. Readers without a catalog find the newest metadata file by
`metadata/version-hint.text`. It is written after the commit, so if the driver dies in between, they see the table without the
last commit until `follow` continues.
"""

import shutil
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from pyspark_coordinator_log.jobs.arguments import DELTA, ICEBERG
from pyspark_coordinator_log.jobs.files import DAY, write_atomically

READERS_H = 1
"""How long, in hours, the files of an earlier version of a table stay for readers of it after `tidy`."""
SMALL_BYTES = 128 << 20
"""`tidy` merges files below this size."""
_ROWS_IN_A_GROUP = 1 << 17
_BATCH = "coordinator.follow"
"""The application whose transactions in a Delta table, and the property of an Iceberg table which, count the batches."""
CATALOG = "iceberg.db"
"""The catalog of the Iceberg tables in the same folder."""
NAMESPACE = "coordinator"
"""The namespace of the tables in the catalog, and its name for it."""
_EPOCH = date(1970, 1, 1)
_COLUMNS = "coordinator.columns"
"""The property of an Iceberg table by which a change of its columns is noticed."""


class Moved(Exception):
    """An Iceberg table is not where its catalog says, or has none. Its paths are absolute, so it cannot be continued."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder}: an Iceberg table that {CATALOG} does not have there; it cannot be moved or copied")


class OpenTable(ABC):
    """A table of one of the formats in a local folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether the folder has a table of this format."""

    @property
    @abstractmethod
    def last_batch(self) -> int:
        """The number of the last batch that was added; -1 if there is none."""

    @property
    @abstractmethod
    def files(self) -> list[str]:
        """The Parquet files with the rows."""

    @abstractmethod
    def write(self, rows: ds.Dataset, batch: int | None = None) -> None:
        """Replaces all rows; with the number of a batch, adds its rows."""

    @abstractmethod
    def tidy(self, oldest: date | None) -> None:
        """Merges small files, and removes rows of the days before `oldest` and what no reader needs any more."""

    def remove(self) -> None:
        """Removes the table."""
        shutil.rmtree(self.folder, ignore_errors=True)


class _Delta(OpenTable):
    @property
    def _table(self) -> Any:
        from deltalake import DeltaTable  # noqa: PLC0415 - not always installed

        return DeltaTable(str(self.folder))

    @property
    def exists(self) -> bool:
        return (self.folder / "_delta_log").is_dir()

    @property
    def last_batch(self) -> int:
        found = self._table.transaction_version(_BATCH) if self.exists else None
        return -1 if found is None else int(found)

    @property
    def files(self) -> list[str]:
        return list(self._table.file_uris())

    def write(self, rows: ds.Dataset, batch: int | None = None) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake  # noqa: PLC0415 - as above

        how: dict[str, Any] = {"mode": "overwrite", "schema_mode": "overwrite"}
        if batch is not None:
            how = {"mode": "append", "schema_mode": "merge"}
            how["configuration"] = {"delta.logRetentionDuration": f"interval {READERS_H} hours"}
            how["commit_properties"] = CommitProperties(app_transactions=[Transaction(_BATCH, batch)])
        partition_by = [DAY] if DAY in rows.schema.names else None
        write_deltalake(str(self.folder), rows.scanner().to_reader(), partition_by=partition_by, **how)

    def tidy(self, oldest: date | None) -> None:
        table = self._table
        if oldest is not None:
            table.delete(f"{DAY} < '{oldest}'")
        table.optimize.compact(target_size=SMALL_BYTES)
        table.vacuum(READERS_H, dry_run=False, enforce_retention_duration=False)


class _Iceberg(OpenTable):
    @contextmanager
    def _catalog(self) -> Iterator[Any]:
        from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - as above

        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with closing(SqlCatalog(NAMESPACE, uri=f"sqlite:///{self.folder.with_name(CATALOG)}")) as catalog:
            catalog.create_namespace_if_not_exists(NAMESPACE)
            yield catalog

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with self._catalog() as catalog:
            yield self._load(catalog)

    @property
    def _identifier(self) -> tuple[str, str]:
        return NAMESPACE, self.folder.name

    @property
    def _location(self) -> str:
        # Without a scheme, Spark would look for it on its default file system.
        return f"file://{self.folder}"

    def _load(self, catalog: Any) -> Any:
        """The table; None if there is none. Raises Moved."""
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415 - as above

        try:
            table = catalog.load_table(self._identifier)
        except NoSuchTableError:
            # Without the hint, it died while it was made.
            if self._hint.is_file():
                raise Moved(self.folder) from None
            return None
        except FileNotFoundError as error:
            raise Moved(self.folder) from error
        if table.location() != self._location:
            raise Moved(self.folder)
        return table

    @property
    def _hint(self) -> Path:
        return self.folder / "metadata" / "version-hint.text"

    @property
    def exists(self) -> bool:
        try:
            with self._opened() as table:
                return table is not None
        except Moved:
            return False

    @property
    def last_batch(self) -> int:
        with self._opened() as table:
            if table is None:
                return -1
            self._write_hint(table)
            return int(table.properties.get(_BATCH, -1))

    @property
    def files(self) -> list[str]:
        with self._opened() as table:
            return [task.file.file_path for task in table.scan().plan_files()]

    def write(self, rows: ds.Dataset, batch: int | None = None) -> None:
        from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415 - as above

        properties = {_COLUMNS: rows.schema.to_string(show_schema_metadata=False, show_field_metadata=False)}
        if batch is not None:
            properties[_BATCH] = str(batch)
        with self._catalog() as catalog:
            table = self._load(catalog) if batch is not None or self.exists else None
            is_new_schema = table is not None and table.properties[_COLUMNS] != properties[_COLUMNS]
            if table is None or (is_new_schema and batch is None):
                change = self._created(catalog, rows.schema)
            else:
                change = table.transaction()
                if batch is None and table.current_snapshot() is not None:
                    change.delete(AlwaysTrue())
                if is_new_schema:
                    change.update_schema().union_by_name(rows.schema).commit()
            change.set_properties(properties)
            # The files of a batch that died before its commit are replaced.
            name = uuid.uuid4().hex if batch is None else f"batch-{batch:012d}"
            days = {ds.get_partition_keys(each.partition_expression).get(DAY) for each in rows.get_fragments()}
            files = [file for day in days for file in self._copied(rows, day, name)]
            if files:
                change.add_files(files, check_duplicate_files=False)
            self._write_hint(change.commit_transaction())

    def _created(self, catalog: Any, schema: pa.Schema) -> Any:
        """A transaction that makes a new table, in place of one with other columns."""
        self._drop(catalog)
        properties = {"commit.manifest-merge.enabled": "true", "write.metadata.delete-after-commit.enabled": "true"}
        change = catalog.create_table_transaction(
            self._identifier, schema, location=self._location, properties=properties
        )
        if DAY in schema.names:
            change.update_spec().add_identity(DAY).commit()
        return change

    def _drop(self, catalog: Any) -> None:
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415 - as above

        with suppress(NoSuchTableError):
            catalog.drop_table(self._identifier)
        super().remove()

    def remove(self) -> None:
        with self._catalog() as catalog:
            self._drop(catalog)

    def _copied(self, rows: ds.Dataset, day: date | None, name: str) -> list[str]:
        """Copies the rows of a day to files of the table, which may have one partition each, and returns their locations."""
        files: list[str] = []
        of_day = pc.field(DAY).is_null() if day is None else pc.field(DAY) == day
        ds.write_dataset(
            rows.scanner(filter=of_day if DAY in rows.schema.names else None),
            self.folder / "data",
            basename_template=f"{name}-{day or 'none'}-{{i}}.parquet",
            format="parquet",
            min_rows_per_group=_ROWS_IN_A_GROUP,
            existing_data_behavior="overwrite_or_ignore",
            file_visitor=lambda file: files.append(f"file://{file.path}"),
        )
        return files

    def _write_hint(self, table: Any) -> None:
        name = table.metadata_location.rpartition("/")[2].removesuffix(".metadata.json")
        write_atomically(self._hint, name)

    def tidy(self, oldest: date | None) -> None:
        from pyiceberg.io.pyarrow import schema_to_pyarrow  # noqa: PLC0415 - as above

        with self._opened() as table:
            by_day: dict[date | None, list[Any]] = {}
            for task in table.scan().plan_files():
                number = task.file.partition[0]
                by_day.setdefault(None if number is None else _EPOCH + timedelta(number), []).append(task.file)
            gone: list[Any] = []
            merged: list[str] = []
            for day, files in by_day.items():
                if oldest is not None and day is not None and day < oldest:
                    gone += files
                elif len(small := [each for each in files if each.file_size_in_bytes < SMALL_BYTES]) > 1:
                    paths = [each.file_path.removeprefix("file://") for each in small]
                    rows = ds.dataset(paths, schema_to_pyarrow(table.schema(), include_field_ids=False))
                    merged += self._copied(rows, day, uuid.uuid4().hex)
                    gone += small
            if gone:
                with table.transaction() as change:
                    with change.update_snapshot().overwrite() as overwrite:
                        for file in gone:
                            overwrite.delete_data_file(file)
                    if merged:
                        change.add_files(merged, check_duplicate_files=False)
            table.maintenance.expire_snapshots().older_than(datetime.now(UTC) - timedelta(hours=READERS_H)).commit()
            self._remove_unused(table)
            self._write_hint(table)

    def _remove_unused(self, table: Any) -> None:
        """Removes the files that no snapshot has, except new ones, which a reader may still use."""
        used = {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
        for snapshot in table.snapshots():
            used.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                if manifest.manifest_path not in used:
                    used.add(manifest.manifest_path)
                    used |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
        newest_s = time.time() - READERS_H * 3600
        for file in self.folder.glob("*/*"):
            if f"file://{file}" not in used and file.stat().st_mtime < newest_s:
                file.unlink()


_FORMATS: dict[str, type[OpenTable]] = {DELTA: _Delta, ICEBERG: _Iceberg}


def rows_by_day(folder: Path, schema: pa.Schema, *, is_by_day: bool) -> ds.Dataset:
    """The rows that Spark or its tasks wrote into a folder. `schema`: their columns without `day`."""
    # A batch must not change what earlier ones said: whether Spark knows that a column is never null depends on its plan.
    day = pa.schema([pa.field(DAY, pa.date32())] if is_by_day else [])
    columns = pa.schema([pa.field(each.name, _nullable(each.type)) for each in (*schema, *day)])
    return ds.dataset(
        folder,
        schema=columns,
        format="parquet",
        partitioning=ds.partitioning(day, flavor="hive") if is_by_day else None,
    )


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _nullable(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _nullable(each.type)) for each in kind])
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def open_table(table_format: str, folder: Path) -> OpenTable | None:
    """The table in a folder; None for Parquet, whose folder of files is the table."""
    made = _FORMATS.get(table_format)
    return None if made is None else made(folder)
