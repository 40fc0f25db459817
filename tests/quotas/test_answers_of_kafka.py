"""DescribeClientQuotas and AlterClientQuotas are answered as Kafka 4.4 answers them: a conversation in `answers.jsonl`.

A line is a request with its answer, of a server whose quotas are those that the lines above it have set.
`pytest -m java tests/quotas --rewrite` records the answers of a live Kafka.
"""

import json
import time
from pathlib import Path

import pytest

from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

ANSWERS = Path(__file__).with_name("answers.jsonl")
EVERYTHING = {"components": [], "strict": False}


def said_by(link: Connection, line: dict) -> dict:
    answer = link.call(line["api"], line["version"], **line["request"])
    if line["api"] == "DescribeClientQuotas":
        # Kafka's order is that of an index by type, then by hash.
        answer["entries"] = answer["entries"] and sorted(answer["entries"], key=repr)
    return {**line, "answer": answer}


def recorded() -> list[dict]:
    return [json.loads(line) for line in ANSWERS.read_text().splitlines()]


def test_every_request_is_answered_as_by_kafka_and_a_kill_loses_no_quota(tmp_path):
    with ServerProcess(tmp_path) as server:
        with Connection(server.bootstrap) as link:
            for line in recorded():
                assert said_by(link, line) == line
            before = link.call("DescribeClientQuotas", 1, **EVERYTHING)
        server.restart(kill=True)
        with Connection(server.bootstrap) as link:
            after = link.call("DescribeClientQuotas", 1, **EVERYTHING)
    assert after == before
    assert len(after["entries"]) > 20


@pytest.mark.thorough
@pytest.mark.java
def test_kafka_answers_so(tmp_path, request):
    broker = KafkaBroker(tmp_path)
    broker.start()
    lines = []
    try:
        with Connection(broker.bootstrap) as link:
            for line in recorded():
                if not request.config.getoption("--rewrite"):
                    # The broker learns later what its controller has changed.
                    wait_until(lambda line=line: said_by(link, line) == line, f"this answer: {line}")
                else:
                    time.sleep(0.3)
                lines.append(said_by(link, line))
    finally:
        broker.stop()
    if request.config.getoption("--rewrite"):
        ANSWERS.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    assert lines == recorded()
