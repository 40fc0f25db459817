"""Workers with several listeners, of which one is for workers: with TLS, with SASL, with both."""

import pytest

from coordinator.config.access_control import STANDARD_AUTHORIZER
from coordinator.config.load import ConfigError
from coordinator.server import CannotStart
from tests.cluster.workers.world import ADDS_ITSELF, begin, commit_in, end, fetch, find, topic_and_names_apart, workers
from tests.support.tls import certificates

TWO = (
    "data.plane=none",
    "listeners=OUTER://127.0.0.1:0,INNER://127.0.0.1:0",
    "inter.broker.listener.name=inner",
)
AUTHORIZER = (f"authorizer.class.name={STANDARD_AUTHORIZER}",)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN = 'required username="worker" password="a secret, \\"quoted\\"";'


def protected(folder, protocol):
    """The settings of a listener for workers with this protocol."""
    folder = folder / "secrets"
    folder.mkdir()
    settings = [*TWO, f"listener.security.protocol.map=OUTER:PLAINTEXT,INNER:{protocol.partition(' ')[0]}"]
    if "SSL" in protocol:
        pem = certificates(folder)
        (folder / "keystore.pem").write_text(pem.key.read_text() + pem.certificate.read_text())
        settings += [
            f"listener.name.inner.ssl.keystore.location={folder / 'keystore.pem'}",
            f"listener.name.inner.ssl.truststore.location={pem.ca}",
            f"listener.name.inner.ssl.client.auth={'required' if protocol == 'SSL' else 'none'}",
        ]
    if "SASL" in protocol:
        mechanism = protocol.partition(" ")[2]
        (folder / "users").write_text('worker:a secret, "quoted"\n')
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        settings += [
            f"listener.name.inner.sasl.enabled.mechanisms={mechanism}",
            f"listener.name.inner.sasl.users.file={folder / 'users'}",
            f"listener.name.inner.{mechanism.lower()}.sasl.jaas.config={module} {LOGIN}",
        ]
    return tuple(settings)


async def a_transaction_spans_workers(world):
    name, coordinator, group_owner = await topic_and_names_apart(world)
    client, group = await coordinator.client(), await group_owner.client()
    producer = await begin(client, name)
    assert await commit_in(group, ADDS_ITSELF, name, producer, 7) == 0
    assert await end(client, 5, name, producer, committed=True) == 0
    await world.until(lambda: not group_owner.server.groups.shard_of(name).state.offsets.pending.by_producer)
    assert await fetch(group, name, "t") == (0, 7)


@pytest.mark.parametrize(
    ("protocol", "principal"),
    [
        ("SASL_PLAINTEXT PLAIN", "User:worker"),
        ("SASL_SSL SCRAM-SHA-512", "User:worker"),
        ("SSL", "User:CN=test"),
        ("PLAINTEXT", "User:ANONYMOUS"),
    ],
)
async def test_workers_ask_each_other_at_a_listener_with_security(tmp_path, protocol, principal):
    """As a principal that may do what brokers may; clients use the other listener."""
    settings = (*protected(tmp_path, protocol), *AUTHORIZER, f"super.users=User:ANONYMOUS;{principal}")

    async with workers(tmp_path) as world:
        await world.start(1, 2, settings=settings)
        await a_transaction_spans_workers(world)


@pytest.mark.parametrize("listener", [0, 1])
async def test_clients_get_the_addresses_of_the_listener_that_they_use(world, listener):
    """Of the worker that has a group, and of all in Metadata."""
    await world.start(1, 2, settings=TWO)
    await world.until_spread()
    addresses = {each.node_id: each.server.listeners[listener].bound for each in world.running}
    for worker in world.running:
        await world.until(lambda worker=worker: len(worker.sharing.cluster.living) == 2)
        client = await worker.client(listener)
        metadata = await client.call("Metadata", 8, topics=[])
        assert {each.node_id: (each.host, each.port) for each in metadata.brokers} == addresses
        for group in ("a", "b", "c", "d"):
            owner = world.owner(worker.server.groups.shard_of(group).index)
            found = await find(client, group)
            assert (found.host, found.port) == addresses[owner.node_id]


async def test_a_worker_without_the_client_s_listener_is_not_named(world):
    """As in Kafka: Metadata leaves it out, and FindCoordinator says that there is none at the moment."""
    await world.start(1, settings=TWO)
    await world.start(2, settings=("data.plane=none", "listeners=INNER://127.0.0.1:0"))
    await world.until_spread()
    first, second = world.running
    await world.until(lambda: len(first.sharing.cluster.living) == 2)
    client = await first.client()
    metadata = await client.call("Metadata", 8, topics=[])
    assert [each.node_id for each in metadata.brokers] == [1]
    names = (f"group-{number}" for number in range(100))
    there = next(name for name in names if first.server.groups.shard_of(name).index in second.shards)
    assert (await find(client, there)).error_code == 15
    assert (await find(await first.client(1), there)).node_id == 2


INNER_SASL = ("listener.security.protocol.map=INNER:SASL_PLAINTEXT",)
REFUSED = [
    (
        (*AUTHORIZER, "super.users=User:admin"),
        "User:ANONYMOUS may not do ClusterAction.* name it in super.users, or allow it by an ACL",
    ),
    (
        (*INNER_SASL, "sasl.enabled.mechanisms=SCRAM-SHA-256"),
        "set listener.name.inner.scram-sha-256.sasl.jaas.config with username and password",
    ),
    (
        (
            *INNER_SASL,
            "sasl.enabled.mechanisms=SCRAM-SHA-256",
            f"listener.name.inner.scram-sha-256.sasl.jaas.config={PLAIN} {LOGIN}",
        ),
        "allowed: org.apache.kafka.common.security.scram.ScramLoginModule required username",
    ),
]


@pytest.mark.parametrize(("settings", "why"), REFUSED, ids=["no permission", "no login", "another module"])
async def test_a_worker_that_others_would_not_answer_does_not_start(world, settings, why):
    """It says what to set; otherwise transactions would never end."""
    with pytest.raises(CannotStart, match=why):
        await world.start(1, settings=(*TWO, *settings))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (TWO[:2], "set inter.broker.listener.name to the one at which workers ask each other"),
        ((*TWO[:2], "inter.broker.listener.name=other"), r"allowed: the name of a listener \(OUTER, INNER\)"),
        (("listeners=127.0.0.1:0,127.0.0.1:0",), "give each its own"),
        (
            (*TWO, *INNER_SASL, "sasl.users.file=/dev/null", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256"),
            "sasl.mechanism.inter.broker.protocol = nothing: listener INNER asks workers to authenticate",
        ),
    ],
    ids=["no name", "an unknown name", "the same name", "two mechanisms"],
)
async def test_settings_between_workers_that_do_not_fit_the_listeners_are_refused(world, settings, why):
    with pytest.raises(ConfigError, match=why):
        await world.start(1, settings=settings)
