"""The wheel holds everything that a server needs, and an installation from it runs without a checkout."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = (
    "coordinator",
    "pyspark_coordinator_log",
    "protocol_schemas",
    "config",
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "SECURITY.md",
    "CHANGELOG.md",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the content of the wheel, built offline from a source distribution of a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    sources.mkdir()
    for name in SOURCES:
        path = REPOSITORY / name
        if path.is_dir():
            shutil.copytree(path, sources / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy(path, sources)
    package = "import setuptools.build_meta as backend, sys; backend.build_sdist(sys.argv[1])"
    _succeeds([sys.executable, "-c", package, str(folder)], sources)
    [archive] = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder, filter="data")
    unpacked = folder / archive.name.removesuffix(".tar.gz")
    assert not (unpacked / "tests").exists()
    _succeeds(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", str(folder), "."],
        unpacked,
    )
    [wheel] = folder.glob("*.whl")
    target = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    shutil.rmtree(sources)
    shutil.rmtree(unpacked)
    return target


def _succeeds(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def run(installed: Path, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": str(installed)},
        cwd=installed.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def test_every_definition_and_configuration_is_in_the_wheel(installed):
    for name in ("protocol_schemas", "config"):
        bundled = installed / "coordinator" / "bundled" / name
        there = {path.relative_to(bundled) for path in bundled.rglob("*") if path.is_file()}
        assert there == {
            path.relative_to(REPOSITORY / name) for path in (REPOSITORY / name).rglob("*") if path.is_file()
        }


def test_the_files_of_the_page_are_in_the_wheel_and_their_sources_are_not(installed):
    bundled = installed / "coordinator" / "page"
    there = {path.name for path in (bundled / "static").iterdir()}
    assert there == {path.name for path in (REPOSITORY / "coordinator" / "page" / "static").iterdir()}
    assert (bundled / "palette.json").exists()
    assert not (bundled / "source").exists()


def test_the_wheel_holds_the_licence_and_names_it(installed):
    [metadata] = installed.glob("*.dist-info")
    assert (metadata / "licenses" / "LICENSE").read_bytes() == (REPOSITORY / "LICENSE").read_bytes()
    assert "\nLicense-Expression: Apache-2.0\n" in (metadata / "METADATA").read_text()


def test_the_wheel_says_that_its_packages_are_typed(installed):
    for package in ("coordinator", "pyspark_coordinator_log"):
        assert (installed / package / "py.typed").exists(), package


def test_a_command_runs_beside_a_server_from_the_wheel(installed):
    done = run(installed, "-m", "coordinator", "exec", "--", "sh", "-c", "echo $BOOTSTRAP")
    assert (done.returncode, done.stdout.partition(":")[0]) == (0, "127.0.0.1"), done.stderr


def test_tests_and_tools_are_not_in_the_wheel(installed):
    there = {path.name.partition("-")[0] for path in installed.iterdir()}
    assert there == {"coordinator", "pyspark_coordinator_log", "kafka_group_coordinator"}


def test_what_is_installed_serves(installed):
    script = (
        "import coordinator, subprocess, sys, json\n"
        "server = subprocess.Popen([sys.executable, '-m', 'coordinator', 'serve', '--listen', '127.0.0.1:0',"
        " '--admin', '127.0.0.1:0', '--data-dir', 'data'], stdout=subprocess.PIPE)\n"
        "ready = json.loads(server.stdout.readline())\n"
        "server.terminate()\n"
        "print(json.dumps([coordinator.__file__, ready['ready'], server.wait(60)]))\n"
    )
    done = run(installed, "-c", script)
    assert done.returncode == 0, done.stderr
    where, ready, code = json.loads(done.stdout)
    assert Path(where).is_relative_to(installed)
    assert (ready, code) == (True, 0)


def test_spark_finds_its_source_in_the_wheel_and_the_decoder_needs_no_spark(installed):
    pytest.importorskip("pyarrow")
    found = run(installed, "-c", "import pkgutil; print([each.name for each in pkgutil.iter_modules()])")
    assert "'pyspark_coordinator_log'" in found.stdout
    program = "import sys, pyspark_coordinator_log.planning as p; print(p.__file__, 'pyspark' in sys.modules)"
    decoder = run(installed, "-c", program)
    assert decoder.stdout.split() == [str(installed / "pyspark_coordinator_log" / "planning.py"), "False"], (
        decoder.stderr
    )
