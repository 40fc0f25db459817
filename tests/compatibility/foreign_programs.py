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

WITHIN_S = 600
"""How long a command may take: Go compiles the generator first."""


def go_program(folder: Path, openapi: bytes = b"") -> list[str]:
    """The command that runs the Go program of this folder. `openapi`: the document whose client it imports, as `admin`."""
    _needs("go")
    program = _kept("go", folder, openapi) / "program"
    if not program.is_file():
        environment = os.environ | {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off"}
        fetched = _run(["go", "mod", "download"], folder, environment)
        if fetched.returncode:
            pytest.skip(f"Go could not get what {folder.name} needs: {fetched.stderr[-500:]}")
        # Names unique to this process: two test runs may build at once.
        building, output = (program.with_name(f"{each}-{os.getpid()}") for each in ("build", "program"))
        shutil.rmtree(building, ignore_errors=True)  # of a test before, whose build took too long
        shutil.copytree(folder, building)
        if openapi:
            (building / "openapi.json").write_bytes(openapi)
            (building / "admin").mkdir()
            options = ["-generate", "types,client", "-package", "admin", "-o", "admin/admin.gen.go"]
            _check(_run(["go", "tool", "oapi-codegen", *options, "openapi.json"], building, environment))
        _check(_run(["go", "build", "-o", str(output), "."], building, environment))
        output.replace(program)
        shutil.rmtree(building)
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
        _install(building, folder.name)
        for source in folder.glob("*.js"):
            shutil.copy(source, kept)
        with suppress(OSError):  # another run was first
            (building / "node_modules").rename(kept / "node_modules")
        shutil.rmtree(building)
    return ["node", str(kept / script)]


def typescript_program(folder: Path, openapi: bytes) -> list[str]:
    """The command that runs the TypeScript program of this folder, which imports the client of this document as `generated`."""
    _needs("node")
    _needs("npm")
    kept = _kept("typescript", folder, openapi)
    if not (kept / "built").is_dir():
        building = kept.with_name(f"{kept.name}-{os.getpid()}")
        shutil.copytree(folder, building)
        (building / "openapi.json").write_bytes(openapi)
        _install(building, folder.name)
        options = ["--input", "openapi.json", "--output", "generated", "--client", "@hey-api/client-fetch", "--silent"]
        for command in (["openapi-ts", *options, "--no-log-file"], ["tsc", "--project", "."]):
            _check(_run(["npx", "--no-install", *command], building, dict(os.environ)))
        shutil.rmtree(building / "node_modules")
        with suppress(OSError):  # another run was first
            building.rename(kept)
        shutil.rmtree(building, ignore_errors=True)
    return ["node", str(kept / "built" / "client.js")]


def _install(folder: Path, name: str) -> None:
    """Installs the packages that are locked there, or skips; `name`: what needs them."""
    command = ["npm", "ci", "--ignore-scripts", "--engine-strict", "--no-audit", "--no-fund", "--no-update-notifier"]
    done = _run(command, folder, dict(os.environ))
    if done.returncode:
        pytest.skip(f"npm could not install what {name} needs: {done.stderr[-500:]}")


def _check(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr


def _needs(tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")


def _kept(kind: str, folder: Path, openapi: bytes = b"") -> Path:
    """The cache folder for artifacts built from these sources."""
    digest = hashlib.sha256(openapi)
    for path in sorted(folder.iterdir()):
        digest.update(path.read_bytes())
    kept = CACHE / f"{kind}-{digest.hexdigest()[:16]}"
    kept.mkdir(parents=True, exist_ok=True)
    return kept


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=WITHIN_S
    )
