"""Who may use admin HTTP: tokens, client certificates, what strangers may do, and web pages of strangers."""

import json
import shutil
import ssl
import subprocess
import sys

import httpx
import pytest

from coordinator.admin.credentials import UnusableToken, read_token
from coordinator.config.load import ConfigError, load
from coordinator.config.settings import AdminConfig
from tests.support.server_process import REPOSITORY, ServerProcess
from tests.support.tls import certificates
from tests.support.waiting import WITHIN_S, wait_until

TOKEN = "planted-token-0123456789"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
REASON = {"reason": "a test"}
REBALANCE = "/v1/groups/none/rebalance"


@pytest.fixture(scope="module")
def with_token(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("token"), settings={"admin.token": TOKEN}) as server:
        yield server


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("plain")) as server:
        yield server


def get(server: ServerProcess, path: str = "/v1/groups", **options) -> httpx.Response:
    return httpx.get(server.admin + path, timeout=WITHIN_S, **options)


def test_a_server_with_a_token_answers_only_requests_that_present_it(with_token):
    refused = get(with_token)
    assert (refused.status_code, refused.headers["www-authenticate"].split()[0]) == (401, "Bearer,")
    assert TOKEN not in refused.text
    assert get(with_token, headers=BEARER).status_code == 200
    assert get(with_token, auth=("anybody", TOKEN)).status_code == 200
    for wrong in ({"Authorization": "Bearer x"}, {"Authorization": "Basic %%%"}, {"Authorization": f"Digest {TOKEN}"}):
        assert get(with_token, headers=wrong).status_code == 401
    assert get(with_token, auth=(TOKEN, "")).status_code == 401
    assert get(with_token, "/nowhere").status_code == 401
    assert httpx.post(with_token.admin + REBALANCE, json=REASON, timeout=WITHIN_S).status_code == 401
    assert httpx.post(with_token.admin + REBALANCE, json=REASON, headers=BEARER, timeout=WITHIN_S).status_code == 404


def test_health_checks_need_no_token(with_token):
    assert get(with_token, "/health/ready").status_code == 200
    assert get(with_token, "/health/live").status_code == 200
    address = with_token.admin.removeprefix("http://")
    command = [sys.executable, "-m", "coordinator", "ready", "--config", "config/test.yaml", "--admin", address]
    assert subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True).returncode == 0


def test_the_token_is_in_no_log_and_no_dump(with_token):
    assert TOKEN not in with_token.log
    assert get(with_token, headers=BEARER).status_code == 200
    command = [sys.executable, "-m", "coordinator", "config", "show", "--set", f"admin.token={TOKEN}"]
    shown = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    assert "admin.token" in shown
    assert TOKEN not in shown


def test_anonymous_read_lets_strangers_read_and_change_nothing(coordinator_process):
    server = coordinator_process(settings={"admin.token": TOKEN, "admin.anonymous": "read"})
    assert get(server).status_code == 200
    assert get(server, "/metrics").status_code == 200
    assert get(server, "/v1/faults").status_code == 401  # control is not a view
    assert httpx.post(server.admin + REBALANCE, json=REASON, timeout=WITHIN_S).status_code == 401
    assert httpx.post(server.admin + REBALANCE, json=REASON, headers=BEARER, timeout=WITHIN_S).status_code == 404


def open_to_all(**settings: str) -> AdminConfig:
    assignments = [
        "admin.listener=0.0.0.0:9644",
        *(f"{name.replace('_', '.')}={value}" for name, value in settings.items()),
    ]
    return load(None, assignments).admin


def test_more_than_loopback_needs_credentials_or_a_word_about_strangers():
    with pytest.raises(ConfigError, match=r"0\.0\.0\.0 is not loopback.*admin\.token.*admin\.anonymous"):
        open_to_all()
    assert open_to_all(admin_token=TOKEN).host == "0.0.0.0"
    assert open_to_all(admin_anonymous="read").admin_anonymous == "read"
    assert load(None, ["admin.listener=[::1]:9644"]).admin.host == "::1"
    with pytest.raises(ConfigError, match="not both"):
        open_to_all(admin_token=TOKEN, admin_token_file="token")
    with pytest.raises(ConfigError, match="client certificates need TLS"):
        open_to_all(admin_ssl_truststore_location="ca.pem")


def test_the_container_lets_strangers_read_without_a_token():
    admin = load(REPOSITORY / "config" / "container.yaml").admin
    assert (admin.host, admin.admin_anonymous) == ("0.0.0.0", "read")


def test_a_container_without_a_token_is_read_by_its_name_and_by_no_name_of_a_stranger(coordinator_process):
    server = coordinator_process(settings={"admin.anonymous": "read"}, arguments=("--admin", "0.0.0.0:0"))
    url = server.admin.replace("0.0.0.0", "127.0.0.1")
    statuses = {
        host: httpx.get(f"{url}/v1/groups", headers={"Host": host}, timeout=WITHIN_S).status_code
        for host in ("coordinator:9644", "10.0.0.7:9644", "localhost", "rebound.example:9644")
    }
    assert statuses == {"coordinator:9644": 200, "10.0.0.7:9644": 200, "localhost": 200, "rebound.example:9644": 403}
    refused = httpx.post(url + REBALANCE, json=REASON, timeout=WITHIN_S)
    assert (refused.status_code, "admin.token" in refused.json()["detail"]) == (403, True)


