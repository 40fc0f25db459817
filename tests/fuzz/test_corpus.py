"""Every input of the corpus gives what the decoder promises, or an error that it promises, and takes little memory.

`make fuzz` looks for new inputs (docs/testing.md).
"""

import tracemalloc

import pytest

from tests.fuzz import corpus
from tests.fuzz.targets import TARGETS

MEBIBYTES_MAX = 200
"""A batch is decompressed into at most 64 MiB."""


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_that_were_found_break_no_promise(name: str):
    """A bug that fuzzing has found stays mended."""
    target, seeds = TARGETS[name]
    inputs = [*seeds(), *corpus.read(name), *LONG.get(name, ())]
    assert len(inputs) > len(list(seeds())), "the corpus is missing"
    tracemalloc.start()
    try:
        for data in inputs:
            tracemalloc.reset_peak()
            target(data)
            assert tracemalloc.get_traced_memory()[1] < MEBIBYTES_MAX << 20, data[:2_000].hex()
    finally:
        tracemalloc.stop()


def _nested(token_head: bytes) -> bytes:
    """An OAUTHBEARER message whose claims are nested more deeply than the interpreter can read."""
    from base64 import urlsafe_b64encode

    claims = urlsafe_b64encode(b"[" * 30_000)
    message = b"n,,\1auth=Bearer " + token_head + b"." + claims + b".\1\1"
    return len(message).to_bytes(2) + message


LONG = {
    "configs": [bytes((which,)) + text for which in range(40) for text in (b"1" * 32_000, b"x" + b" " * 32_000 + b"x")],
    "sasl": [
        bytes((which,)) + _nested(head) for which in (2, 3) for head in (b"eyJhbGciOiAibm9uZSJ9", b"W1tb" * 1_000)
    ],
}
"""Inputs that are longer than those of the corpus: Python converts 4,300 digits and reads JSON of about a thousand levels."""


def test_a_corpus_holds_the_smallest_inputs_and_all_findings(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "FOLDER", tmp_path)
    findings = [b"f" * 3_000]
    corpus.write("requests", [b"x" * size for size in range(2_000)], findings)
    kept = corpus.read("requests")
    assert set(findings) <= set(kept)
    assert b"x" * 10 in kept
    assert b"x" * 1_999 not in kept
    assert len((tmp_path / "requests.txt").read_bytes()) < corpus.CORPUS_BYTES_MAX + 5_000
