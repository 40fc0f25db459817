"""The wheel and the source distribution hold all that users need, and a fresh installation runs without a checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("coordinator", "coordinator_lab", "coordinator_testing", "pyspark_coordinator_log")
SOURCES = (
    *PACKAGES,
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


class Built(NamedTuple):
    """What a release uploads."""

    source: Path
    wheel: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    """A source distribution of a copy of the sources, and the wheel that is built from it, offline."""
    folder = tmp_path_factory.mktemp("built")
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
    [source] = folder.glob("*.tar.gz")
    shutil.unpack_archive(source, folder, filter="data")
    unpacked = folder / source.name.removesuffix(".tar.gz")
    assert not (unpacked / "tests").exists()
    _succeeds(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", str(folder), "."],
        unpacked,
    )
    [wheel] = folder.glob("*.whl")
    shutil.rmtree(sources)
    shutil.rmtree(unpacked)
    return Built(source, wheel)


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """The packages of a fresh environment into which pip has installed the wheel.

    Its dependencies are those of the environment of the tests, without what that one has installed in editable mode.
    """
    environment = tmp_path_factory.mktemp("environment")
    _succeeds([sys.executable, "-m", "venv", "--without-pip", str(environment)], environment)
    python = environment / "bin" / "python"
    install = ["--python", str(python), "install", "-q", "--no-index", "--no-deps", str(built.wheel)]
    _succeeds([sys.executable, "-m", "pip", *install], environment)
    [site] = environment.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return site


def _succeeds(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def run(installed: Path, *arguments: str, program: str = "python", **options) -> subprocess.CompletedProcess[str]:
    # pytest-xdist hands the checkout to its processes in PYTHONPATH.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [installed.parents[2] / "bin" / program, *arguments],
        cwd=installed.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
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
    [metadata] = installed.glob("kafka_group_coordinator*.dist-info")
    assert (metadata / "licenses" / "LICENSE").read_bytes() == (REPOSITORY / "LICENSE").read_bytes()
    assert "\nLicense-Expression: Apache-2.0\n" in (metadata / "METADATA").read_text()


def test_the_wheel_says_that_its_packages_are_typed(installed):
    for package in PACKAGES:
        assert (installed / package / "py.typed").exists(), package


def test_a_command_runs_beside_a_server_from_the_wheel(installed):
    done = run(installed, "-m", "coordinator", "exec", "--", "sh", "-c", "echo $BOOTSTRAP")
    assert (done.returncode, done.stdout.partition(":")[0]) == (0, "127.0.0.1"), done.stderr


def test_tests_and_tools_are_not_in_the_wheel(built):
    with zipfile.ZipFile(built.wheel) as archive:
        there = {name.partition("/")[0].partition("-")[0] for name in archive.namelist()}
    assert there == {*PACKAGES, "kafka_group_coordinator"}


def test_an_index_accepts_the_distributions_and_their_long_description(built):
    check = [sys.executable, "-m", "twine", "check", "--strict", str(built.source), str(built.wheel)]
    done = subprocess.run(check, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout + done.stderr


def test_every_link_of_the_long_description_works_outside_the_repository(installed):
    [metadata] = installed.glob("kafka_group_coordinator*.dist-info")
    links = re.findall(r"\]\(([^)\s]+)\)", (metadata / "METADATA").read_text())
    assert len(links) > 30
    assert [link for link in links if not link.startswith(("https://", "http://", "#"))] == []
    tree = "https://github.com/kafka-group-coordinator/kafka-group-coordinator/"
    paths = [link.partition("#")[0].split("/v", 1)[1].partition("/")[2] for link in links if link.startswith(tree)]
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []


def test_every_command_of_a_fresh_installation_has_its_help(installed):
    shown = run(installed, "--help", program="coordinator").stdout
    commands = re.findall(r"^  (\w+) {2,}", shown.partition("Commands:")[2], re.MULTILINE)
    assert {"serve", "groups", "control", "exec", "certify", "simulate", "bench", "pipeline"} <= {*commands}
    for command in commands:
        done = run(installed, command, "--help", program="coordinator")
        assert (done.returncode, "Usage:" in done.stdout) == (0, True), done.stderr


def test_the_pytest_plugin_of_a_fresh_installation_starts_a_server(installed, tmp_path):
    test = "def test_it(kafka_coordinator):\n    assert kafka_coordinator.bootstrap_servers.startswith('127.0.0.1:')\n"
    (tmp_path / "test_it.py").write_text(test)
    done = run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path))
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout


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
