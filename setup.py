"""Puts the message definitions and configurations, which lie beside the package in a checkout, into it in a wheel.

Everything else about the project is in pyproject.toml, which has no way to say this.
"""

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


setup(cmdclass={"build_py": BuildWithFiles})
