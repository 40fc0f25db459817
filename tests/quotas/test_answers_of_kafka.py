"""DescribeClientQuotas and AlterClientQuotas are answered as Kafka 4.4 answers them: a conversation in `answers.jsonl`.

A line is a request with its answer, of a server whose quotas are those that the lines above it have set.
`pytest -m java tests/quotas --rewrite` records the answers of a live Kafka.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

ANSWERS = Path(__file__).with_name("answers.jsonl")
EVERYTHING = {"components": [], "strict": False}


def conversation(bootstrap: str, lines: list[dict]) -> Iterator[dict]:
    with Connection(bootstrap) as link:
        for line in lines:
            answer = link.call(line["api"], line["version"], **line["request"])
            if line["api"] == "DescribeClientQuotas":
                # Kafka's order is that of an index by type, then by hash.
                answer["entries"] = answer["entries"] and sorted(answer["entries"], key=repr)
            yield {**line, "answer": answer}


def recorded() -> list[dict]:
    return [json.loads(line) for line in ANSWERS.read_text().splitlines()]


def test_every_request_is_answered_as_by_kafka_and_a_kill_loses_no_quota(tmp_path):
    with ServerProcess(tmp_path) as server:
        for said, expected in zip(conversation(server.bootstrap, recorded()), recorded(), strict=True):
            assert said == expected
        with Connection(server.bootstrap) as link:
            before = link.call("DescribeClientQuotas", 1, **EVERYTHING)
        server.restart(kill=True)
        with Connection(server.bootstrap) as link:
            after = link.call("DescribeClientQuotas", 1, **EVERYTHING)
    assert after == before
    assert len(after["entries"]) > 20


@pytest.mark.java
def test_kafka_answers_so(tmp_path, request):
    broker = KafkaBroker(tmp_path)
    broker.start()
    try:
        said = list(conversation(broker.bootstrap, recorded()))
    finally:
        broker.stop()
    if request.config.getoption("--rewrite"):
        ANSWERS.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in said))
    assert said == recorded()
