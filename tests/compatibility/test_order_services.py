"""The suites of the services in examples/, run as their users run them, against a throw-away server."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from coordinator_testing.run_command import addresses
from coordinator_testing.throwaway_server import ThrowawayServer
from tests.support.server_process import REPOSITORY

EXAMPLES = REPOSITORY / "examples"
SCENARIOS = 7
"""Tests that each suite has: a rebalance, a zombie, a session that ends, a lost answer, a fence, two failovers."""


def passed(reports: list[Path], printed: str) -> int:
    """The number of tests in JUnit's reports. All of them have passed."""
    suites = [suite for report in reports for suite in ET.parse(report).iter("testsuite")]
    assert suites, printed
    for suite in suites:
        assert {suite.get(name) for name in ("failures", "errors", "skipped")} == {"0"}, printed
    return sum(int(suite.get("tests", "0")) for suite in suites)


def test_the_suite_of_the_python_service_passes(tmp_path):
    folder = shutil.copytree(
        EXAMPLES / "orders_python", tmp_path / "orders", ignore=shutil.ignore_patterns("__pycache__")
    )
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "coordinator_testing.pytest_plugin"]
    done = subprocess.run(
        [*command, f"--junitxml={report}", str(folder)],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, check=False,
        timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert passed([report], done.stdout) == SCENARIOS


@pytest.mark.java
def test_the_suite_of_the_java_service_passes(tmp_path):
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    folder = shutil.copytree(EXAMPLES / "orders_java", tmp_path / "orders", ignore=shutil.ignore_patterns("target"))
    server = ThrowawayServer(tmp_path, [])
    server.start()
    try:
        done = subprocess.run(
            ["mvn", "-B", "test"],
            cwd=folder, env=os.environ | addresses(server), capture_output=True, text=True, check=False, timeout=280,
        )  # fmt: skip
        if "Could not resolve" in done.stdout or "could not be resolved" in done.stdout:
            pytest.skip(f"Maven could not fetch what the service needs: {done.stdout[-500:]}")
        assert done.returncode == 0, done.stdout + server.log_since(0)
    finally:
        server.stop()
    assert passed(list((folder / "target" / "surefire-reports").glob("TEST-*.xml")), done.stdout) == SCENARIOS
