"""A server with an authorizer, as its clients and its operators meet it."""

import os
import subprocess
import sys

import pytest

from coordinator.client.login.sasl import Sasl
from coordinator.client.login.tls import Security
from coordinator.config.access_control import STANDARD_AUTHORIZER
from coordinator.operations.client import Client
from coordinator.protocol.messages import (
    CreateAclsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    HeartbeatRequest,
)
from coordinator.security.access import AclOperation, ResourceType
from coordinator.security.acls import PatternType, PermissionType
from tests.support.admin_client import scrape
from tests.support.server_process import ServerProcess

GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, UNKNOWN_MEMBER_ID = 30, 31, 25
EVERY_ACL = DescribeAclsRequest(
    ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, PermissionType.ANY
)
EVERY_FILTER = DeleteAclsRequest.DeleteAclsFilter(
    ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, PermissionType.ANY
)


@pytest.fixture
def server(tmp_path):
    (tmp_path / "users").write_text("".join(f"{user}:{user}\n" for user in ("admin", "alice")))
    process = ServerProcess(
        tmp_path,
        settings={
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.users.file": str(tmp_path / "users"),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:admin",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
        },
    )
    with process:
        yield process


def as_user(server, user):
    return Client(server.bootstrap, 10, Security(tls=None, sasl=Sasl(mechanism="PLAIN", user=user, password=user)))


def ask(server, user, request):
    with as_user(server, user) as client:
        return client.any().ask(request)


def create_acls(server, *acls, user="admin"):
    creations = [CreateAclsRequest.AclCreation(*acl) for acl in acls]
    return [result.error_code for result in ask(server, user, CreateAclsRequest(creations)).results]


def acl(resource_type, name, operation, permission=PermissionType.ALLOW, *, pattern=PatternType.LITERAL, host="*"):
    return resource_type, name, pattern, "User:alice", host, operation, permission


GROUPS = acl(ResourceType.GROUP, "team-", AclOperation.READ, pattern=PatternType.PREFIXED, host="127.0.0.0/8")


def test_acls_hold_at_once_and_after_a_restart(server):
    with as_user(server, "alice") as alice:
        beat = HeartbeatRequest("team-1", 1, "member")
        assert alice.any().ask(beat).error_code == GROUP_AUTHORIZATION_FAILED
        assert create_acls(server, GROUPS) == [0]
        assert alice.any().ask(beat).error_code == UNKNOWN_MEMBER_ID
        for _ in range(3):  # the same bytes again
            assert alice.any().ask(beat).error_code == UNKNOWN_MEMBER_ID
        ask(server, "admin", DeleteAclsRequest([EVERY_FILTER]))
        assert alice.any().ask(beat).error_code == GROUP_AUTHORIZATION_FAILED
    assert create_acls(server, GROUPS) == [0]
    server.restart(kill=True)
    assert ask(server, "alice", beat).error_code == UNKNOWN_MEMBER_ID
    (resource,) = ask(server, "admin", EVERY_ACL).resources
    assert (resource.resource_name, resource.pattern_type) == ("team-", PatternType.PREFIXED)
    (rule,) = resource.acls
    assert (rule.principal, rule.host, rule.operation) == ("User:alice", "127.0.0.0/8", AclOperation.READ)


def test_denials_are_in_the_log_and_in_the_metrics(server):
    for _ in range(3):
        ask(server, "alice", HeartbeatRequest('a "group"\n', 1, "member"))
    create_acls(server, GROUPS, user="alice")
    denied = [line for line in server.log.splitlines() if "event=authorization_denied" in line]
    assert len(denied) == 2
    assert "logger=kafka.authorizer.logger" in denied[0]
    assert (
        r"principal=User:alice host=127.0.0.1 operation=READ resource="
        r'"Group:LITERAL:a \"group\"\n" api=Heartbeat rule=DefaultDeny' in denied[0]
    )
    assert "operation=ALTER resource=Cluster:LITERAL:kafka-cluster api=CreateAcls" in denied[1]
    assert scrape(server)["coordinator_authorization_denied_total"] == {("READ", "GROUP"): 3, ("ALTER", "CLUSTER"): 1}


def test_the_metadata_log_shows_acls_as_kafka_keeps_them(server):
    assert create_acls(server, GROUPS) == [0]
    ask(server, "admin", DeleteAclsRequest([EVERY_FILTER]))
    server.stop()
    command = [sys.executable, "-m", "coordinator", "log", "dump", str(server.data_dir / "__cluster_metadata-0")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    added = next(line for line in shown.splitlines() if " AccessControlEntry " in line)
    assert '"resource_name":"team-"' in added
    assert '"host":"127.0.0.0/8"' in added
    assert " RemoveAccessControlEntry " in shown


def test_the_command_line_is_a_client_like_others(server):
    topic = CreateTopicsRequest.CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    ask(server, "admin", CreateTopicsRequest(topics=[topic], timeout_ms=5_000))

    def topics(user):
        who = ["--bootstrap", server.bootstrap, "--sasl", "PLAIN", "--user", user]
        command = [sys.executable, "-m", "coordinator", "topics", "list", *who]
        environment = os.environ | {"SASL_PASSWORD": user}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert "orders" in topics("admin")
    assert "orders" not in topics("alice")
