"""Settings of a server in front of a cluster that cannot be together are refused, with what is allowed."""

import pytest

from coordinator.config.load import ConfigError, load

BEHIND = ["data.plane=none", "data.bootstrap.servers=a:1,[::1]:2"]


def test_the_brokers_are_addresses() -> None:
    assert load(None, BEHIND).overlay.addresses == [("a", 1), ("::1", 2)]


@pytest.mark.parametrize(
    ("assignments", "names"),
    [
        (["data.plane=none", "data.bootstrap.servers=a"], "HOST:PORT"),
        (["data.bootstrap.servers=a:1"], "data.plane = none"),
        (["data.plane=none"], "data.bootstrap.servers"),
        (["data.listener.port=9000"], "data.bootstrap.servers"),
        ([*BEHIND, "listeners=127.0.0.1:1,127.0.0.1:2"], "one listener"),
        ([*BEHIND, 'topics=[{"name": "t"}]'], "the cluster has the topics"),
        ([*BEHIND, "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"], "authorizer"),
        ([*BEHIND, "journal=postgresql://u@h/d"], "data.listener.port"),
        ([*BEHIND, "data.security.protocol=SASL_SSL"], "data.sasl.username"),
        ([*BEHIND, "data.sasl.username=u"], "data.security.protocol"),
        ([*BEHIND, "data.ssl.truststore.location=f"], "data.security.protocol"),
    ],
)
def test_what_cannot_be_together_is_refused(assignments: list[str], names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        load(None, assignments)
