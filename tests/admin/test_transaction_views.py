"""The JSON views of transactional ids, on a running server with an open transaction."""

import urllib.error
from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.support.admin_client import view
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

ID = "orders/eu & more"


def test_the_view_of_a_transaction_has_its_producer_and_partitions(
    coordinator_process: Callable[..., ServerProcess],
) -> None:
    server = coordinator_process()
    assert view(server, "/v1/transactions") == {"transactions": []}
    with Connection(server.bootstrap) as link:
        given = link.call("InitProducerId", 5, transactional_id=ID, transaction_timeout_ms=60_000)
        producer = {"producer_id": given["producer_id"], "producer_epoch": 0}
        added = link.call(
            "AddPartitionsToTxn", 5,
            transactions=[{"transactional_id": ID, **producer, "topics": [{"name": "orders", "partitions": [2, 0]}]}],
        )  # fmt: skip
        assert added["error_code"] == 0
    (row,) = view(server, "/v1/transactions")["transactions"]
    assert row.pop("started_ms") > 0
    assert row == {
        "transactional_id": ID,
        "state": "Ongoing",
        **producer,
        "timeout_ms": 60_000,
        "partition_count": 2,
    }
    whole = view(server, f"/v1/transactions/{quote(ID, safe='')}")
    assert whole["partitions"] == [{"topic": "orders", "partition": 0}, {"topic": "orders", "partition": 2}]
    assert (whole["partitions_without_marker"], whole["client_transaction_version"]) == ([], 2)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        view(server, "/v1/transactions/nobody")
