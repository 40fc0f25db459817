"""The settings of access control. They have Kafka's names; the last two are those of its StandardAuthorizer."""

from dataclasses import dataclass
from typing import Any

from coordinator.config.parsers import BOOLEAN, Parser

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlConfig:
    """Whether there is an authorizer, and what it allows without ACLs."""

    authorizer_class_name: str = ""
    super_users: str = ""
    allow_everyone_if_no_acl_found: bool = False


def _read_class(value: Any, _is_text: bool) -> Any:
    return value if value in ("", STANDARD_AUTHORIZER) else None


def principals(text: str) -> tuple[str, ...]:
    """The principals of a text such as "User:alice;User:CN=bob,O=example", in which names can have commas."""
    return tuple(dict.fromkeys(each.strip() for each in text.split(";") if each.strip()))


def _read_principals(value: Any, _is_text: bool) -> Any:
    return value if isinstance(value, str) and all(":" in each for each in principals(value)) else None


# fmt: off
ROWS: tuple[tuple[str, type, Parser, str, str], ...] = (
    ("authorizer.class.name", AccessControlConfig, Parser(_read_class, f"{STANDARD_AUTHORIZER}, or nothing"), "",
     "What decides who may do what: nothing, so that everyone may do everything, or the rules of Kafka's StandardAuthorizer"
     " (docs/security.md): super.users, then the ACLs that `kafka-acls.sh` creates."),
    ("super.users", AccessControlConfig, Parser(_read_principals, "principals such as User:alice, separated by semicolons"), "",
     "The principals that may do everything, whatever the ACLs say. A client that did not authenticate is User:ANONYMOUS."),
    ("allow.everyone.if.no.acl.found", AccessControlConfig, BOOLEAN, "",
     "Whether everyone may do everything to a resource that no ACL is about."),
)
# fmt: on
