"""Each behaviour in the table of the releases is noticed: a story that brokers answered does not hold when it is taken out.

What brokers answered is in tests/scenarios/answered_by_releases.json, and test_releases.py compares it with this server. Here
one server in this process becomes one release after the other, of tables that lack a behaviour. The behaviours of the preview
of KIP-848 have stories of their own (tests/scenarios/preview_*.txt).
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from coordinator.protocol.releases import PREVIEW_PROTOCOLS, Behaviours, Release, read_releases, releases
from coordinator.protocol.schema import SCHEMAS
from coordinator.requests.api_versions import as_release
from tests.rules.world import World, running
from tests.scenarios.conftest import OURS, SETTINGS
from tests.scenarios.conversation import Broker, Conversation, Differs
from tests.scenarios.earlier import EarlierConversation
from tests.scenarios.story import Story, read_story
from tests.scenarios.test_releases import ANSWERS, BY_NAME, all_of, not_imitated
from tests.support.background import Background

TABLE: list[dict[str, Any]] = json.loads((SCHEMAS / "releases" / "releases.json").read_bytes())
SWITCHED = [(row["release"], behaviour) for row in TABLE for behaviour in row.get("behaviours", {})]
"""Where the table says that a behaviour differs from the next release."""
SHOWN_BY = {
    "absent_members_hold_places": "group_is_full_while_joining",
    "assignments_are_shown_in_stable_only": "describe_in_each_state",
    "commit_to_no_group_is_old": "simple_commits",
    "commit_without_generation_names_no_member": "simple_commits",
    "completing_groups_refuse_heartbeats": "heartbeat_in_each_state",
    "empty_groups_keep_an_assignment_epoch": "consumer_alone",
    "epochs_begin_at_0": "consumer_first_epochs",
    "groups_have_no_config_operations": "describe_versions",
    "invalid_names_are_unknown": "metadata",
    "later_epochs_end_transactions": "txn_offsets_are_taken_back",
    "malformed_subscriptions_are_unexpected": "consumer_join_errors",
    "no_client_id_is_null": "member_id_is_client_id_and_uuid",
    "offset_delete_ends_an_empty_group": "offset_delete",
    "offsets_of_no_groups_are_not_sent": "fetch_offsets_of_many_groups",
    "pending_members_leave_without_a_rebalance": "pending_member_leaves_a_group",
    "preferring_an_assignor_is_no_reason": "consumer_preferred_assignor",
    "rejoining_is_fenced": "consumer_lost_answers",
    "states_are_filtered_by_case": "list_groups",
    "static_members_return_to_a_round": "static_returns_while_completing",
    "static_members_return_with_any_protocol": "static_returns_with_other_protocols",
    "streams_groups_are_basic": "streams_task_offsets",
    "successors_need_a_place": "consumer_group_is_full",
    "txn_commit_is_fenced_by_what_it_names": "txn_commit_in_each_state",
    "txn_commit_to_no_group_is_unknown": "txn_commit_to_no_group",
    "txn_commits_are_verified": "txn_offset_commit_without_adding",
    "unknown_instance_is_ignored": "heartbeat_order_of_checks",
    "unknown_key_types_are_unexpected": "find_coordinator",
    "unrequested_operations_are_0": "describe_versions",
}
"""Behaviour -> the story that shows it."""
OF_PREVIEWS = [(row["release"], each) for row in TABLE for each in row.get("preview", {}).get("behaviours", {})]
PREVIEW_STORIES = [read_story(path) for path in sorted((Path(__file__).parents[1] / "scenarios").glob("preview_*.txt"))]
Becoming = Callable[[Release], str]


@contextmanager
def becoming(folder: Path, settings: Sequence[str] = ()) -> Iterator[Becoming]:
    """A server that becomes a release, and returns its address."""
    started = threading.Event()
    world: list[World] = []
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with running(folder, settings) as server:
            world.append(server)
            started.set()
            await ended.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    async def serve_as(release: Release) -> str:
        server = world[0].server
        server.listeners[0].dispatcher.serve(as_release(server.apis, release), {})
        return world[0].bootstrap

    thread = Background(run)
    assert started.wait(30)
    yield lambda release: asyncio.run_coroutine_threadsafe(serve_as(release), loop).result(10)
    loop.call_soon_threadsafe(ended.set)
    thread.finish()


@pytest.fixture(scope="module")
def become(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Becoming]:
    settings = [f"{name}={value}" for name, value in (OURS | SETTINGS).items()]
    with becoming(tmp_path_factory.mktemp("behaviours"), settings) as become:
        yield become


@pytest.fixture(scope="module")
def previews(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Story, Becoming]]]:
    """The stories of the preview, each with a server that has its settings."""
    with ExitStack() as stack:
        servers = []
        for story in PREVIEW_STORIES:
            settings = [f"{name}={value}" for name, value in (OURS | SETTINGS | story.settings).items()]
            servers.append((story, stack.enter_context(becoming(tmp_path_factory.mktemp("preview"), settings))))
        yield servers


def without(release: str, behaviour: str, *, in_preview: bool = False) -> Release:
    """The release of a table that does not say that the behaviour differs here from the next release."""
    table = deepcopy(TABLE)
    row = next(each for each in table if each["release"] == release)
    del (row["preview"] if in_preview else row)["behaviours"][behaviour]
    return read_releases(table)[release]


def test_each_behaviour_has_a_story_and_is_in_the_table() -> None:
    behaviours = {field.name for field in fields(Behaviours)}
    assert {behaviour for _, behaviour in SWITCHED} == SHOWN_BY.keys()
    assert behaviours == SHOWN_BY.keys() | {behaviour for _, behaviour in OF_PREVIEWS}


def test_brokers_of_both_sides_of_a_change_were_asked_and_differ() -> None:
    next_of = dict(pairwise(reversed(list(releases()))))
    for release, behaviour in SWITCHED:
        story = SHOWN_BY[behaviour]
        following = ANSWERS[next_of[release]].get(story) if release in next_of else {}
        assert ANSWERS[release][story] != following


@pytest.mark.parametrize(("release", "behaviour"), SWITCHED)
def test_a_behaviour_that_is_taken_out_of_the_table_is_noticed(become: Becoming, release: str, behaviour: str) -> None:
    name, lacking = SHOWN_BY[behaviour], without(release, behaviour)
    answers = all_of(release)[name]
    broker = Broker(become(lacking), restart=lambda: None)
    found = EarlierConversation(BY_NAME[name], broker, lacking, answers).play()
    assert {position for position, _ in found.items() ^ answers.items()} - not_imitated(name, release)


@pytest.mark.parametrize(("release", "behaviour"), OF_PREVIEWS)
def test_a_behaviour_that_is_taken_out_of_the_preview_is_noticed(
    previews: list[tuple[Story, Becoming]], release: str, behaviour: str
) -> None:
    """A story that a broker has answered does not hold any more."""
    lacking = without(release, behaviour, in_preview=True).configured(PREVIEW_PROTOCOLS)
    with pytest.raises(Differs):
        for story, become in previews:
            Conversation(story, Broker(become(lacking), restart=lambda: None)).run()


def test_only_the_protocols_of_the_preview_switch_it_on() -> None:
    release = releases()["3.9"]
    assert release.configured(("classic", "consumer", "streams")) is release.configured(("classic",)) is release
    assert release.configured(("consumer", "classic")).refused == frozenset()
    assert releases()["3.7"].configured(PREVIEW_PROTOCOLS).refused
