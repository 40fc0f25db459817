"""The bill of materials names every package that the server is installed with, and nothing is installed without its hash."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DOCKERFILE = (REPOSITORY / "Dockerfile").read_text().replace("\\\n", " ")


def locked() -> dict[tuple[str, str], set[str]]:
    """Name and version of each pinned package, with its hashes."""
    text = (REPOSITORY / "requirements" / "serve.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    return {
        (line.partition("==")[0], line.partition("==")[2].split()[0]): set(re.findall(r"sha256:(\w+)", line))
        for line in lines
    }


def test_make_sbom_names_every_locked_dependency_with_its_hashes(tmp_path):
    """The command is that of the Makefile."""
    [recipe] = re.findall(r"^\t\$\(BIN\)/cyclonedx-py (.*)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    arguments = shlex.split(recipe.replace("$(SBOM)", str(tmp_path / "sbom.json")))
    done = subprocess.run(
        [sys.executable, "-m", "cyclonedx_py", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    bom = json.loads((tmp_path / "sbom.json").read_text())
    assert (bom["bomFormat"], bom["metadata"]["component"]["name"]) == ("CycloneDX", "kafka-group-coordinator")
    named = {
        (part["name"], part["version"]): {
            each["content"] for reference in part["externalReferences"] for each in reference["hashes"]
        }
        for part in bom["components"]
    }
    assert named == locked()


def test_every_package_in_the_image_is_installed_by_hash():
    """Except for the server itself, which is built from the sources beside the Dockerfile, offline."""
    installs = re.findall(r"(?<!-)pip (?:--python \S+ )?install [^&\n]*", DOCKERFILE)
    assert len(installs) == 4
    for command in installs:
        assert "--require-hashes" in command or "--no-deps --no-build-isolation ." in command, command


def test_the_base_image_can_be_pinned_by_one_argument():
    assert re.search(r"^ARG BASE=\S+$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BASE}", "build"}


def test_the_image_holds_the_bill_of_materials_and_not_the_tool_that_writes_it():
    """What it says is compared with the installed packages where an image can be built."""
    server = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^COPY --from=sbom \S+\.cdx\.json /", server, re.MULTILINE)
    assert not re.search(r"^COPY --from=sbom (?!\S+\.cdx\.json)", server, re.MULTILINE)
    assert re.search(r"cyclonedx-py environment /opt/coordinator/bin/python3 ", DOCKERFILE)
