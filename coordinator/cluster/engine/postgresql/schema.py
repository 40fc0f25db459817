"""The schema of a cluster in a PostgreSQL database: its name, and how its tables come to be."""

import re

import asyncpg

from coordinator.cluster.engine.engine import EngineRefused
from coordinator.cluster.engine.postgresql import sql
from coordinator.cluster.engine.postgresql.primary import REFUSED_STATES, PrimaryConnection


def check_cluster_name(name: str) -> None:
    """Raises: EngineRefused, unless the name can name a schema and a channel."""
    if re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name) is None or name.startswith("pg_"):
        raise EngineRefused(
            f"journal.cluster is {name}; it must be a letter or _, then letters, digits and _ (lower case, at most 63)"
        )


async def make_schema(connection: PrimaryConnection, schema: str) -> None:
    """Makes the tables of a cluster where they are missing. Several workers may do so at once.

    Raises: EngineRefused: the account may not, or the tables are of a newer version.
    """
    quoted = f'"{schema}"'
    try:
        async with connection.transaction():
            await connection.execute(sql.LOCK_SCHEMA, schema)
            if not await connection.fetchval(sql.SCHEMA_EXISTS, quoted):
                await connection.execute(f"CREATE SCHEMA {quoted}")
            if not await connection.fetchval(sql.TABLES_EXIST):
                await connection.execute(sql.CREATE_TABLES)
            version = await connection.fetchval(sql.READ_VERSION)
    except asyncpg.PostgresError as error:
        if (error.sqlstate or "")[:2] not in REFUSED_STATES:
            raise
        raise EngineRefused(
            f"the schema {schema} cannot be made or read: {error}; create it: CREATE SCHEMA {quoted} AUTHORIZATION ..."
        ) from None
    _check_version(schema, version)


async def check_schema(connection: PrimaryConnection, schema: str) -> None:
    """Raises: EngineRefused, unless the tables of a cluster are there and can be read."""
    try:
        found = await connection.fetchval(sql.TABLES_EXIST)
        version = await connection.fetchval(sql.READ_VERSION) if found else None
    except asyncpg.PostgresError as error:
        if (error.sqlstate or "")[:2] not in REFUSED_STATES:
            raise
        raise EngineRefused(f"the schema {schema} cannot be read: {error}") from None
    if version is None:
        raise EngineRefused(f"the database has no schema {schema} of a coordinator: journal.cluster names it")
    _check_version(schema, version)


def _check_version(schema: str, version: int) -> None:
    if version != sql.SCHEMA_VERSION:
        raise EngineRefused(f"the schema {schema} has version {version}; this coordinator knows {sql.SCHEMA_VERSION}")
