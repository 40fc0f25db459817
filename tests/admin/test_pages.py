"""The lists of groups and transactions come in pages, so that a long list does not keep the event loop from the groups."""

import json
import urllib.error
from urllib.parse import quote, urlencode

import pytest

from coordinator.admin.api import PAGE_MAX
from tests.support.admin_client import view
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
    assert view(server, f"/v1/groups?after={quote(NAMES[-1])}") == {"groups": []}


def test_transactions_have_pages_too(server):
    first = view(server, "/v1/transactions?limit=2")
    assert ([row["transactional_id"] for row in first["transactions"]], first["next"]) == (["t1", "t2"], "t2")
    last = view(server, "/v1/transactions?limit=2&after=t2")
    assert ([row["transactional_id"] for row in last["transactions"]], "next" in last) == (["t3"], False)


@pytest.mark.parametrize(
    "query", ["limit=0", f"limit={PAGE_MAX + 1}", "limit=-1", "limit=x", "limit=", "limit=1&limit=2", "page=2"]
)
def test_a_page_that_cannot_be_is_refused(server, query):
    with pytest.raises(urllib.error.HTTPError) as refused:
        view(server, f"/v1/groups?{query}")
    assert refused.value.code == 400
    assert json.load(refused.value)["error"]
