"""Access rules in short: `READ topic:orders`, `!READ topic:team-*` (deny, by prefix), `ALL group:* @10.0.0.1` (every group)."""

import re
from typing import Any, NamedTuple

from tests.support.wire import Values

TYPES = {"topic": 2, "group": 3, "cluster": 4, "txn": 5, "token": 6, "user": 7}
OPERATIONS = {
    "ALL": 2,
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "ALTER": 7,
    "DESCRIBE": 8,
    "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
    "IDEMPOTENT_WRITE": 12,
    "CREATE_TOKENS": 13,
    "DESCRIBE_TOKENS": 14,
}
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
RULE = re.compile(r"(!?)([A-Z_]+) (topic|group|cluster|txn|token|user)(?::(\S+))?(?: @(\S+))?")


class Rule(NamedTuple):
    """One rule, about nobody yet."""

    allows: bool
    operation: str
    resource_type: str
    name: str
    """With an asterisk behind it: a prefix. An asterisk alone: every resource of the type."""
    host: str

    def creation(self, principal: str) -> Values:
        """The rule as CreateAcls takes it."""
        by_prefix = self.name != "*" and self.name.endswith("*")
        return {
            "resource_type": TYPES[self.resource_type],
            "resource_name": self.name[:-1] if by_prefix else self.name,
            "resource_pattern_type": PREFIXED if by_prefix else LITERAL,
            "principal": principal,
            "host": self.host,
            "operation": OPERATIONS[self.operation],
            "permission_type": ALLOW if self.allows else DENY,
        }


def rules(text: str) -> list[Rule]:
    """The rules of a text, which semicolons separate."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        match = RULE.fullmatch(part)
        assert match, f"not a rule: {part}"
        deny, operation, resource_type, name, host = match.groups()
        assert operation in OPERATIONS, part
        assert name or resource_type == "cluster", part
        found.append(Rule(not deny, operation, resource_type, name or "kafka-cluster", host or "*"))
    return found


def creations(principal: str, text: str) -> list[dict[str, Any]]:
    return [rule.creation(f"User:{principal}") for rule in rules(text)]