@pytest.mark.parametrize("text", ["short", "has a space in it 123", "ümlaut-0123456789", ""])
def test_an_unusable_token_file_is_refused(tmp_path, text):
    (tmp_path / "token").write_text(text)
    with pytest.raises(UnusableToken, match=r"admin\.token\.file"):
        read_token(AdminConfig(admin_token_file=str(tmp_path / "token")))


def test_a_token_comes_from_a_file(tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert read_token(AdminConfig(admin_token_file=str(tmp_path / "token"))) == TOKEN
    with pytest.raises(UnusableToken, match="No such file"):
        read_token(AdminConfig(admin_token_file=str(tmp_path / "none")))


# --- web pages of strangers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "rebound.example"}, 403),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "[::1]:9644"}, 200),
        ({"Host": "127.0.0.1.rebound.example"}, 403),
    ],
)
def test_a_server_on_loopback_is_not_reached_by_names_that_others_answer(plain, headers, status):
    assert get(plain, headers=headers).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 404),
        ({}, 404),
    ],
)
def test_a_page_of_another_origin_changes_nothing(plain, headers, status):
    answer = httpx.post(plain.admin + REBALANCE, json=REASON, headers=headers, timeout=WITHIN_S)
    assert answer.status_code == status


def test_a_page_of_this_origin_may_change_something_and_another_not_even_without_a_body(plain):
    own = httpx.post(plain.admin + REBALANCE, json=REASON, headers={"Origin": plain.admin}, timeout=WITHIN_S)
    assert own.status_code == 404
    foreign = httpx.delete(f"{plain.admin}/v1/faults", headers={"Origin": "https://evil.example"}, timeout=WITHIN_S)
    assert foreign.status_code == 403


# --- TLS --------------------------------------------------------------------------------------------------------------


def keystore(pem) -> str:
    path = pem.key.parent / "keystore.pem"
    path.write_text(pem.key.read_text() + pem.certificate.read_text())
    return str(path)


def test_a_client_certificate_takes_the_place_of_the_token(coordinator_process, tmp_path):
    pem = certificates(tmp_path)
    settings = {"admin.ssl.keystore.location": keystore(pem), "admin.ssl.truststore.location": str(pem.ca)}
    server = coordinator_process(settings=settings)
    assert server.admin.startswith("https://")
    trusting = ssl.create_default_context(cafile=str(pem.ca))
    assert httpx.get(f"{server.admin}/v1/groups", verify=trusting, timeout=WITHIN_S).status_code == 401
    assert httpx.get(f"{server.admin}/health/ready", verify=trusting, timeout=WITHIN_S).status_code == 200
    known = ssl.create_default_context(cafile=str(pem.ca))
    known.load_cert_chain(pem.certificate, pem.key)
    assert httpx.get(f"{server.admin}/v1/groups", verify=known, timeout=WITHIN_S).status_code == 200
    address = server.admin.removeprefix("https://")
    command = [sys.executable, "-m", "coordinator", "ready", "--admin", address]
    command += ["--set", f"admin.ssl.keystore.location={settings['admin.ssl.keystore.location']}"]
    assert subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True).returncode == 0


def test_a_renewed_certificate_is_used_without_a_restart(coordinator_process, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    old, new = certificates(first), certificates(second)
    server = coordinator_process(settings={"admin.ssl.keystore.location": keystore(old)})

    def is_trusted(pem) -> bool:
        try:
            trusting = ssl.create_default_context(cafile=str(pem.ca))
            return httpx.get(f"{server.admin}/v1/groups", verify=trusting, timeout=WITHIN_S).status_code == 200
        except httpx.ConnectError:
            return False

    assert is_trusted(old)
    shutil.copy(keystore(new), keystore(old))
    wait_until(lambda: is_trusted(new), "the new certificate")
    assert not is_trusted(old)


def test_plain_http_on_the_tls_port_gets_nothing(coordinator_process, tmp_path):
    server = coordinator_process(settings={"admin.ssl.keystore.location": keystore(certificates(tmp_path))})
    with pytest.raises(httpx.TransportError):
        httpx.get(server.admin.replace("https", "http"), timeout=WITHIN_S)


def test_a_certificate_that_cannot_be_used_is_refused_at_the_start(tmp_path):
    (tmp_path / "broken.pem").write_text("nothing")
    command = [sys.executable, "-m", "coordinator", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    command += ["--data-dir", str(tmp_path / "data"), "--set", f"admin.ssl.keystore.location={tmp_path / 'broken.pem'}"]
    done = subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "coordinator: admin HTTP: admin.ssl.keystore" in done.stderr


def test_the_document_says_how_to_authenticate(with_token):
    found = json.loads(get(with_token, "/v1/openapi.json", headers=BEARER).text)
    assert found["components"]["securitySchemes"].keys() == {"token", "password"}
