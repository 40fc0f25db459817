"""`python -m tests.compatibility.certified NAME`: builds a certified program if it must, and becomes it."""

import os
import sys

import pytest

from tests.compatibility.certified.programs import PROGRAMS


def main() -> None:
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in PROGRAMS:
        sys.exit(f"usage: python -m tests.compatibility.certified {'|'.join(PROGRAMS)}")
    try:
        command = PROGRAMS[name].command()
    except pytest.skip.Exception as missing:
        sys.exit(str(missing))
    os.execvp(command[0], command)


main()
