"""The storm of examples/rebalance_storm.py, recorded once per test run, and the truth about it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "rebalance_storm.py"


class RecordedStorm(NamedTuple):
    data: Path
    truth: dict[str, Any]

    @property
    def rebalances(self) -> int:
        return sum(self.truth["rebalances_started"].values())


def record(folder: Path) -> RecordedStorm:
    """Runs the program; it takes two seconds."""
    done = subprocess.run([sys.executable, PROGRAM, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return RecordedStorm(folder / "data", json.loads((folder / "truth.json").read_text()))
