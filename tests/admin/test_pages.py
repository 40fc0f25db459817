"""The lists of groups and transactions come in pages, so that a long list does not keep the event loop from the groups."""

import json
import urllib.error
from types import SimpleNamespace
from urllib.parse import quote, urlencode

import pytest

from coordinator.admin import topics
from coordinator.admin.endpoint import Request
from coordinator.admin.paging import PAGE_MAX, Page
from coordinator.topics.registry import Topic
from tests.support.admin_client import view
from tests.support.record_batch import Batch
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

COUNT = PAGE_MAX + 100
NAMES = sorted(["", *(f"g {number} & more" for number in range(COUNT - 1))])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with 600 groups, which have offsets and no members, and three transactional ids."""
    committed = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    settings = {"durability": "write"}
    with (
        ServerProcess(tmp_path_factory.mktemp("pages"), settings=settings) as server,
        Connection(server.bootstrap) as link,
    ):
        for name in NAMES:
            link.send("OffsetCommit", 7, {"group_id": name, "generation_id_or_member_epoch": -1, "topics": committed})
        for _ in NAMES:
            assert link.receive()["topics"][0]["partitions"][0]["error_code"] == 0
        for name in ("t1", "t2", "t3"):
            assert not link.call("InitProducerId", 5, transactional_id=name, transaction_timeout_ms=9_000)["error_code"]
        yield server


def names(page):
    return [row["group_id"] for row in page["groups"]]


def test_a_list_without_a_limit_ends_at_the_largest_page(server):
    first = view(server, "/v1/groups")
    assert names(first) == NAMES[:PAGE_MAX]
    assert first["next"] == NAMES[PAGE_MAX - 1]
    last = view(server, f"/v1/groups?after={quote(first['next'])}")
    assert names(last) == NAMES[PAGE_MAX:]
    assert "next" not in last


def test_the_group_without_a_name_comes_first(server):
    assert names(view(server, "/v1/groups?limit=1")) == [""]
    assert names(view(server, "/v1/groups?limit=1&after=")) == [NAMES[1]]


@pytest.mark.parametrize("limit", [7, PAGE_MAX])
def test_pages_of_any_size_have_every_group_once_in_the_order_of_names(server, limit):
    found, query = [], {"limit": limit}
    while True:
        page = view(server, f"/v1/groups?{urlencode(query)}")
        found += names(page)
        assert len(page["groups"]) <= limit
        if "next" not in page:
            break
        query["after"] = page["next"]
    assert found == NAMES


def test_a_page_that_is_exactly_full_is_the_last_one_if_nothing_is_behind_it(server):
    page = view(server, f"/v1/groups?limit=100&after={quote(NAMES[COUNT - 101])}")
    assert (len(page["groups"]), "next" in page) == (100, False)
    assert view(server, f"/v1/groups?after={quote(NAMES[-1])}") == {"groups": [], "total": 600}


def test_transactions_have_pages_too(server):
    first = view(server, "/v1/transactions?limit=2")
    assert ([row["transactional_id"] for row in first["transactions"]], first["next"]) == (["t1", "t2"], "t2")
    last = view(server, "/v1/transactions?limit=2&after=t2")
    assert ([row["transactional_id"] for row in last["transactions"]], "next" in last) == (["t3"], False)


@pytest.mark.parametrize(
    "query", ["limit=0", f"limit={PAGE_MAX + 1}", "limit=-1", "limit=x", "limit=", "limit=null", "page=2"]
)
def test_a_page_that_cannot_be_is_refused(server, query):
    with pytest.raises(urllib.error.HTTPError) as refused:
        view(server, f"/v1/groups?{query}")
    assert refused.value.code == 422
    assert json.load(refused.value)["detail"]


def test_topics_have_their_id_and_the_offsets_at_which_partitions_begin_and_end(server):
    with Connection(server.bootstrap) as link:
        topic = {"num_partitions": 2, "replication_factor": 1}
        made = [{"name": name, **topic} for name in ("b", "a", "c")]
        assert not any(
            each["error_code"] for each in link.call("CreateTopics", 7, topics=made, timeout_ms=9_000)["topics"]
        )
        records = Batch(values=[b"x"] * 5).encode()
        written = [{"index": 1, "records": records}]
        link.call("Produce", 8, acks=-1, timeout_ms=9_000, topic_data=[{"name": "b", "partition_data": written}])
    first = view(server, "/v1/topics?limit=2")
    assert ([row["name"] for row in first["topics"]], first["next"]) == (["a", "b"], "b")
    assert len(first["topics"][1]["id"]) == 22
    assert first["topics"][1]["partitions"] == [
        {"partition": 0, "start_offset": 0, "end_offset": 0, "stable_offset": 0, "size_bytes": 0},
        {"partition": 1, "start_offset": 0, "end_offset": 5, "stable_offset": 5, "size_bytes": len(records)},
    ]
    last = view(server, "/v1/topics?after=b")
    assert ([row["name"] for row in last["topics"]], "next" in last) == (["c", "events", "orders"], False)


def test_a_page_of_topics_with_many_partitions_ends_early(server, monkeypatch):
    registry = SimpleNamespace(topics={name: Topic(name, bytes(16), 2) for name in "abc"})
    topics_of = SimpleNamespace(registry=registry, user_partition=lambda _name, _index: None)
    monkeypatch.setattr(topics, "PARTITIONS_MAX", 3)
    config = SimpleNamespace(overlay=SimpleNamespace(data_bootstrap_servers=()))
    alone = SimpleNamespace(topics=topics_of, unknown=(), config=config)
    answer = topics.list_topics(alone, Request(query=Page()))
    assert ([row.name for row in answer["topics"]], answer["next"]) == (["a", "b"], "b")
    assert answer["topics"][0].partitions[0].end_offset is None
