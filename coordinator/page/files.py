"""The files of the page, which are in the wheel beside this module. source/build.mjs makes the scripts among them."""

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "static"


@cache
def text_of(name: str) -> str:
    """The text of one of the files."""
    return (FOLDER / name).read_text(encoding="utf-8")
