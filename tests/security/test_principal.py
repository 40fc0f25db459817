"""Mapping rules make principals of subjects as Kafka's SslPrincipalMapper does."""

import pytest

from coordinator.security.principal import InvalidRules, MappingRules, NoRuleApplies

SUBJECT = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", SUBJECT, SUBJECT),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", SUBJECT, "Duke"),
        (r"RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L,DEFAULT", SUBJECT, "duke@serviceusers"),
        (r"RULE:^CN=(.*?),.*$/$1/U", SUBJECT, "DUKE"),
        (r"RULE:^cn=x$/y/, RULE:^.*CN=([^,]*).*$/$1@$4/", "CN=a,O=b", "a@$4"),
        (r"RULE:^CN=(.*?)$/$10/", "CN=a", "a0"),
        (r"RULE:^CN=a\/b$/slash/", "CN=a/b", "slash"),
        ("RULE:^CN=x$/y/,DEFAULT", SUBJECT, SUBJECT),
    ],
)
def test_the_first_rule_that_matches_makes_the_name(rules, subject, name):
    assert MappingRules(rules).name(subject) == name


def test_a_subject_that_no_rule_matches_has_no_principal():
    with pytest.raises(NoRuleApplies):
        MappingRules("RULE:^CN=x$/y/").name(SUBJECT)


@pytest.mark.parametrize("rules", ["RULE:a/b", "default", "RULE:a/b/X", "RULE:(/x/", "DEFAULT RULE:a/b/"])
def test_malformed_rules_are_refused(rules):
    with pytest.raises(InvalidRules):
        MappingRules(rules)
