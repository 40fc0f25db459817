"""Who may do what under ACLs: the index and the kept decisions answer as a look at every ACL does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.security import standard_authorizer
from coordinator.security.access import (
    ALTER_CLUSTER,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    Access,
    AclOperation,
    ResourceType,
)
from coordinator.security.acls import Acl, AclFilter, PatternType, PermissionType
from coordinator.security.principal import Principal
from coordinator.security.standard_authorizer import CLIENTS_MAX, DECISIONS_MAX, StandardAuthorizer

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST = "10.0.0.1"
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def acl(
    name,
    operation=AclOperation.READ,
    permission=ALLOW,
    *,
    pattern=LITERAL,
    principal="User:alice",
    host="*",
    resource_type=ResourceType.TOPIC,
):
    return Acl(resource_type, name, pattern, principal, host, operation, permission)


def authorizer(*acls, **options):
    return StandardAuthorizer(acls={bytes([index]): each for index, each in enumerate(acls)}, **options)


def allowed(decider, access=READ_TOPIC, name="orders", principal=ALICE, host=HOST):
    return decider.allows(principal, host, access, name)


# --- the rules --------------------------------------------------------------------------------------------------------


def test_without_acls_nothing_is_allowed_unless_a_setting_says_so():
    assert not allowed(authorizer())
    assert allowed(authorizer(allow_if_none=True))


def test_everything_is_denied_for_a_resource_with_acls_that_do_not_apply_even_where_no_acl_allows_everyone():
    decider = authorizer(acl("orders", principal="User:bob"), allow_if_none=True)
    assert not allowed(decider)
    assert allowed(decider, name="other")


def test_a_super_user_may_do_what_acls_deny():
    decider = authorizer(acl("orders", AclOperation.ALL, DENY), super_users=["User:alice"])
    assert allowed(decider)
    assert not allowed(decider, principal=BOB)


def test_a_denial_wins_over_every_permission():
    assert not allowed(authorizer(acl("orders"), acl("*", permission=DENY), acl("ord", pattern=PREFIXED)))


@pytest.mark.parametrize(
    ("rule", "name", "expected"),
    [
        (acl("orders"), "orders", True),
        (acl("orders"), "orders-eu", False),
        (acl("orders", pattern=PREFIXED), "orders-eu", True),
        (acl("orders", pattern=PREFIXED), "order", False),
        (acl("*"), "anything", True),
        (acl("*", pattern=PREFIXED), "anything", False),
        (acl("*", pattern=PREFIXED), "*anything", True),
    ],
)
def test_a_name_is_compared_with_literals_prefixes_and_the_wildcard(rule, name, expected):
    assert allowed(authorizer(rule), name=name) is expected


def test_an_acl_is_about_one_principal_or_all_of_them_and_one_host_or_all():
    assert allowed(authorizer(acl("orders", principal="User:*")), principal=BOB)
    assert not allowed(authorizer(acl("orders")), principal=BOB)
    assert allowed(authorizer(acl("orders", host=HOST)))
    assert not allowed(authorizer(acl("orders", host="10.0.0.2")))


@pytest.mark.parametrize(
    ("operation", "permission", "implied"),
    [
        (AclOperation.READ, DESCRIBE_TOPIC, True),
        (AclOperation.WRITE, DESCRIBE_TOPIC, True),
        (AclOperation.DELETE, DESCRIBE_TOPIC, True),
        (AclOperation.ALTER, DESCRIBE_TOPIC, True),
        (AclOperation.CREATE, DESCRIBE_TOPIC, False),
        (AclOperation.ALTER_CONFIGS, DESCRIBE_TOPIC, False),
        (AclOperation.ALTER_CONFIGS, DESCRIBE_TOPIC_CONFIGS, True),
        (AclOperation.ALTER, DESCRIBE_TOPIC_CONFIGS, False),
        (AclOperation.ALL, WRITE_TOPIC, True),
        (AclOperation.READ, WRITE_TOPIC, False),
    ],
)
def test_an_operation_that_is_allowed_implies_to_describe_and_one_that_is_denied_implies_nothing(
    operation, permission, implied
):
    assert allowed(authorizer(acl("orders", operation)), permission) is implied
    if operation is not AclOperation.ALL:
        both = authorizer(acl("orders", operation, DENY), acl("orders", permission.operation))
        assert allowed(both, permission)


def test_the_operations_on_a_resource_are_a_bit_for_each():
    decider = authorizer(acl("orders", AclOperation.READ), acl("orders", AclOperation.ALTER_CONFIGS))
    expected = {AclOperation.READ, AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS}
    assert decider.operations(ALICE, HOST, ResourceType.TOPIC, "orders") == sum(1 << each for each in expected)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], False),
        ([acl("orders", AclOperation.WRITE)], True),
        ([acl("orders", AclOperation.WRITE), acl("orders", AclOperation.WRITE, DENY)], False),
        ([acl("orders", AclOperation.WRITE), acl("o", AclOperation.WRITE, DENY, pattern=PREFIXED)], False),
        ([acl("o", AclOperation.WRITE, pattern=PREFIXED), acl("orders", AclOperation.WRITE, DENY, pattern=PREFIXED)], True),
        ([acl("o", AclOperation.WRITE, pattern=PREFIXED), acl("o", AclOperation.WRITE, DENY)], True),
        ([acl("orders", AclOperation.WRITE), acl("*", AclOperation.ALL, DENY)], False),
        ([acl("*", AclOperation.WRITE), acl("orders", AclOperation.WRITE, DENY)], True),
        ([acl("hard", AclOperation.WRITE, pattern=PREFIXED)], True),
    ],
)  # fmt: skip
def test_a_permission_for_any_resource_needs_one_that_no_acl_denies(rules, expected):
    """As Kafka's `Authorizer.authorizeByResourceType`, which InitProducerId asks."""
    assert authorizer(*rules).allows_any(ALICE, HOST, WRITE_TOPIC) is expected


