"""A number that several processes count up together."""

import subprocess
import sys
from pathlib import Path

from coordinator.world.shared_count import SharedCount

NUMBERS = 2_000
COUNTING = f"""
import sys
from coordinator.world.shared_count import SharedCount
count = SharedCount(sys.argv[1])
print(*(count.next() for _ in range({NUMBERS})))
"""


def test_no_two_processes_get_the_same_number(tmp_path: Path):
    path = str(tmp_path / "count")
    command = [sys.executable, "-c", COUNTING, path]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    numbers = [int(number) for process in processes for number in process.communicate()[0].split()]
    assert sorted(numbers) == list(range(1, 3 * NUMBERS + 1))
    count = SharedCount(path)
    assert count.value == 3 * NUMBERS
    count.close()
    assert SharedCount(path).next() == 1
