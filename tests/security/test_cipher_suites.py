"""`ssl.cipher.suites`: a listener speaks the suites that its setting names, and a list that cannot be kept is refused."""

import shutil
import socket
import ssl
import subprocess

import pytest

from coordinator.config.cipher_suites import TLS_1_2, TLS_1_3
from coordinator.config.load import ConfigError, load
from coordinator.config.security import TlsConfig
from coordinator.security.tls import UnusableTls, make_context
from tests.support.ports import HeldPort
from tests.support.server_process import ServerProcess
from tests.support.tls import certificates

ALL_1_3 = ",".join(TLS_1_3)
FIRST, SECOND, OTHER = (
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
)
OPENSSL = {
    FIRST: "ECDHE-ECDSA-CHACHA20-POLY1305",
    SECOND: "ECDHE-ECDSA-AES128-GCM-SHA256",
    OTHER: "ECDHE-ECDSA-AES256-SHA",
}
SUITES = {"OLD": f"{FIRST},{SECOND}", "CBC": OTHER, "NEW": ALL_1_3, "BOTH": f"{ALL_1_3},{SECOND}"}
"""The setting of each listener; one more, FREE, has none."""


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("pem"))


@pytest.fixture(scope="module")
def addresses(tmp_path_factory, pem):
    folder = tmp_path_factory.mktemp("server")
    held = {name: HeldPort() for name in SUITES}
    (folder / "both.pem").write_text(pem.key.read_text() + pem.certificate.read_text())
    lines = [
        "listeners:",
        "  - FREE://127.0.0.1:0",
        *(f"  - {name}://{each.address}" for name, each in held.items()),
        f"listener.security.protocol.map: FREE:SSL,{','.join(f'{name}:SSL' for name in SUITES)}",
        f"ssl.keystore.location: {folder}/both.pem",
        *(f"listener.name.{name.lower()}.ssl.cipher.suites: {suites}" for name, suites in SUITES.items()),
        "durability: write",
    ]
    config = folder / "server.yaml"
    config.write_text("\n".join(lines))
    with ServerProcess(folder, config=config) as process:
        yield {"FREE": process.bootstrap} | {name: each.address for name, each in held.items()}
    for each in held.values():
        each.release()


def shakes_hands(address, pem, suite=None, version=None):
    """The version and OpenSSL's name of the suite on which both agree; None if they do not."""
    context = ssl.create_default_context(cafile=pem.ca)
    context.set_ciphers(suite or "ALL")
    if version is not None:
        context.minimum_version = context.maximum_version = version
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=host) as connection:
                return connection.version(), connection.cipher()[0]
        except (ssl.SSLError, ConnectionError):
            return None


V1_2, V1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize("suite", [FIRST, SECOND, OTHER])
def test_clients_can_use_the_named_suites_of_tls_1_2_and_no_others(addresses, pem, suite):
    name = OPENSSL[suite]
    for listener, suites in SUITES.items():
        expected = ("TLSv1.2", name) if suite in suites else None
        assert shakes_hands(addresses[listener], pem, name, V1_2) == expected, listener


def test_the_first_suite_of_the_list_is_preferred(addresses, pem):
    reversed_by_client = f"{OPENSSL[SECOND]}:{OPENSSL[FIRST]}"
    assert shakes_hands(addresses["OLD"], pem, reversed_by_client, V1_2) == ("TLSv1.2", OPENSSL[FIRST])


def test_a_version_of_tls_without_a_suite_is_off(addresses, pem):
    has = {name: tuple(bool(shakes_hands(at, pem, version=v)) for v in (V1_2, V1_3)) for name, at in addresses.items()}
    assert has == {
        "OLD": (True, False),
        "CBC": (True, False),
        "NEW": (False, True),
        "BOTH": (True, True),
        "FREE": (True, True),
    }


def test_each_name_has_the_number_that_openssl_knows_it_by():
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    done = subprocess.run(["openssl", "ciphers", "-V", "-stdname", "ALL"], capture_output=True, text=True, check=True)
    known = {}
    for line in done.stdout.splitlines():
        number, _, name, *_ = line.split()
        known[name] = int(number.replace(",0x", ""), 16)
    named = TLS_1_2 | TLS_1_3
    assert {name: known[name] for name in named} == named


@pytest.mark.parametrize(
    ("suites", "versions", "words"),
    [
        ("TLS_RSA_WITH_RC4_128_MD5", "TLSv1.2", "allowed: TLS_AES_256_GCM_SHA384 or "),
        (OPENSSL[FIRST], "TLSv1.2", "allowed: TLS_AES_256_GCM_SHA384 or "),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "TLSv1.2", "allowed: TLS_AES_256_GCM_SHA384 or "),
        (f"{FIRST},{FIRST}", "TLSv1.2", "separated by commas"),
        (f"TLS_AES_256_GCM_SHA384,{FIRST}", "TLSv1.2,TLSv1.3", "can be named only together: TLS_AES_256_GCM_SHA384, "),
        (FIRST, "TLSv1.3", "has no suite of TLSv1.3 (ssl.enabled.protocols)"),
        (ALL_1_3, "TLSv1.2", "has no suite of TLSv1.2 (ssl.enabled.protocols)"),
    ],
)
def test_a_list_that_cannot_be_kept_is_refused_with_the_reason(suites, versions, words):
    settings = [
        "listener.security.protocol.map=PLAINTEXT:SSL",
        "ssl.keystore.location=/server.pem",
        f"ssl.enabled.protocols={versions}",
        f"ssl.cipher.suites={suites}",
    ]
    with pytest.raises(ConfigError) as caught:
        load(None, settings, {})
    assert "ssl.cipher.suites" in str(caught.value)
    assert words in str(caught.value)


def test_a_suite_that_this_openssl_does_not_have_is_refused_by_name(monkeypatch):
    monkeypatch.setitem(TLS_1_2, SECOND, 0xFFFF)
    with pytest.raises(UnusableTls, match=f"^ssl.cipher.suites: this machine's OpenSSL does not have {SECOND}$"):
        make_context(TlsConfig(ssl_cipher_suites=(FIRST, SECOND)))
