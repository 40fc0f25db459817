"""The inputs that were found to reach different code, and those that once broke a promise."""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
BYTES_MAX = 2_000
"""The longest input. Longer ones reach the same code, later."""
CORPUS_BYTES_MAX = 32 * 1024
"""Those of one target together. The smallest inputs are kept."""


def read(name: str) -> list[bytes]:
    """The corpus of a target."""
    path = FOLDER / f"{name}.txt"
    return [b64decode(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(name: str, inputs: Iterable[bytes], findings: Iterable[bytes] = ()) -> None:
    """Replaces the corpus of a target: all findings, and the smallest of the other inputs."""
    lines, left = {b64encode(data).decode() for data in findings}, CORPUS_BYTES_MAX
    for data in sorted(inputs, key=lambda data: (len(data), data)):
        line = b64encode(data).decode()
        left -= len(line) + 1
        if left < 0:
            break
        lines.add(line)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.txt").write_text(
        "".join(f"{line}\n" for line in sorted(lines, key=lambda line: (len(line), line)))
    )
