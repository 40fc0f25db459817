"""A headless Chromium, and axe-core, from npm packages that are pinned with checksums in tests/page/packages.

They are installed once, in the user's cache folder. Where node, npm or the packages cannot be had, or the browser does not
start on this machine, the test skips with a reason.
"""

import hashlib
import os
import shutil
import subprocess
import tarfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.java_support import CACHE

TEST_MARKERS = ("browser",)

PACKAGES = Path(__file__).resolve().parents[1] / "page" / "packages"
_WITHIN_S = 250
_UNPACK = """
const fs = require("fs"), zlib = require("zlib"), { pipeline } = require("stream");
const [, from, to] = process.argv, packed = fs.createReadStream(from);
pipeline(packed, zlib.createBrotliDecompress(), fs.createWriteStream(to), (error) => { if (error) throw error; });
"""


class Browser(NamedTuple):
    executable: Path
    environment: dict[str, str]
    """Where it finds libraries that this machine may lack."""
    axe: str
    """The script of axe-core."""


@cache
def browser() -> Browser:
    """The browser, installed if it is not in the cache yet."""
    pytest.importorskip("playwright")
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    lock = (PACKAGES / "package-lock.json").read_bytes()
    kept = CACHE / f"browser-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not kept.is_dir():
        _install(kept)
    environment = dict(os.environ)
    if not _starts(kept / "chromium", environment):
        environment["LD_LIBRARY_PATH"] = f"{kept / 'lib'}:{environment.get('LD_LIBRARY_PATH', '')}"
        if not _starts(kept / "chromium", environment):
            pytest.skip("Chromium does not start on this machine")
    return Browser(kept / "chromium", environment, (kept / "axe.min.js").read_text(encoding="utf-8"))


def _install(kept: Path) -> None:
    building = kept.with_name(f"{kept.name}-install-{os.getpid()}")
    building.mkdir(parents=True)
    try:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PACKAGES / name, building)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
        done = _run(command, building)
        if done.returncode:
            pytest.skip(f"npm could not install the browser: {done.stderr[-500:]}")
        packed = building / "node_modules" / "@sparticuz" / "chromium" / "bin"
        ready = building / "ready"
        ready.mkdir()
        _unpack(packed / "chromium.br", ready / "chromium")
        (ready / "chromium").chmod(0o755)
        _unpack(packed / "al2023.tar.br", building / "libraries.tar")
        with tarfile.open(building / "libraries.tar") as archive:
            archive.extractall(ready, filter="data")
        shutil.copy(building / "node_modules" / "axe-core" / "axe.min.js", ready)
        with suppress(OSError):  # another run was first
            ready.rename(kept)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _unpack(packed: Path, to: Path) -> None:
    done = _run(["node", "-e", _UNPACK, str(packed), str(to)], packed.parent)
    assert done.returncode == 0, done.stderr


def _starts(executable: Path, environment: dict[str, str]) -> bool:
    done = subprocess.run([executable, "--version"], env=environment, capture_output=True, check=False, timeout=60)
    return done.returncode == 0


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_WITHIN_S)
