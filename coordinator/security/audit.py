"""The audit log: who was refused what, and why (Kafka: `StandardAuthorizerData.logAuditMessage`).

It has Kafka's logger, so that it can go to a place of its own: denials at INFO, what is allowed at DEBUG. Clients cause
denials at will, so a line is written once a minute, and there is a limit for all lines. The counters miss nothing.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from coordinator.security.access import Access, ResourceType
from coordinator.security.acls import Acl
from coordinator.security.principal import Principal

LOGGER = "kafka.authorizer.logger"
LINES_PER_MINUTE_MAX = 600
_MINUTE_MS = 60_000
_RESOURCE_NAMES = {each: each.name.title().replace("_", "") for each in ResourceType}
_log = logging.getLogger(LOGGER)


def is_silent_about_allowed() -> bool:
    """Whether the log has no lines about what is allowed."""
    return not _log.isEnabledFor(logging.DEBUG)


class Decision(NamedTuple):
    """Whether something is allowed, and why."""

    is_allowed: bool
    rule: Acl | str
    """The ACL that decided, or what did without one, in Kafka's words."""


class Question(NamedTuple):
    """What was asked."""

    principal: Principal
    host: str
    access: Access
    name: str
    """Of the resource."""
    api: str


class AuditLog:
    """Writes and counts the decisions about explicit requests."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.denied: dict[Access, int] = {}
        """Denials by permission."""
        self._now_ms = now_ms
        self._minute = 0
        self._written: set[int] = set()
        """Hashes of the denials of this minute, because clients choose the names. Where two are equal, a line is missing."""
        self._left_out = 0

    def note(self, question: Question, decision: Decision) -> None:
        """Counts and logs a decision."""
        if decision.is_allowed:
            _log.debug("event=authorization_allowed" + _FIELDS, *_values(question, decision))
            return
        self.denied[question.access] = self.denied.get(question.access, 0) + 1
        if self._is_due(question):
            _log.info("event=authorization_denied" + _FIELDS, *_values(question, decision))

    def _is_due(self, question: Question) -> bool:
        minute = self._now_ms() // _MINUTE_MS
        if minute != self._minute:
            self._minute = minute
            self._written.clear()
            if self._left_out:
                _log.info("event=authorization_denials_left_out count=%d", self._left_out)
                self._left_out = 0
        # The limit comes first, because a hash costs more than all else here.
        if len(self._written) >= LINES_PER_MINUTE_MAX or (denial := hash(question)) in self._written:
            self._left_out += 1
            return False
        self._written.add(denial)
        return True


_FIELDS = " principal=%s host=%s operation=%s resource=%s api=%s rule=%s"


def _values(question: Question, decision: Decision) -> tuple[str, ...]:
    operation, resource_type = question.access
    rule = decision.rule
    return (
        str(question.principal),
        question.host,
        operation.name,
        f"{_RESOURCE_NAMES[resource_type]}:LITERAL:{question.name}",
        question.api,
        rule if isinstance(rule, str) else f"MatchingAcl(acl={rule})",
    )
