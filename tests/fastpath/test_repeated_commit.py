"""A repeated commit has the effects of a commit that takes the ordinary path.

Two servers get the same frames. One has the fast path plugged in, the other does not. Their responses, their logs, their event
logs and their states are equal, whatever else happens between the commits.
"""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.api.recognition import NO_TEMPLATE
from coordinator.client.conversation import request_frame
from coordinator.fastpath.bulk_replay import bulk_replayers
from coordinator.fastpath.event_encoding import EVENT_ENCODERS
from coordinator.fastpath.repeated_commit import MISSES_MAX, TEMPLATE_BYTES_MAX, RepeatedCommit, template_learners
from coordinator.groups.settings import GroupsConfig
from coordinator.groups.state import Groups
from coordinator.network.dispatch import Dispatcher
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from coordinator.protocol.releases import AS_NEWEST
from coordinator.requests import consumer_group_heartbeat, join_group, offset_commit, sync_group
from coordinator.runtime.result import NO_LINK
from coordinator.runtime.router import Router
from coordinator.security.access import READ_GROUP, READ_TOPIC, AclOperation, ResourceType
from coordinator.security.acls import Acl, PatternType, PermissionType
from coordinator.security.audit import AuditLog
from coordinator.security.principal import Principal
from coordinator.security.standard_authorizer import StandardAuthorizer
from tests.runtime.event_world import EventWorld

CODEC = Codec.of(None)
MODULES = (consumer_group_heartbeat, join_group, offset_commit, sync_group)
Topic = OffsetCommitRequest.OffsetCommitRequestTopic
Partition = OffsetCommitRequest.OffsetCommitRequestPartition


def rule(resource_type, name, permission=PermissionType.ALLOW, *, pattern=PatternType.LITERAL, who="User:alice"):
    return Acl(resource_type, name, pattern, who, "*", AclOperation.READ, permission)


RULES = {
    "any group": rule(ResourceType.GROUP, "*"),
    "not g": rule(ResourceType.GROUP, "g", PermissionType.DENY),
    "t": rule(ResourceType.TOPIC, "t"),
    "u": rule(ResourceType.TOPIC, "u", pattern=PatternType.PREFIXED),
    "not t": rule(ResourceType.TOPIC, "t", PermissionType.DENY, who="User:*"),
    "bob's group": rule(ResourceType.GROUP, "*", who="User:bob"),
}
ENOUGH = ("any group", "t", "u")
"""What alice needs."""


class Connection:
    """A client's connection that keeps its exchanges."""

    advertised = ("localhost", 9092)
    client_host = "/127.0.0.1"
    link = NO_LINK
    dialect = None
    behaviours = AS_NEWEST

    def __init__(self, principal):
        self.principal = principal
        self.cached_request = SimpleNamespace(rest=None, head=None)
        self.template = NO_TEMPLATE
        self.template_misses = 0
        self.exchanges = []

    def hold(self, exchange):
        pass

    def ready(self):
        pass


class World(EventWorld):
    def __init__(self, *, fastpath, policy="all", rules=None):
        if fastpath:
            self.encoders, self.bulk_replayers = EVENT_ENCODERS, bulk_replayers
        super().__init__("write", policy, topics={"t": 4, "u": 2})
        apis = {module.API.key: replace(module.API, is_cacheable=False) for module in MODULES}
        uuids = count()
        server = SimpleNamespace(
            groups=Router([self.shard]),
            topics=self.catalog,
            clock=self.clock,
            entropy=SimpleNamespace(uuid=lambda: f"{next(uuids):036}"),
            config=SimpleNamespace(groups=GroupsConfig()),
        )
        self.authorizer = None if rules is None else StandardAuthorizer(["User:admin"], acls=rules, audit=AuditLog(int))
        learners = template_learners(CODEC) if fastpath else {}
        self.dispatcher = Dispatcher(server, apis, CODEC, learners, self.authorizer)
        self.connections = [Connection(Principal("User", name)) for name in ("alice", "admin", "bob")]

    def send(self, whole, connection=0):
        self.dispatcher.dispatch(whole[4:], self.connections[connection])
        return self.connections[connection].exchanges[-1]

    def answers(self):
        return [[exchange.payload for exchange in connection.exchanges] for connection in self.connections]

    def matched(self):
        return [type(exchange.request) is RepeatedCommit for exchange in self.connections[0].exchanges]

    def outcome(self):
        state: Groups = self.shard.state
        logs = [log.read(0, 1 << 24) for log in (self.shard.log, self.event_log.log)]
        return (
            logs,
            state.offsets.by_group,
            state.offsets.count,
            state.counters.offsets,
            state.counters.fenced,
            state.by_id.keys(),
            [(fact.name, fact.fields) for fact in self.facts],
        )


