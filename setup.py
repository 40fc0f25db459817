"""Puts into a wheel what lies beside the package in a checkout: the message definitions and the configurations. Makes the links
of the README absolute, so that they work on the page of a package index.

Everything else about the project is in pyproject.toml, which has no way to say this.
"""

import re
import tomllib
from pathlib import Path
from shutil import copytree

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
BUNDLED = ("protocol_schemas", "config")


class BuildWithFiles(build_py):
    """An editable install needs no copies: the package finds the originals beside it."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for name in BUNDLED:
                copytree(HERE / name, Path(self.build_lib, "coordinator", "bundled", name), dirs_exist_ok=True)


def long_description() -> str:
    """README.md with links to the files of this release."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tree = project["urls"]["Homepage"] + "/{}/v" + project["version"] + "/"
    text = (HERE / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:|#)", rf"\g<1>{tree.format('raw')}", text)
    return re.sub(r"(?<!!)(\[(?:[^]]|\\\])*\]\()(?!https?:|#)", rf"\g<1>{tree.format('blob')}", text)


setup(
    cmdclass={"build_py": BuildWithFiles},
    long_description=long_description(),
    long_description_content_type="text/markdown",
)
