"""The README's tour works when it is pasted into a shell at once, and the README stays short."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.ports import HeldPort

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
INSTALL = "make install && . .venv/bin/activate && pip install -q -r requirements/example.txt\n"
"""The only line of the tour that is not run: the tests have an environment."""


def test_the_readme_has_at_most_ten_kilobytes():
    assert len(README.encode()) <= 10_000


def test_the_tour_works_when_it_is_pasted_at_once(tmp_path):
    tour = README.partition("## A tour in five minutes\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", tour, re.DOTALL)
    assert len(blocks) == 5
    assert blocks[0].startswith(INSTALL)
    pasted = "".join(blocks).replace(INSTALL, "")
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    held = HeldPort(), HeldPort()
    addresses = [each.address for each in held]
    for ours, free in zip(("127.0.0.1:9092", "127.0.0.1:9644"), addresses, strict=True):
        pasted = pasted.replace(ours, free)
    names = {"COORDINATOR_LISTEN": 0, "BOOTSTRAP": 0, "COORDINATOR_ADMIN": 1, "ADMIN_URL": 1}
    environment = {name: addresses[index] for name, index in names.items()}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash"], input=f"trap 'kill $(jobs -p) 2> killed.log' EXIT\n{pasted}", cwd=tmp_path, env=os.environ | environment,
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    for each in held:
        each.release()
    for expected in (
        "orders-",  # the first records
        "billing  classic  Stable",
        "the commit was refused: KafkaError{code=UNKNOWN_MEMBER_ID",
        "error_code=UNKNOWN_MEMBER_ID",
        "lose=answer",
        "orders spent 35 % of the last 5 min rebalancing",
        "seed=1 ok",
    ):
        assert expected in done.stdout, done.stdout + done.stderr
    problems = [line for line in done.stderr.splitlines() if " Killed " not in line]
    assert problems == []
