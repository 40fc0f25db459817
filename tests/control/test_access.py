"""A server that asks for a token or a certificate is used with them, and refuses in one line without."""

import os
import subprocess
import sys

import pytest

from coordinator_testing.control import Access, AsyncControl, Control, ControlRefused, ControlUnreachable
from tests.support.server_process import ServerProcess
from tests.support.tls import certificates

TOKEN = "planted-token-0123456789"


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("pem"))


@pytest.fixture(scope="module")
def identity(pem):
    """A file with a key and its certificate."""
    path = pem.key.parent / "both.pem"
    path.write_text(pem.key.read_text() + pem.certificate.read_text())
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory, pem, identity):
    settings = {
        "admin.token": TOKEN,
        "admin.ssl.keystore.location": str(identity),
        "admin.ssl.truststore.location": str(pem.ca),
    }
    with ServerProcess(tmp_path_factory.mktemp("server"), settings=settings) as process:
        yield process


def test_a_token_or_a_certificate_opens_the_server(server, pem, identity):
    for access in (Access(token=TOKEN, ca=pem.ca), Access(ca=pem.ca, certificate=identity)):
        with Control(server.admin, access=access) as control:
            assert control.groups() == []


async def test_asyncio_clients_have_the_same_access(server, pem):
    async with AsyncControl(server.admin, access=Access(token=TOKEN, ca=pem.ca)) as control:
        assert await control.groups() == []


def test_without_either_the_server_refuses(server, pem):
    control = Control(server.admin, access=Access(ca=pem.ca))
    with pytest.raises(ControlRefused) as refused:
        control.groups()
    assert refused.value.status == 401
    control.disconnect()


def test_a_server_whose_certificate_nobody_trusts_is_not_used(server):
    control = Control(server.admin, access=Access(token=TOKEN))
    with pytest.raises(ControlUnreachable):
        control.groups()
    control.disconnect()


def test_a_token_is_not_shown():
    assert TOKEN not in repr(Access(token=TOKEN))


@pytest.mark.parametrize(
    ("variables", "code"), [({"ADMIN_TOKEN": TOKEN}, 0), ({}, 1), ({"ADMIN_TOKEN": TOKEN, "ADMIN_CA": "/absent"}, 2)]
)
def test_the_command_line_takes_credentials_from_the_environment(server, pem, variables, code):
    environment = os.environ | {"ADMIN_URL": server.admin, "ADMIN_CA": str(pem.ca)} | variables
    command = [sys.executable, "-m", "coordinator", "control", "faults", "list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    assert done.stderr.count("\n") <= 1
