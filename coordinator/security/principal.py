"""Principals (Kafka: `KafkaPrincipal`), and how the subject of a certificate becomes one (`SslPrincipalMapper`)."""

import re
from typing import NamedTuple

USER = "User"


class Principal(NamedTuple):
    """Who a client is. ACLs write it as "User:name"."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class TokenPrincipal(Principal):
    """A principal that has authenticated with a delegation token (`KafkaPrincipal.tokenAuthenticated`)."""

    __slots__ = ()


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""A client that did not authenticate."""

_PART = r"(?:\\.|[^\\/])*"
_RULES = re.compile(rf"\s*(?:(DEFAULT)|RULE:({_PART})/({_PART})/([LU]?))\s*(?:,|$)")
_REFERENCE = re.compile(r"\$(\d+)")


class InvalidRules(ValueError):
    """The mapping rules are malformed; the text says where."""


class NoRuleApplies(Exception):
    """No mapping rule matches a subject, so its client has no principal."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None: DEFAULT, which takes the subject as it is."""
    replacement: str
    case: str
    """L, U or nothing."""

    def apply(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        match = self.pattern.fullmatch(subject)
        if match is None:
            return None
        name = _REFERENCE.sub(lambda found: _group(match, found), self.replacement)
        return {"L": str.lower, "U": str.upper}.get(self.case, str)(name)


def _group(match: re.Match[str], reference: re.Match[str]) -> str:
    """The group that `$n` names. A number that is too large loses digits at its end, then stands for itself, as in Kafka."""
    number, count = reference[1], match.re.groups
    length = len(number)
    while length > 1 and int(number[:length]) > count:
        length -= 1
    if int(number[:length]) > count:
        return reference[0]
    return (match[int(number[:length])] or "") + number[length:]


class MappingRules:
    """The rules of `ssl.principal.mapping.rules`."""

    def __init__(self, text: str) -> None:
        """Raises InvalidRules."""
        self._rules: list[_Rule] = []
        position = 0
        text = text.strip()
        while position < len(text):
            match = _RULES.match(text, position)
            if match is None:
                raise InvalidRules(f"ssl.principal.mapping.rules: invalid rule: {text[position:]}")
            self._rules.append(_rule(match))
            position = match.end()

    def principal(self, certificate: bytes) -> Principal:
        """The principal of a client's certificate (DER). Raises NoRuleApplies."""
        from cryptography import x509  # noqa: PLC0415 - slow to import, and only such listeners need it

        subject = x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
        return Principal(USER, self.name(subject))

    def name(self, subject: str) -> str:
        """The name for a subject as in RFC 2253, such as "CN=alice,O=example". Raises NoRuleApplies."""
        for rule in self._rules:
            name = rule.apply(subject)
            if name is not None:
                return name
        raise NoRuleApplies(f"no rule of ssl.principal.mapping.rules applies to {subject}")


def _rule(match: re.Match[str]) -> _Rule:
    if match[1]:
        return _Rule(None, "", "")
    try:
        return _Rule(re.compile(match[2]), match[3], match[4])
    except re.error as error:
        raise InvalidRules(f"ssl.principal.mapping.rules: {match[2]}: {error}") from error