def test_a_change_of_the_acls_changes_the_next_decision_and_the_version():
    decider = authorizer()
    assert not allowed(decider)
    before = decider.version
    decider.add(b"id", acl("orders"))
    assert allowed(decider)
    assert decider.version > before
    decider.remove(b"id")
    assert not allowed(decider)
    assert not decider.allows_any(ALICE, HOST, READ_TOPIC)


def test_an_acl_that_two_records_have_is_there_until_both_are_removed():
    decider = authorizer(acl("orders"), acl("orders"))
    decider.remove(bytes([0]))
    assert allowed(decider)
    decider.remove(bytes([1]))
    assert not allowed(decider)


def test_the_memory_for_decisions_is_bounded():
    decider = authorizer(acl("*"))
    for number in range(DECISIONS_MAX + 10):
        assert allowed(decider, name=f"topic-{number}")
    assert allowed(decider, name="long" * 1000)
    assert len(decider._decisions) <= DECISIONS_MAX


def test_the_memory_for_clients_and_for_prefixes_is_bounded(monkeypatch):
    most = 200
    monkeypatch.setattr(standard_authorizer, "KEPT_MAX", most)
    decider = authorizer(
        acl("topic-", host="10.1.0.0/16"), *(acl(f"t-{n:03d}", pattern=PREFIXED) for n in range(most - 1))
    )
    decider.add(b"more", acl("u", pattern=PREFIXED))
    decider.add(b"most", acl("v", pattern=PREFIXED))
    assert all(allowed(decider, name=f"t-{n:03d}-name") for n in range(most - 1))
    assert all(allowed(decider, name=f"t-{n:03d}-name", host="10.1.0.1") for n in range(most - 1))
    assert allowed(decider, name="u-name")
    assert allowed(decider, name="v-name")
    assert 0 < sum(len(each._without_literals) for each in decider._verdicts.values()) <= most
    for number in range(CLIENTS_MAX + 10):
        assert allowed(decider, name="v-name", host=f"10.1.{number >> 8}.{number & 255}")
    assert len(decider._verdicts) <= CLIENTS_MAX


# --- compared with a look at every ACL --------------------------------------------------------------------------------

IMPLIED = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


def is_about(rule, access, name):
    if rule.resource_type != access.resource_type:
        return False
    if rule.pattern_type == PREFIXED:
        return name.startswith(rule.resource_name)
    return rule.resource_name in (name, "*")


def applies(rule, access, principal, host):
    operations = {access.operation, AclOperation.ALL}
    if rule.permission == ALLOW:
        operations |= IMPLIED.get(access.operation, set())
    return rule.principal in ("User:*", str(principal)) and rule.host in ("*", host) and rule.operation in operations


def naive(rules, access, name, principal, host, allow_if_none):
    about = [rule for rule in rules if is_about(rule, access, name)]
    if not about:
        return allow_if_none
    permissions = {rule.permission for rule in about if applies(rule, access, principal, host)}
    return permissions == {ALLOW}


NAMES = st.text("ab*", min_size=1, max_size=4)
ACLS = st.builds(
    Acl,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    NAMES | st.just("*"),
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["*", HOST]),
    st.sampled_from([each for each in AclOperation if each > AclOperation.ANY]),
    st.sampled_from([ALLOW, ALLOW, DENY]),
)
QUESTIONS = st.tuples(
    st.sampled_from([READ_TOPIC, WRITE_TOPIC, DESCRIBE_TOPIC, DESCRIBE_TOPIC_CONFIGS, READ_GROUP, ALTER_CLUSTER]),
    NAMES,
    st.sampled_from([ALICE, BOB]),
    st.sampled_from([HOST, "10.0.0.2"]),
)
CHANGES = st.lists(st.tuples(st.integers(0, 7), ACLS | st.none(), QUESTIONS), max_size=30)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(CHANGES, st.booleans())
def test_every_decision_is_that_of_a_look_at_every_acl_while_they_change(changes, allow_if_none):
    decider, rules = StandardAuthorizer(allow_if_none=allow_if_none), {}
    asked = []
    for slot, rule, question in changes:
        acl_id = bytes([slot])
        if rule is None:
            decider.remove(acl_id)
            rules.pop(acl_id, None)
        else:
            decider.add(acl_id, rule)
            rules[acl_id] = rule
        asked.append(question)
        for access, name, principal, host in asked * 2:  # a kept decision, too
            expected = naive(rules.values(), access, name, principal, host, allow_if_none)
            assert decider.allows(principal, host, access, name) is expected


