"""The site: the pages of this folder and the README, by Sphinx. `make site` builds it and refuses a broken link."""

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

REPOSITORY = Path(__file__).resolve().parent.parent
_PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_FILES = _PROJECT["urls"]["Homepage"] + "/blob/v" + _PROJECT["version"] + "/"

project = "Kafka group coordinator"
release = _PROJECT["version"]
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = html_show_copyright = False
myst_heading_anchors = 4


def _rewrite(_app: Sphinx, name: str, source: list[str]) -> None:
    """Makes the landing page of the README; links to files that are no page lead to the repository."""
    if name == "index":
        readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
        source[0] = re.sub(r"\]\((?!https?:|#)", "](../", readme).replace("](../docs/", "](") + source[0]
    source[0] = re.sub(r"\]\(\.\./(?!docs/)", f"]({_FILES}", source[0])


def setup(app: Sphinx) -> None:
    app.connect("source-read", _rewrite)
