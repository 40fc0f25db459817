"""The files of the page are what their sources say, and load nothing."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from coordinator.page.files import FOLDER, text_of
from coordinator.page.style import COLOURED_MAX, palette
from coordinator.protocol.errors import ErrorCode

SOURCE = FOLDER.parent / "source"
SCRIPTS = ("page.js", "timeline.js")


def sources() -> list[Path]:
    names = sorted(path.name for path in SOURCE.iterdir() if path.suffix in {".js", ".mjs", ".json", ".css"})
    return [SOURCE / name for name in names] + [FOLDER.parent / "palette.json"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_scripts_were_built_from_the_sources(name):
    """After a change in coordinator/page/source: `npm ci && npm run build` there."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    assert f"sha256 {digest.hexdigest()}" in text_of(name).partition("\n")[0]


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_head_and_the_licences_name_every_package_in_a_script(name):
    locked = json.loads((SOURCE / "package-lock.json").read_text())["packages"]
    licences = text_of("LICENSES.txt")
    used = {path.rpartition("node_modules/")[2]: each for path, each in locked.items() if path and not each.get("dev")}
    assert used.keys() == {"d3-time", "d3-time-format", "d3-array", "internmap", "uplot"}
    for package, each in used.items():
        assert each["integrity"].startswith("sha512-"), package
        assert re.search(rf"{package} {re.escape(each['version'])}", licences, re.IGNORECASE), package
        if package != "uplot" or name == "page.js":
            assert f"{package} {each['version']}" in text_of(name).partition("\n")[0].lower()


def test_no_file_names_another_host():
    for path in FOLDER.iterdir():
        text = path.read_text().replace("http://www.w3.org/", "")
        assert not re.search(r"https?://|@import|url\((?!\")", text), path.name


def test_the_page_knows_every_error_of_kafka():
    assert json.loads((SOURCE / "errors.json").read_text()) == [each.name for each in ErrorCode if each]


def test_python_and_script_give_the_same_number_of_clients_a_look():
    patterns = re.search(r"PATTERNS = (\d+)", (SOURCE / "colours.js").read_text())
    assert patterns is not None
    assert len(palette()["clients"]) * int(patterns[1]) == COLOURED_MAX
