"""Fuzzes the targets with Atheris, Google's coverage-guided fuzzer for Python, which is libFuzzer inside.

    python -m tests.fuzz.fuzz [--seconds N] [TARGET ...]

Each target begins with its seeds and its corpus, and runs for N seconds. Inputs that reach new code are added to the corpus,
which is then minimised: `corpus/TARGET.txt` has one input per line, in Base64. An input that raises, takes more than ten
seconds or two gigabytes is printed and kept in the corpus, so that the ordinary tests fail until the bug is mended.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.corpus import BYTES_MAX, read, write
from tests.fuzz.targets import TARGETS

SECONDS_PER_INPUT = 10
MEBIBYTES = 2_048


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--seconds", type=int, default=60)
    options.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all if none is named")
    chosen = options.parse_args()
    if unknown := set(chosen.targets) - TARGETS.keys():
        options.error(f"no such target: {', '.join(unknown)}")
    failed = [name for name in chosen.targets or TARGETS if not fuzz(name, chosen.seconds)]
    if failed:
        sys.exit(f"findings in: {', '.join(failed)}")


def fuzz(name: str, seconds: int) -> bool:
    """Fuzzes one target and updates its corpus. Returns whether nothing was found."""
    with tempfile.TemporaryDirectory() as folder:
        grown, kept, found = (Path(folder) / each for each in ("grown", "kept", "found"))
        for each in (grown, kept, found):
            each.mkdir()
        seeds = [data for data in TARGETS[name][1]() if len(data) <= BYTES_MAX]
        for index, data in enumerate(seeds):
            (kept / f"seed-{index}").write_bytes(data)
        for index, data in enumerate(read(name)):
            (grown / str(index)).write_bytes(data)
        _run(folder, name, f"-max_total_time={seconds}", f"-artifact_prefix={found}/", str(grown), str(kept))
        _run(folder, name, "-set_cover_merge=1", str(kept), str(grown))
        findings = [path.read_bytes() for path in sorted(found.iterdir())]
        write(name, [path.read_bytes() for path in kept.iterdir() if not path.name.startswith("seed")], findings)
        for finding in findings:
            print(f"{name}: {finding.hex()}")
        return not findings


def _run(folder: str, name: str, *options: str) -> None:
    """Runs libFuzzer. It starts itself again to merge, so it must be one program without arguments."""
    program = Path(folder) / "program"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.fuzz.instrumented "$0" {name} "$@"\n')
    program.chmod(0o755)
    limits = (
        f"-timeout={SECONDS_PER_INPUT}",
        f"-rss_limit_mb={MEBIBYTES}",
        f"-max_len={BYTES_MAX}",
        "-print_final_stats=1",
    )
    subprocess.run((str(program), *limits, *options), check=False)


if __name__ == "__main__":
    main()
