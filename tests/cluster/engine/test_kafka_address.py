"""A kafka:// address says where the brokers are and how connections are protected, and shows no password."""

import pytest

from coordinator.client.login.sasl import Sasl
from coordinator.cluster.engine.address import EngineAddress, engine_for
from coordinator.cluster.engine.engine import EngineRefused, EngineSettings, claim_one
from coordinator.cluster.engine.kafka.address import PROTOCOLS, cluster_address
from tests.cluster.engine.contract import pieces, worker
from tests.support.ports import HeldPort
from tests.support.server_process import ServerProcess
from tests.support.tls import certificates

SETTINGS = EngineSettings(replication="optional")
PASSWORD = "p/w:@ 1"
QUOTED = "p%2Fw%3A%40%201"


def test_brokers_without_a_port_have_kafkas():
    assert cluster_address(EngineAddress("kafka://a,b:1,[::1]:2")).brokers == (("a", 9092), ("b", 1), ("::1", 2))


def test_a_user_means_sasl_over_tls_with_scram():
    address = cluster_address(EngineAddress(f"kafka://me:{QUOTED}@a"))
    assert address.sasl == Sasl(mechanism="SCRAM-SHA-512", user="me", password=PASSWORD)
    assert address.tls is not None
    assert PASSWORD not in repr(address)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("kafka://", "the address names no broker"),
        ("kafka://a/database", "/database is not part of an address"),
        (
            "kafka://a?sslmode=require",
            "an option of the address is sslmode; allowed: security.protocol, sasl.mechanism",
        ),
        (
            "kafka://a?security.protocol=TLS",
            "security.protocol is TLS; allowed: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        ("kafka://a?security.protocol=SASL_SSL", "SASL_SSL and the account do not fit"),
        ("kafka://me:secret@a?security.protocol=SSL", "SSL and the account do not fit"),
        ("kafka://me:secret@a?sasl.mechanism=GSSAPI", "sasl.mechanism is GSSAPI; allowed: PLAIN, SCRAM-SHA-256"),
        ("kafka://me:secret@a?ssl.ca.location=/missing", "the files of TLS cannot be used"),
    ],
)
def test_an_address_that_is_not_valid_is_refused(url, text):
    with pytest.raises(EngineRefused, match=text) as refused:
        engine_for(EngineAddress(url), SETTINGS)
    assert "secret" not in str(refused.value)


def test_a_cluster_that_cannot_name_topics_is_refused():
    with pytest.raises(EngineRefused, match=r"journal.cluster is a/b, and topics are named after it"):
        engine_for(EngineAddress("kafka://a"), EngineSettings(cluster="a/b"))


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("pem"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, pem):
    """Brokers' listeners by security protocol: those of a coordinator, which stands for a cluster."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "users").write_text(f"alice:{PASSWORD}\n")
    (folder / "both.pem").write_text(pem.key.read_text() + pem.certificate.read_text())
    ports = {protocol: HeldPort() for protocol in PROTOCOLS}
    server = ServerProcess(
        folder,
        settings={
            "listeners": ",".join(f"{protocol}://{held.address}" for protocol, held in ports.items()),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "sasl.users.file": str(folder / "users"),
            "ssl.keystore.location": str(folder / "both.pem"),
            "ssl.truststore.location": str(pem.ca),
        },
    )
    with server:
        yield {protocol: held.address for protocol, held in ports.items()}
    for held in ports.values():
        held.release()


@pytest.mark.parametrize(
    ("protocol", "account", "options"),
    [
        ("SASL_PLAINTEXT", f"alice:{QUOTED}@", "&sasl.mechanism=PLAIN"),
        ("SASL_PLAINTEXT", f"alice:{QUOTED}@", "&sasl.mechanism=SCRAM-SHA-256"),
        ("SASL_SSL", f"alice:{QUOTED}@", "&ssl.ca.location={ca}"),
        ("SSL", "", "&ssl.ca.location={ca}&ssl.certificate.location={certificate}&ssl.key.location={key}"),
    ],
)
async def test_a_worker_is_known_to_the_cluster(guarded, pem, protocol, account, options):
    options = options.format(ca=pem.ca, certificate=pem.certificate, key=pem.key)
    engine = engine_for(
        EngineAddress(f"kafka://{account}{guarded[protocol]}?security.protocol={protocol}{options}"), SETTINGS
    )
    await engine.open()
    claim = await claim_one(engine, "a-0", worker(1))
    assert await engine.append(pieces(claim, b"known")) == frozenset()
    assert (await engine.tail("a-0", 0))[-1][1] == b"known"
    await engine.close()


@pytest.mark.parametrize(
    ("protocol", "account", "options", "text"),
    [
        ("SASL_PLAINTEXT", "alice:wrong@", "&sasl.mechanism=PLAIN", "refuses user alice"),
        ("SASL_PLAINTEXT", "alice:wrong@", "", "refuses user alice"),
        ("SASL_SSL", f"alice:{QUOTED}@", "", "the certificate is not trusted"),
    ],
)
async def test_a_worker_that_is_not_known_is_refused(guarded, protocol, account, options, text):
    """The errors show no password."""
    url = f"kafka://{account}{guarded[protocol]}?security.protocol={protocol}{options}"
    engine = engine_for(EngineAddress(url), SETTINGS)
    with pytest.raises(EngineRefused, match=text) as refused:
        await engine.open()
    for secret in ("wrong", PASSWORD, QUOTED):
        assert secret not in str(refused.value)
