"""What the PostgreSQL engine checks before it starts, and what it shows of an address."""

import asyncio
import logging
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.cluster.engine.address import EngineAddress, engine_for
from coordinator.cluster.engine.engine import EngineRefused, EngineSettings, EngineUnavailable, Owner, claim_one
from tests.cluster.engine.contract import worker
from tests.support.postgresql import ADMIN, ADMIN_PASSWORD, PASSWORD, Cluster
from tests.support.tls import certificates

LOG = "__consumer_offsets-0"


@pytest.fixture(scope="module")
def alone():
    """A server without standbys."""
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    cluster = Cluster(standbys=0)
    yield cluster
    cluster.close()


async def opened(url: str, **settings):
    engine = engine_for(EngineAddress(url), EngineSettings(**settings))
    await engine.open()
    return engine


async def test_a_server_without_standbys_is_refused_unless_replication_is_optional(alone):
    with pytest.raises(EngineRefused, match=r"synchronous_standby_names is empty.*journal.replication"):
        await opened(alone.url())
    engine = await opened(alone.url(), replication="optional")
    assert (await claim_one(engine, LOG, worker(1))).epoch == 1
    await engine.close()


async def test_a_reader_makes_nothing_in_the_database(alone):
    with pytest.raises(EngineRefused, match=r"no schema nobody of a coordinator: journal.cluster"):
        await opened(alone.url(), cluster="nobody", reads_only=True)
    engine = await opened(alone.url(), cluster="nobody", replication="optional")
    await engine.close()
    await (await opened(alone.url(), cluster="nobody", reads_only=True)).close()


@pytest.mark.parametrize(
    ("name", "value"),
    [("synchronous_commit", "off"), ("synchronous_commit", "local"), ("full_page_writes", "off"), ("fsync", "off")],
)
async def test_a_server_whose_answers_are_not_durable_is_refused(alone, name, value):
    alone.primary.set(name, value)
    try:
        with pytest.raises(EngineRefused, match=f"{name} is {value}.*set it to on"):
            await opened(alone.url(), replication="optional")
    finally:
        alone.primary.set(name, "on")


async def test_clusters_of_different_names_share_a_database_and_nothing_else(alone):
    first = await opened(alone.url(), replication="optional", cluster="east")
    second = await opened(alone.url(), replication="optional", cluster="west")
    await claim_one(first, LOG, worker(1))
    await first.beat(worker(1))
    assert await first.owners() == {LOG: Owner(1, worker(1))}
    assert await second.owners() == {}
    assert await second.workers() == []
    await first.close()
    await second.close()


@pytest.mark.parametrize("name", ["", "Upper", "1st", 'quo"te', "pg_own", "a" * 64])
def test_a_cluster_name_that_is_no_schema_is_refused(name):
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    with pytest.raises(EngineRefused, match=r"journal\.cluster"):
        engine_for(EngineAddress("postgresql://localhost/postgres"), EngineSettings(cluster=name))


async def test_the_role_needs_its_own_schema_and_nothing_more(alone):
    """The statements of docs/scale-out.md."""
    alone.primary.sql("CREATE ROLE least LOGIN PASSWORD 'secret'; CREATE SCHEMA least AUTHORIZATION least")
    url = alone.url(user="least", password="secret")
    engine = await opened(url, replication="optional", cluster="least")
    assert (await claim_one(engine, LOG, worker(1))).epoch == 1
    await engine.close()
    with pytest.raises(EngineRefused, match=r"CREATE SCHEMA .other. AUTHORIZATION"):
        await opened(url, replication="optional", cluster="other")


async def test_tables_of_another_version_are_refused(alone):
    await (await opened(alone.url(), replication="optional", cluster="versions")).close()
    alone.primary.sql("UPDATE versions.schema_version SET version = 99")
    with pytest.raises(EngineRefused, match="schema versions has version 99"):
        await opened(alone.url(), replication="optional", cluster="versions")


async def test_several_workers_can_make_the_schema_at_once(alone):

    engines = await asyncio.gather(*(opened(alone.url(), replication="optional", cluster="at_once") for _ in range(5)))
    for engine in engines:
        await engine.close()


@pytest.mark.parametrize("wrong", ["password", "database", "role"])
async def test_an_account_that_is_refused_is_named_without_its_password(alone, wrong, caplog):
    caplog.set_level(logging.DEBUG)
    url = alone.url()
    if wrong == "password":
        url = alone.url(password="not-the-secret")
    elif wrong == "role":
        url = alone.url(user="nobody_here", password="not-the-secret")
    else:
        url = url.replace("/postgres", "/no_such_database")
    with pytest.raises(EngineRefused) as refused:
        await opened(url, replication="optional")
    shown = "".join([str(refused.value), repr(refused.value), caplog.text])
    assert "not-the-secret" not in shown
    assert PASSWORD not in shown
    assert "[hidden]" in shown


