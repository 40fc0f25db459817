"""Whether a running server uses a data folder, which it locks while it runs."""

import fcntl
from pathlib import Path

LOCK_NAME = ".lock"


def is_in_use(folder: str) -> bool:
    """Whether a process has locked the data folder."""
    try:
        with (Path(folder) / LOCK_NAME).open(encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
