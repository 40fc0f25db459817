"""A client that may do nothing changes nothing, and does not learn what exists."""

from contextlib import ExitStack, closing

import pytest

from tests.access import servers
from tests.access.asked import Asked, TopicId
from tests.access.furnish import ROOT, furnish
from tests.access.probes import PROBES, rule_filter
from tests.access.table import row_name

ABSENT = dict.fromkeys(("mine", "written", "team-a", "doomed-nothing", "doomed-<user>"), "gone")
ABSENT |= dict.fromkeys(("g-mine", "classic", "streams"), "g-absent") | {"x-mine": "x-missing"}
"""The resources that exist and are in a request -> one of the same type that does not exist."""
VIEWS = [
    ("Metadata", 12, {"topics": None}),
    ("ListGroups", 5, {}),
    *(("OffsetFetch", 7, {"group_id": group, "topics": None}) for group in ("g-mine", "classic", "g-nothing")),
    ("DescribeGroups", 5, {"groups": ["classic"]}),
    ("ConsumerGroupDescribe", 1, {"group_ids": ["consumer"]}),
    ("StreamsGroupDescribe", 1, {"group_ids": ["streams"]}),
    ("ListTransactions", 2, {}),
    ("DescribeTransactions", 0, {"transactional_ids": ["x-mine"]}),
    ("DescribeAcls", 3, rule_filter("User:somebody") | {"principal_filter": None}),
    ("DescribeDelegationToken", 3, {"owners": None}),
    ("DescribeUserScramCredentials", 0, {"users": None}),
    ("DescribeClientQuotas", 1, {"components": []}),
    ("DescribeConfigs", 4, {"resources": [{"resource_type": 2, "resource_name": "mine", "configuration_keys": None}]}),
    *(
        ("ListOffsets", 7, {"topics": [{"name": name, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]})
        for name in ("mine", "written")
        for timestamp in (-1, -2)
    ),
]
"""What shows the state of a server to one who may see everything."""


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    """A super user's client, and one of a user who may do nothing."""
    server = servers.ours(tmp_path_factory.mktemp("refusing"), (ROOT, "nothing"))
    server.start()
    try:
        with ExitStack() as stack:
            root = stack.enter_context(closing(Asked(server.bootstrap, ROOT, {})))
            furnish(root, {}, ["doomed-nothing"])
            yield root, stack.enter_context(closing(Asked(server.bootstrap, "nothing", root.names)))
    finally:
        server.stop()


@pytest.mark.parametrize(("api", "version", "special"), PROBES, ids=[row_name(*each) for each in PROBES])
def test_a_refused_request_changes_nothing(api, version, special, clients):
    root, nobody = clients
    wanted = PROBES[api, version, special]("nothing")
    if "validate_only" in wanted:
        wanted |= {"validate_only": False}
    before = [root.link.call(*view[:2], **view[2]) for view in VIEWS]
    nobody.ask(api, version, wanted)
    assert [root.link.call(*view[:2], **view[2]) for view in VIEWS] == before


def in_absence(value):
    """The request or answer with names of what does not exist."""
    if isinstance(value, dict):
        return {key: in_absence(each) for key, each in value.items()}
    if isinstance(value, list):
        return [in_absence(each) for each in value]
    return ABSENT.get(value, value) if isinstance(value, str) else value


def names_an_id(value):
    """Whether a topic is meant by its id: Kafka says which ids are unknown."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, TopicId) or any(map(names_an_id, inner))


REQUESTS = {row_name(*row): (*row[:2], ask("nothing")) for row, ask in PROBES.items()}
NAMING = [
    name for name, (*_, request) in REQUESTS.items() if in_absence(request) != request and not names_an_id(request)
]


@pytest.mark.parametrize("name", NAMING)
def test_a_refusal_does_not_say_whether_what_it_refuses_exists(name, clients):
    _, nobody = clients
    api, version, request = REQUESTS[name]
    assert nobody.ask(api, version, in_absence(request)) == in_absence(nobody.ask(api, version, request))
