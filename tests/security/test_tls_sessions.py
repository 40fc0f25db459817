"""Sessions of TLS 1.3 are not resumed, so the server keeps none of them in its memory."""

import contextlib
import ssl

from coordinator.config.security import TlsConfig
from coordinator.security.tls import make_context
from tests.support.tls import certificates


def talk(server, client):
    """Shakes hands and sends a byte to the client, who has then read all that comes with the handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_server = server.wrap_bio(to_server, to_client, server_side=True)
    at_client = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    for _ in range(3):
        for side in (at_client, at_server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    at_server.write(b"x")
    assert at_client.read(1) == b"x"
    return at_client


def test_a_handshake_of_tls_1_3_leaves_no_session_behind(tmp_path):
    pem = certificates(tmp_path)
    both = tmp_path / "both.pem"
    both.write_text(pem.key.read_text() + pem.certificate.read_text())
    server = make_context(TlsConfig(ssl_keystore_location=str(both)))
    client = ssl.create_default_context(cafile=pem.ca)
    connection = talk(server, client)
    assert connection.version() == "TLSv1.3"
    assert not connection.session.has_ticket
    assert server.session_stats()["number"] == 0
