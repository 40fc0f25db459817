"""Client programs that are not in Python: Go's is built and Node's has its packages installed once, in the user's cache
folder.

Their dependencies are pinned with checksums beside their source. Where a tool is missing or its packages cannot be
fetched, the test skips with a reason.
"""

import hashlib
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.java_support import CACHE

TEST_MARKERS = ("foreign",)

WITHIN_S = 250


def go_program(folder: Path) -> list[str]:
    """The command that runs the Go program of this folder."""
    _needs("go")
    program = _kept("go", folder) / "program"
    if not program.is_file():
        environment = os.environ | {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off"}
        fetched = _run(["go", "mod", "download"], folder, environment)
        if fetched.returncode:
            pytest.skip(f"Go could not get what {folder.name} needs: {fetched.stderr[-500:]}")
        # A name unique to this process: two test runs may build at once.
        output = program.with_name(f"program-{os.getpid()}")
        built = _run(["go", "build", "-o", str(output), "."], folder, environment)
        assert built.returncode == 0, built.stderr
        output.replace(program)
    return [str(program)]


def node_program(folder: Path, script: str = "client.js") -> list[str]:
    """The command that runs a script of this folder."""
    _needs("node")
    _needs("npm")
    kept = _kept("node", folder)
    if not (kept / "node_modules").is_dir():
        building = kept / f"install-{os.getpid()}"
        building.mkdir(exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(folder / name, building)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
        done = _run(command, building, dict(os.environ))
        if done.returncode:
            pytest.skip(f"npm could not install what {folder.name} needs: {done.stderr[-500:]}")
        for source in folder.glob("*.js"):
            shutil.copy(source, kept)
        with suppress(OSError):  # another run was first
            (building / "node_modules").rename(kept / "node_modules")
        shutil.rmtree(building)
    return ["node", str(kept / script)]


def _needs(tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")


def _kept(kind: str, folder: Path) -> Path:
    """The cache folder for artifacts built from these sources."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.read_bytes())
    kept = CACHE / f"{kind}-{digest.hexdigest()[:16]}"
    kept.mkdir(parents=True, exist_ok=True)
    return kept


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=WITHIN_S
    )