class Twins:
    """Both servers, and the members that a client of both knows."""

    def __init__(self, policy="all", rules=None):
        """`rules`: the ACLs; None: there is no authorizer."""
        self.worlds = [World(fastpath=fastpath, policy=policy, rules=rules) for fastpath in (True, False)]
        self.members = {"nobody": ("", -1), "stranger": ("x", 3)}
        self.correlation_id = 0

    def send(self, whole, connection=0):
        exchanges = [world.send(whole, connection) for world in self.worlds]
        return exchanges[0]

    def ask(self, name, version, request):
        """The response of both servers, decoded."""
        exchange = self.send(request_frame(request, version, self.next_id(), b"test"), 1)
        self.settle()
        assert len(set(map(repr, (world.connections[1].exchanges[-1].payload for world in self.worlds)))) == 1
        position = 9 if CODEC.is_flexible(f"{name}Response", version) else 8
        return CODEC.decoder(f"{name}Response", version)(exchange.payload, position)[0]

    def next_id(self):
        self.correlation_id += 1
        return self.correlation_id

    def settle(self):
        for world in self.worlds:
            world.settle()

    def join(self):
        """The classic group g forms, or forms again."""
        member_id, _ = self.members.get("classic", ("", 0))
        protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"\0\1\0\0\0\0\xff\xff\xff\xff")
        join = JoinGroupRequest("g", 30_000, 30_000, member_id, None, "consumer", [protocol])
        joined = self.ask("JoinGroup", 5, join)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            join.member_id = joined.member_id
            self.ask_join_and_wait(join)
        else:
            self.ask_join_and_wait(join)

    def ask_join_and_wait(self, join):
        exchange = self.send(request_frame(join, 5, self.next_id(), b"test"), 1)
        for world in self.worlds:
            world.settle()
            world.advance(3_000)
            world.settle()
        joined = CODEC.decoder("JoinGroupResponse", 5)(exchange.payload, 8)[0]
        assert joined.error_code == ErrorCode.NONE
        self.members["classic"] = joined.member_id, joined.generation_id
        sync = SyncGroupRequest("g", joined.generation_id, joined.member_id)
        assert self.ask("SyncGroup", 3, sync).error_code == ErrorCode.NONE

    def beat(self, name):
        """A member of the consumer group k joins, or hears what it is to have."""
        _, epoch = self.members.get(name, ("", 0))
        beat = ConsumerGroupHeartbeatRequest(
            "k", name, epoch, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"]
        )
        beat.topic_partitions = []
        answer = self.ask("ConsumerGroupHeartbeat", 1, beat)
        if not answer.error_code:
            self.members[name] = name, answer.member_epoch

    def commit(self, who, version, asked, *, connection=0, epoch_back=0, metadata=""):
        """`asked`: (topic, partition) -> offset and leader epoch."""
        group = {"classic": "g", "a": "k", "b": "k"}.get(who, "s")
        member_id, epoch = self.members.get(who, ("", -1))
        request = OffsetCommitRequest(group, epoch - epoch_back, member_id)
        for (name, index), (offset, leader_epoch) in asked.items():
            if not request.topics or request.topics[-1].name != name:
                topic_id = self.worlds[0].catalog.topic_id(name) or b"?" * 16
                request.topics.append(Topic(name, topic_id, []))
            request.topics[-1].partitions.append(Partition(index, offset, leader_epoch, metadata))
        self.send(request_frame(request, version, self.next_id(), b"test"), connection)

    def permit(self, rule, *, permitted=True):
        """Adds an ACL of `RULES`, or removes it."""
        for world in self.worlds:
            if permitted:
                world.authorizer.add(rule.encode(), RULES[rule])
            else:
                world.authorizer.remove(rule.encode())

    def check(self):
        self.settle()
        first, second = self.worlds
        if first.authorizer is not None:
            assert first.authorizer.audit.denied == second.authorizer.audit.denied
        assert first.answers() == second.answers()
        assert first.outcome() == second.outcome()


