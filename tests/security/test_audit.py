"""The audit log: who was refused what and by which rule, in a bounded number of lines; the counters miss nothing."""

import logging

import pytest

from coordinator.security.access import READ_TOPIC, Access, AclOperation, ResourceType
from coordinator.security.acls import Acl, PatternType, PermissionType
from coordinator.security.audit import LINES_PER_MINUTE_MAX, LOGGER, AuditLog
from coordinator.security.principal import Principal
from coordinator.security.standard_authorizer import StandardAuthorizer

ALICE = Principal("User", "alice")
HOST = "10.0.0.1"


class Audited:
    """An authorizer, the time, and the lines of the log."""

    def __init__(self, caplog):
        self.now_ms = 0
        self._caplog = caplog
        self.audit = AuditLog(lambda: self.now_ms)
        deny = Acl(
            ResourceType.TOPIC,
            "secret",
            PatternType.PREFIXED,
            "User:*",
            "*",
            AclOperation.ALL,
            PermissionType.DENY,
        )
        self.authorizer = StandardAuthorizer(["User:admin"], acls={b"1": deny}, audit=self.audit)

    def ask(self, name, *, who=ALICE, quiet=False):
        return self.authorizer.allows(who, HOST, READ_TOPIC, name, api="Fetch", quiet=quiet)

    def lines(self):
        lines = [record.getMessage() for record in self._caplog.records if record.name == LOGGER]
        self._caplog.clear()
        return lines


@pytest.fixture
def audited(caplog):
    caplog.set_level(logging.INFO, logger=LOGGER)
    return Audited(caplog)


@pytest.mark.parametrize(
    ("resource_type", "kafka_name"),
    [
        (ResourceType.TOPIC, "Topic"),
        (ResourceType.GROUP, "Group"),
        (ResourceType.CLUSTER, "Cluster"),
        (ResourceType.TRANSACTIONAL_ID, "TransactionalId"),
        (ResourceType.DELEGATION_TOKEN, "DelegationToken"),
        (ResourceType.USER, "User"),
    ],
)
def test_each_type_of_resource_has_kafkas_name(audited, resource_type, kafka_name):
    """A denial about a type without a name would fail the request."""
    audited.authorizer.allows(ALICE, HOST, Access(AclOperation.DESCRIBE, resource_type), "name")
    [line] = audited.lines()
    assert f" resource={kafka_name}:LITERAL:name " in line


def test_a_denial_is_logged_with_all_that_an_operator_asks(audited):
    audited.ask("secret-1")
    audited.ask("other")
    (by_rule, by_none) = audited.lines()
    assert by_rule == (
        "event=authorization_denied principal=User:alice host=10.0.0.1 operation=READ resource=Topic:LITERAL:secret-1 api=Fetch"
        " rule=MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=secret, patternType=PREFIXED, principal=User:*,"
        " host=*, operation=ALL, permissionType=DENY])"
    )
    assert by_none.endswith("resource=Topic:LITERAL:other api=Fetch rule=DefaultDeny")


def test_what_is_allowed_is_logged_at_debug_only(audited, caplog):
    audited.ask("secret", who=Principal("User", "admin"))
    assert audited.lines() == []
    caplog.set_level(logging.DEBUG, logger=LOGGER)
    audited.ask("secret", who=Principal("User", "admin"))
    (line,) = audited.lines()
    assert line.startswith("event=authorization_allowed principal=User:admin")
    assert line.endswith("rule=SuperUser")


def test_a_filter_is_neither_logged_nor_counted(audited):
    audited.ask("secret", quiet=True)
    assert audited.lines() == []
    assert audited.audit.denied == {}


def test_a_flood_of_denials_takes_a_bounded_number_of_lines_and_says_what_it_left_out(audited):
    for number in range(3 * LINES_PER_MINUTE_MAX):
        audited.ask(f"topic-{number}")
    assert len(audited.lines()) == LINES_PER_MINUTE_MAX
    assert audited.audit.denied == {READ_TOPIC: 3 * LINES_PER_MINUTE_MAX}
    audited.now_ms = 60_000
    audited.ask("topic")
    assert audited.lines()[0] == f"event=authorization_denials_left_out count={2 * LINES_PER_MINUTE_MAX}"


def test_the_same_denial_is_logged_once_a_minute(audited):
    for _ in range(5):
        audited.ask("topic")
    assert len(audited.lines()) == 1
    audited.now_ms = 60_000
    audited.ask("topic")
    assert len(audited.lines()) == 2


def test_the_counters_have_one_entry_for_each_permission(audited):
    for number in range(1_000):
        audited.ask(f"topic-{number}")
    assert audited.audit.denied == {READ_TOPIC: 1_000}
