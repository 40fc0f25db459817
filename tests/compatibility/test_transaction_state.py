"""`__transaction_state` is Kafka's: its tool reads ours, record by record, as it reads its own."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.conftest import wait_until_serving
from tests.support.kafka_broker import KafkaBroker, dump_segments
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

pytestmark = pytest.mark.java

CONCURRENT_TRANSACTIONS = 51


def make_history(bootstrap: str) -> None:
    """Creates every kind of record: both protocols, both outcomes, an id taken over, an open transaction."""
    with Connection(bootstrap) as link:

        def producer(name: str) -> dict[str, Any]:
            while True:
                response = link.call("InitProducerId", 4, transactional_id=name, transaction_timeout_ms=60_000)
                if response["error_code"] != CONCURRENT_TRANSACTIONS:
                    assert response["error_code"] == 0
                    return {key: response[key] for key in ("producer_id", "producer_epoch")}

        def add(name: str, who: dict[str, Any]) -> None:
            while link.call("AddOffsetsToTxn", 4, transactional_id=name, group_id="g", **who)["error_code"]:
                pass

        def rest(name: str) -> None:
            while (
                "Complete"
                not in link.call("DescribeTransactions", 0, transactional_ids=[name])["transaction_states"][0][
                    "transaction_state"
                ]
            ):
                pass

        for name, version in (("first", 4), ("second", 5)):
            who = producer(name)
            for committed in (True, False):
                add(name, who)
                response = link.call("EndTxn", version, transactional_id=name, **who, committed=committed)
                assert response["error_code"] == 0
                if version == 5:
                    who = {key: response[key] for key in ("producer_id", "producer_epoch")}
                rest(name)
        add("taken", producer("taken"))
        producer("taken")
        add("open", producer("open"))


def records(folder: Path) -> Iterator[tuple[Any, Any]]:
    """Key and value of each record of the history, without timestamps and the actual producer ids."""
    (segment,) = folder.glob("*.log")
    said = dump_segments(segment, options=("--transaction-log-decoder", "--print-data-log"))
    assert "isvalid: false" not in said
    for key, value in re.findall(r"key: (\{.*\}) payload: (\{.*\})$", said, re.MULTILINE):
        name = json.loads(key)["data"]["transactionalId"]
        if name == "ready?":
            continue
        shown = json.loads(value)
        for field in ("transactionLastUpdateTimestampMs", "transactionStartTimestampMs"):
            shown["data"][field] = shown["data"][field] > 0
        assert shown["data"].pop("previousProducerId", None) == shown["data"].pop("producerId")
        yield name, shown


def test_kafkas_tool_reads_in_our_log_what_it_reads_in_kafkas(
    coordinator_process: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    server = coordinator_process()
    make_history(server.bootstrap)
    server.terminate()
    ours = list(records(server.data_dir / "__transaction_state-0"))
    kafka = KafkaBroker(tmp_path / "kafka")
    kafka.start()
    try:
        wait_until_serving(kafka.bootstrap)
        make_history(kafka.bootstrap)
    finally:
        kafka.stop()
    assert ours == list(records(kafka.data_dir / "__transaction_state-0"))