numbers = st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
commits = st.tuples(
    st.just("commit"),
    st.sampled_from(["classic", "a", "b", "nobody", "stranger"]),
    st.sampled_from([2, 5, 6, 8, 8, 9, 9, 10]),
    st.sampled_from(
        [[("t", 0)], [("t", 0), ("t", 1), ("u", 1)], [("t", 3), ("t", 2)], [("t", 9)], [("t", 0), ("t", 0)]]
    ),
    st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=5),
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from(["", "", None, "why"]),
)
others = st.sampled_from(
    [("join",), ("beat", "a"), ("beat", "b"), ("settle",), ("advance", 1_000), ("put", "t", 4), ("put", "t", 3),
     ("put", "u", 2), ("remove", "t"), ("remove", "u")]
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.lists(commits | others, max_size=25), st.sampled_from(["all", "refused", "none"]))
def test_responses_logs_events_and_state_are_equal(steps, policy):
    twins = Twins(policy)
    twins.join()
    twins.beat("a")
    twins.settle()
    play(twins, steps)


rounds = st.tuples(
    st.sets(st.sampled_from(sorted(RULES)), max_size=2).map(lambda toggled: set(ENOUGH) ^ toggled),
    st.sampled_from([8, 10]),
    st.sampled_from([[("t", 0)], [("t", 0), ("u", 1)]]),
    others | st.none(),
)
"""The ACLs of a time, and what is committed three times in it, so that there is a template when they change."""


@settings(max_examples=60, deadline=None)
@given(st.lists(rounds, max_size=8))
def test_a_repeated_commit_gets_no_more_and_no_less_than_the_acls_permit_now(times):
    twins = Twins(rules={})
    twins.join()
    for rules, version, partitions, other in times:
        for name in RULES:
            twins.permit(name, permitted=name in rules)
        commit = ("commit", "classic", version, partitions, [[(1, 1), (2, 2)]] * 3, 0, "")
        play(twins, [commit] if other is None else [commit, other])


def play(twins, steps):
    for step in steps:
        match step:
            case ("commit", who, version, partitions, runs, epoch_back, metadata):
                for values in runs:
                    asked = dict(zip(partitions, values, strict=False))
                    twins.commit(who, version, asked, epoch_back=epoch_back, metadata=metadata)
            case ("join",):
                twins.join()
            case ("beat", name):
                twins.beat(name)
            case ("settle",):
                twins.settle()
            case ("advance", delay_ms):
                for world in twins.worlds:
                    world.advance(delay_ms)
            case ("put", name, partitions):
                for world in twins.worlds:
                    world.catalog.add(name, partitions)
            case ("remove", name):
                for world in twins.worlds:
                    world.catalog.remove(name)
    twins.check()


def one(offset, epoch=0):
    return {("t", 0): (offset, epoch)}


def committed(twins, *, group="g"):
    return {at: value.offset for at, value in twins.worlds[0].shard.state.offsets.of(group)}


def test_the_second_commit_makes_the_template():
    twins = Twins()
    twins.join()
    for offset in range(5):
        twins.commit("classic", 8, one(offset))
    assert twins.worlds[0].matched() == [False, False, True, True, True]
    assert twins.worlds[1].matched() == [False] * 5
    twins.check()
    assert committed(twins) == {("t", 0): 4}


def test_a_template_keeps_what_the_acls_permit_until_they_change():
    twins = Twins(rules={name.encode(): RULES[name] for name in ENOUGH})
    twins.join()
    both = {("t", 0): (1, 0), ("u", 0): (1, 0)}
    for _ in range(4):
        twins.commit("classic", 8, both)
    assert twins.worlds[0].matched() == [False, False, True, True]
    twins.permit("not t")
    twins.commit("classic", 8, both)
    twins.permit("not g")
    twins.commit("classic", 8, both)
    assert twins.worlds[0].matched()[-2:] == [False, False]
    assert twins.worlds[0].authorizer.audit.denied == {READ_TOPIC: 1, READ_GROUP: 1}
    twins.permit("not t", permitted=False)
    twins.permit("not g", permitted=False)
    twins.commit("classic", 8, both)
    assert twins.worlds[0].matched()[-1]
    twins.check()