def in_kafka_order(rules, name):
    """The ACL of the name, of its prefixes (longer ones first), and of the wildcard (`StandardAcl.compareTo`)."""
    patterns = [
        (LITERAL, name),
        *((PREFIXED, name[:length]) for length in range(len(name), 0, -1)),
        (LITERAL, "*"),
    ]
    for pattern in patterns:
        found = [rule for rule in rules if (rule.pattern_type, rule.resource_name) == pattern]
        yield from sorted(found, key=lambda rule: (rule.operation, rule.principal, rule.host, rule.permission))


@settings(max_examples=100, deadline=None)
@given(st.lists(ACLS, max_size=20), st.lists(QUESTIONS, max_size=10))
def test_the_acl_that_decided_is_the_first_that_denies_else_the_last_that_allows(rules, questions):
    """The audit log names it (`StandardAuthorizerData.checkSection`)."""
    decider = authorizer(*dict.fromkeys(rules))
    for access, name, principal, host in questions:
        about = [rule for rule in in_kafka_order(dict.fromkeys(rules), name) if is_about(rule, access, name)]
        applying = [rule for rule in about if applies(rule, access, principal, host)]
        denying = [rule for rule in applying if rule.permission == DENY]
        expected = (denying or applying[-1:] or ["DefaultDeny"])[0]
        assert decider.decide(principal, host, access, name).rule == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(ACLS, max_size=8), st.sampled_from([READ_TOPIC, WRITE_TOPIC]), st.booleans())
def test_a_client_may_do_something_to_any_resource_if_there_is_a_name_for_which_it_may(rules, access, allow_if_none):
    """No name of an ACL has a c, so with it a name is one that only prefixes and wildcards are about."""
    names = {"c", *(rule.resource_name for rule in rules), *(f"{rule.resource_name}c" for rule in rules)}
    expected = any(naive(rules, access, name, ALICE, HOST, allow_if_none) for name in names)
    decider = authorizer(*dict.fromkeys(rules), allow_if_none=allow_if_none)
    assert decider.allows_any(ALICE, HOST, access) is expected


# --- filters ----------------------------------------------------------------------------------------------------------

ANY_OF_ALL = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, PermissionType.ANY)


@pytest.mark.parametrize(
    ("fields", "selected"),
    [
        ({}, {"orders", "ord*", "*", "group"}),
        ({"resource_type": ResourceType.TOPIC}, {"orders", "ord*", "*"}),
        ({"resource_name": "ord"}, {"ord*"}),
        ({"resource_name": "*", "resource_type": ResourceType.TOPIC}, {"*"}),
        ({"resource_name": "orders", "pattern_type": PatternType.MATCH}, {"orders", "ord*", "*"}),
        ({"resource_name": None, "pattern_type": PatternType.MATCH}, {"orders", "ord*", "*", "group"}),
        ({"pattern_type": PREFIXED}, {"ord*"}),
        ({"resource_name": "orders", "pattern_type": PREFIXED}, set()),
        ({"principal": "User:bob"}, {"group"}),
        ({"host": HOST}, {"*"}),
        ({"operation": AclOperation.WRITE}, {"*"}),
        ({"permission": DENY}, {"ord*"}),
    ],
)
def test_a_filter_selects_by_each_of_its_fields(fields, selected):
    rules = {
        "orders": acl("orders"),
        "ord*": acl("ord", permission=DENY, pattern=PREFIXED),
        "*": acl("*", AclOperation.WRITE, host=HOST),
        "group": acl("g", principal="User:bob", resource_type=ResourceType.GROUP),
    }
    chosen = ANY_OF_ALL._replace(**fields)
    assert {name for name, rule in rules.items() if chosen.selects(rule)} == selected


def test_a_code_that_kafka_does_not_define_is_unknown():
    assert AclOperation(99) is AclOperation.UNKNOWN
    assert PatternType(7) is PatternType.UNKNOWN


def test_an_acl_of_an_operation_that_kafka_does_not_define_allows_nothing():
    decider = authorizer(acl("orders", AclOperation(99)))
    assert not any(
        allowed(decider, Access(operation, ResourceType.TOPIC)) for operation in AclOperation if operation > 2
    )