async def test_a_password_may_come_from_a_file(alone, tmp_path, monkeypatch):
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"127.0.0.1:{alone.primary.held_port.port}:postgres:{ADMIN}:{ADMIN_PASSWORD}\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    url = f"postgresql://{ADMIN}@{alone.primary.address}/postgres"
    engine = await opened(url, replication="optional", cluster="of_an_administrator")
    await engine.close()


async def test_a_host_that_accepts_and_says_nothing_does_not_hide_the_primary(alone):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]},{alone.primary.address}"
        url = alone.url().replace(alone.primary.address, hosts)
        engine = await opened(url, replication="optional", connect_timeout_ms=60_000)
        await engine.close()


async def test_a_server_that_does_not_answer_is_unavailable_not_refused(alone):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = alone.url().replace(alone.primary.address, f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(EngineUnavailable, match="no answer in time"):
            await opened(url, replication="optional", connect_timeout_ms=200)


async def test_a_connection_with_tls_verifies_the_server(alone, tmp_path):
    pem = certificates(tmp_path)
    for source, name in ((pem.certificate, "server.crt"), (pem.key, "server.key")):
        target = alone.primary.folder / name
        shutil.copy(source, target)
        target.chmod(0o600)
        if alone.user is not None:
            shutil.chown(target, alone.user)
    alone.primary.set("ssl", "on")
    try:
        url = f"{alone.url()}?sslmode=verify-full&sslrootcert="
        engine = await opened(f"{url}{pem.ca}", replication="optional")
        encrypted = (
            "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'coordinator'"
        )
        assert alone.primary.sql(encrypted) == "t"
        await engine.close()
        other = tmp_path / "other"
        other.mkdir()
        with pytest.raises((EngineRefused, EngineUnavailable), match="certificate verify failed"):
            await opened(f"{url}{certificates(other).ca}", replication="optional")
    finally:
        alone.primary.set("ssl", "off")


def test_an_engine_without_its_driver_says_what_to_install(tmp_path):
    (tmp_path / "asyncpg.py").write_text("raise ModuleNotFoundError('No module named asyncpg', name='asyncpg')")
    code = (
        "from coordinator.cluster.engine import address, engine\n"
        "try: address.engine_for(address.EngineAddress('postgresql://x/y'), engine.EngineSettings())\n"
        "except engine.EngineRefused as error: print(error)"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "pip install" in ran.stdout
    assert "[postgresql]" in ran.stdout


@pytest.mark.parametrize("host", ["host:port", "[::1:5", "a:1,b:c"])
def test_an_address_that_is_no_address_is_refused(host):
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    with pytest.raises(EngineRefused, match="hidden"):
        engine_for(EngineAddress(f"postgresql://user:secret@{host}/db"), EngineSettings())


def test_another_scheme_is_refused():
    with pytest.raises(EngineRefused, match="postgresql://"):
        engine_for(EngineAddress("mysql://user:secret@host/db"), EngineSettings())


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host:5432/db", "postgresql://me:[hidden]@host:5432/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://me:se%40cr:et@a,b:2/db?x=1", "postgresql://me:[hidden]@a,b:2/db?x=1"),
        ("postgresql://me:sec@ret@a/db", "postgresql://me:[hidden]@a/db"),
        ("postgresql://me:se/cr?e#t@a:1/db", "postgresql://me:[hidden]@a:1/db"),
        (
            "postgresql://host/db?password=secret&sslpassword=other&x=1",
            "postgresql://host/db?password=[hidden]&sslpassword=[hidden]&x=1",
        ),
    ],
)
def test_an_address_is_shown_without_its_password(url, shown):
    address = EngineAddress(url)
    assert str(address) == repr(address) == f"{address}" == shown
    assert address.reveal() == url


def test_an_errors_text_has_no_password_in_either_form():
    address = EngineAddress("postgresql://me:p%40ss@host/db?sslpassword=other")
    assert address.hide("p%40ss, p@ss and other") == "[hidden], [hidden] and [hidden]"


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://me:x@first:1,second/db", [("first", 1), ("second", None)]),
        ("postgresql://[::1]:5/db", [("::1", 5)]),
        ("postgresql:///db", []),
        ("postgresql:///db?host=/run/postgresql", [("/run/postgresql", None)]),
        ("postgresql://%2Frun%2Fpostgresql/db", [("/run/postgresql", None)]),
    ],
)
def test_an_address_has_several_hosts(url, hosts):
    assert EngineAddress(url).hosts() == hosts