def test_the_template_of_one_client_lets_no_other_pass():
    """The frames of bob are those of alice; he may use the group, but not read the topic."""
    twins = Twins(rules={name.encode(): RULES[name] for name in (*ENOUGH, "bob's group")})
    twins.join()
    for offset in range(5):
        twins.commit("classic", 8, one(offset))
        twins.commit("classic", 8, one(offset + 100), connection=2)
    assert twins.worlds[0].matched()[-1]
    assert twins.worlds[0].authorizer.audit.denied == {READ_TOPIC: 5}
    twins.check()
    assert committed(twins) == {("t", 0): 4}


def test_a_batch_of_repeated_commits_is_that_of_ordinary_ones():
    """Offset deltas take one byte and then two; a commit may lie across that border."""
    twins = Twins()
    twins.join()
    for offset in range(150):
        twins.commit("classic", 9, {("t", 0): (offset, 1), ("t", 1): (-offset, -1), ("u", 1): (7, 7)})
    twins.commit("nobody", 9, one(1))
    twins.check()


def test_a_new_generation_makes_a_new_template_once_the_old_one_has_paid_off():
    twins = Twins()
    twins.join()
    for offset in range(12):
        twins.commit("classic", 8, one(offset))
    twins.join()
    for offset in range(3):
        twins.commit("classic", 8, one(offset))
    assert twins.worlds[0].matched()[-3:] == [False, True, True]
    twins.check()


def test_a_client_that_never_repeats_a_commit_costs_few_templates():
    twins = Twins()
    twins.join()
    for world in twins.worlds:
        world.catalog.add("t", 1_000)
    templates = set()
    for number in range(200):
        twins.commit("classic", 8, {("t", number): (1, 1)})
        templates.add(id(twins.worlds[0].connections[0].template))
    assert not any(twins.worlds[0].matched())
    assert len(templates) <= 200 // MISSES_MAX + 2
    twins.check()


def test_a_deleted_topic_is_refused_and_a_recreated_one_has_its_new_id():
    twins = Twins()
    twins.join()
    for _ in range(2):
        for offset in range(4):
            twins.commit("classic", 8, one(offset))
        for world in twins.worlds:
            world.catalog.remove("t")
        twins.commit("classic", 8, one(5))
        assert type(twins.worlds[0].connections[0].exchanges[-1].request) is not RepeatedCommit
        for world in twins.worlds:
            world.catalog.add("t", 4)
        twins.commit("classic", 8, one(6))
        assert type(twins.worlds[0].connections[0].exchanges[-1].request) is RepeatedCommit
    twins.check()
    ((_, value),) = twins.worlds[0].shard.state.offsets.of("g")
    assert value.topic_id == twins.worlds[0].catalog.topic_id("t")


def test_there_is_no_template_with_metadata_of_old_versions_or_of_large_requests():
    twins = Twins()
    twins.join()
    for name, version, asked, metadata in (
        ("classic", 8, one(1), "why"),
        ("classic", 5, one(1), ""),
        ("classic", 8, {("t", index): (1, 1) for index in range(TEMPLATE_BYTES_MAX // 18)}, ""),
    ):
        for _ in range(MISSES_MAX + 2):
            twins.commit(name, version, asked, metadata=metadata)
    assert not any(twins.worlds[0].matched())
    twins.check()


def test_there_is_no_template_of_a_request_with_unknown_tagged_fields():
    """They are ignored when decoding, so the template could not reproduce their bytes."""
    twins = Twins()
    twins.join()
    member_id, generation = twins.members["classic"]
    request = OffsetCommitRequest("g", generation, member_id, topics=[Topic("t", partitions=[Partition(0, 5, 1, "")])])
    whole = request_frame(request, 8, 7, b"test")
    tagged = whole[4:-1] + b"\1\x63\2ab"
    for _ in range(MISSES_MAX + 2):
        twins.send(len(tagged).to_bytes(4) + tagged)
    assert not any(twins.worlds[0].matched())
    twins.check()
    assert committed(twins) == {("t", 0): 5}


def test_a_shard_that_reloads_its_log_finds_the_commits():
    twins = Twins()
    twins.join()
    for offset in range(20):
        twins.commit("classic", 8, one(offset))
    twins.check()
    before = committed(twins)
    for world in twins.worlds:
        world.shard.load()
    assert committed(twins) == before
    for offset in range(20, 25):
        twins.commit("classic", 8, one(offset))
    twins.check()
