"""The settings of TLS and SASL, and the listeners that use them.

A listener has a name, and the name a security protocol, as in Kafka: `listener.security.protocol.map`, or the name itself. Each
setting of this module can be set for one listener with the prefix `listener.name.<name>.`, those of SASL also for one mechanism
of it (`listener.name.<name>.<mechanism>.`), with both names in lower case.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from coordinator.config.cipher_suites import TLS_1_2, TLS_1_3, why_not
from coordinator.config.parsers import (
    BOOLEAN,
    INT,
    LONG,
    MAYBE_TEXT,
    POSITIVE,
    POSITIVE_LONG,
    SECRET,
    TAGS,
    Parser,
    choice,
    listed,
)  # fmt: skip

PLAINTEXT = "PLAINTEXT"
SSL, SASL_PLAINTEXT, SASL_SSL = "SSL", "SASL_PLAINTEXT", "SASL_SSL"
SECURITY_PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
"""Kafka's `SecurityProtocol`."""
PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
LISTENER_PREFIX = "listener.name."
HIDDEN = "[hidden]"
"""What Kafka shows in the place of a password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """A listener's certificate, and whom it trusts. Texts and files are PEM; an empty text is no value."""

    ssl_cipher_suites: tuple[str, ...] = ()
    ssl_client_auth: str = "none"
    ssl_enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ssl_keystore_location: str = ""
    ssl_keystore_certificate_chain: str = ""
    ssl_keystore_key: str = field(default="", repr=False)
    ssl_key_password: str = field(default="", repr=False)
    ssl_truststore_location: str = ""
    ssl_truststore_certificates: str = ""
    ssl_principal_mapping_rules: str = "DEFAULT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslConfig:
    """The mechanisms of a listener, and how each verifies a client. Times are in milliseconds."""

    sasl_enabled_mechanisms: tuple[str, ...] = ()
    sasl_users_file: str = ""
    sasl_jaas_config: str = field(default="", repr=False)
    sasl_server_max_receive_size: int = 524_288
    connections_max_reauth_ms: int = 0
    connection_failed_authentication_delay_ms: int = 100
    sasl_oauthbearer_jwks_endpoint_url: str = ""
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = 3_600_000
    sasl_oauthbearer_expected_audience: tuple[str, ...] = ()
    sasl_oauthbearer_expected_issuer: str = ""
    sasl_oauthbearer_clock_skew_seconds: int = 30
    sasl_oauthbearer_sub_claim_name: str = "sub"
    sasl_oauthbearer_scope_claim_name: str = "scope"
    sasl_oauthbearer_required_scope: tuple[str, ...] = ()
    sasl_oauthbearer_unsecured_tokens: bool = False

    @property
    def has_jaas_users(self) -> bool:
        """Whether sasl.jaas.config has users of PLAIN; it may have only what a worker logs in with."""
        return "user_" in str.__str__(self.sasl_jaas_config) or bool(self.sasl_jaas_config and not self.sasl_users_file)


class ListenerSecurity(NamedTuple):
    """What protects one listener."""

    protocol: str
    tls: TlsConfig | None
    """None: the listener has no TLS."""
    mechanisms: Mapping[str, SaslConfig]
    """The settings of each enabled SASL mechanism; empty: the listener has no SASL."""


NO_SECURITY = ListenerSecurity(PLAINTEXT, None, {})

# fmt: off
ROWS: tuple[tuple[str, type, Parser, str, str], ...] = (
    ("ssl.cipher.suites", TlsConfig, listed(*TLS_1_3, *TLS_1_2, or_none=True), "",
     "The cipher suites that clients can use, by IANA's names; for TLS 1.2 the server prefers the first one. A version of"
     " TLS without a suite here is off. The suites of TLS 1.3 can be named only together. Empty: OpenSSL's default."),
    ("ssl.client.auth", TlsConfig, choice("none", "requested", "required"), "",
     "Whether clients present a certificate. Its subject becomes the client's principal (ssl.principal.mapping.rules)."),
    ("ssl.enabled.protocols", TlsConfig, listed("TLSv1.2", "TLSv1.3"), "",
     "The versions of TLS that clients can use."),
    ("ssl.keystore.location", TlsConfig, MAYBE_TEXT, "",
     "A PEM file with the server's private key and its certificate chain. The server reads it again when it changes, within"
     " seconds and without a restart."),
    ("ssl.keystore.certificate.chain", TlsConfig, MAYBE_TEXT, "",
     "The server's certificate chain as PEM text, instead of ssl.keystore.location; with ssl.keystore.key."),
    ("ssl.keystore.key", TlsConfig, SECRET, "",
     "The server's private key as PEM text, with ssl.keystore.certificate.chain."),
    ("ssl.key.password", TlsConfig, SECRET, "",
     "The password of the private key, if it is encrypted."),
    ("ssl.truststore.location", TlsConfig, MAYBE_TEXT, "",
     "A PEM file with the certificates of the authorities that sign clients' certificates. The server reads it again when it"
     " changes."),
    ("ssl.truststore.certificates", TlsConfig, MAYBE_TEXT, "",
     "The same as PEM text, instead of ssl.truststore.location."),
    ("ssl.principal.mapping.rules", TlsConfig, MAYBE_TEXT, "",
     "How the subject of a client's certificate becomes a principal: Kafka's rules RULE:pattern/replacement/[LU] and DEFAULT,"
     " separated by commas; the first that matches counts."),
    ("sasl.enabled.mechanisms", SaslConfig, listed(*MECHANISMS, or_none=True), "",
     "The SASL mechanisms that clients can use on listeners with SASL. Kafka's default is GSSAPI, which this server does not"
     " have, so listeners with SASL need a value."),
    ("sasl.users.file", SaslConfig, MAYBE_TEXT, "",
     "A file with a line NAME:PASSWORD for each user of PLAIN. For SCRAM they are users, too, unless"
     " `kafka-configs.sh --alter --entity-type users` has set other credentials. Not a Kafka setting."),
    ("sasl.jaas.config", SaslConfig, SECRET, "",
     "Kafka's way to list the users of PLAIN: PlainLoginModule with options user_NAME=\"PASSWORD\". As in Kafka, it needs the"
     " prefix listener.name.<name>.plain. They exclude sasl.users.file for PLAIN. The options username and password, of"
     " ScramLoginModule too, are the credentials of this worker at others (inter.broker.listener.name)."),
    ("sasl.server.max.receive.size", SaslConfig, POSITIVE, "bytes",
     "The largest request of a client that is not authenticated yet."),
    ("connections.max.reauth.ms", SaslConfig, LONG, "milliseconds",
     "Clients that support it (KIP-368) authenticate again within this time; the server closes the connection of one that does"
     " not, at its next request. 0: never."),
    ("connection.failed.authentication.delay.ms", SaslConfig, INT, "milliseconds",
     "The server lets a client that failed to authenticate wait for this long, then answers and closes the connection."),
    ("sasl.oauthbearer.jwks.endpoint.url", SaslConfig, MAYBE_TEXT, "",
     "The keys that sign the tokens of OAUTHBEARER: a JWKS document at https://, http:// or file://."),
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", SaslConfig, POSITIVE_LONG, "milliseconds",
     "How often the server reads the keys again. A token that names an unknown key makes it read them sooner."),
    ("sasl.oauthbearer.expected.audience", SaslConfig, TAGS, "",
     "A token must be for one of these audiences (aud). Empty: for any."),
    ("sasl.oauthbearer.expected.issuer", SaslConfig, MAYBE_TEXT, "",
     "A token must be from this issuer (iss). Empty: from any."),
    ("sasl.oauthbearer.clock.skew.seconds", SaslConfig, INT, "seconds",
     "How far the clock of a token's issuer can differ."),
    ("sasl.oauthbearer.sub.claim.name", SaslConfig, MAYBE_TEXT, "",
     "The claim with the name of the principal."),
    ("sasl.oauthbearer.scope.claim.name", SaslConfig, MAYBE_TEXT, "",
     "The claim with the scopes of a token."),
    ("sasl.oauthbearer.required.scope", SaslConfig, TAGS, "",
     "A token must have all of these scopes. Kafka has it for unsecured tokens only (unsecuredValidatorRequiredScope)."),
    ("sasl.oauthbearer.unsecured.tokens", SaslConfig, BOOLEAN, "",
     "Whether OAUTHBEARER accepts tokens without a signature, which any client can write. For tests of clients only; Kafka does"
     " so when it has no other validator. Not a Kafka setting."),
)
# fmt: on
FIELDS = {row[0]: row[0].replace(".", "_") for row in ROWS}
_AREA = {row[0]: row[1] for row in ROWS}
_MAP_ENTRY = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*:\s*([A-Za-z_]+)\s*")


def read_protocol_map(value: Any) -> Mapping[str, str] | None:
    """Kafka's `listener.security.protocol.map`: "NAME:PROTOCOL,...", by name in upper case; None if it is malformed."""
    if not isinstance(value, str):
        return None
    protocols = {}
    for entry in value.split(","):
        match = _MAP_ENTRY.fullmatch(entry)
        if match is None or match[2].upper() not in SECURITY_PROTOCOLS or match[1].upper() in protocols:
            return None
        protocols[match[1].upper()] = match[2].upper()
    return protocols


class ListenerKey(NamedTuple):
    """A setting with the prefix of a listener."""

    listener: str
    """In upper case."""
    mechanism: str | None
    setting: str


def listener_key(key: str) -> ListenerKey | None:
    """The parts of a key that begins with `listener.name.`; None if no setting of this module can have that prefix."""
    rest = key.removeprefix(LISTENER_PREFIX)
    for setting in FIELDS:
        if not rest.endswith(f".{setting}"):
            continue
        name, _, mechanism = rest.removesuffix(f".{setting}").partition(".")
        if not mechanism:
            return ListenerKey(name.upper(), None, setting)
        if mechanism.upper() in MECHANISMS and _AREA[setting] is SaslConfig:
            return ListenerKey(name.upper(), mechanism.upper(), setting)
    return None


def listener_security(name: str, protocol: str, values: Mapping[str | ListenerKey, Any]) -> ListenerSecurity:
    """The security of a listener: the general settings, those of the listener, and those of a mechanism of it."""

    def area(kind: type, mechanism: str | None = None) -> dict[str, Any]:
        found = {}
        for item in fields(kind):
            setting = item.name.replace("_", ".")
            places: tuple[str | ListenerKey, ...] = (ListenerKey(name, None, setting), setting)
            if mechanism is not None:
                places = (ListenerKey(name, mechanism, setting), *places)
            for place in places:
                if place in values:
                    found[item.name] = values[place]
                    break
        return found

    tls = TlsConfig(**area(TlsConfig)) if protocol in (SSL, SASL_SSL) else None
    if protocol not in (SASL_PLAINTEXT, SASL_SSL):
        return ListenerSecurity(protocol, tls, {})
    enabled = SaslConfig(**area(SaslConfig)).sasl_enabled_mechanisms
    return ListenerSecurity(
        protocol, tls, {mechanism: SaslConfig(**area(SaslConfig, mechanism)) for mechanism in enabled}
    )


def why_insecure(name: str, security: ListenerSecurity) -> str | None:
    """Why a listener cannot be served with these settings, or None."""
    tls = security.tls
    if tls is not None:
        why = why_not(tls.ssl_cipher_suites, tls.ssl_enabled_protocols)
        if why is not None:
            return why
        has_text = bool(tls.ssl_keystore_certificate_chain), bool(tls.ssl_keystore_key)
        if tls.ssl_keystore_location and any(has_text):
            return "set ssl.keystore.location, or ssl.keystore.certificate.chain and ssl.keystore.key, not both"
        if not tls.ssl_keystore_location and not all(has_text):
            return "TLS needs ssl.keystore.location, or ssl.keystore.certificate.chain and ssl.keystore.key"
        if tls.ssl_truststore_location and tls.ssl_truststore_certificates:
            return "set ssl.truststore.location or ssl.truststore.certificates, not both"
        has_trust = tls.ssl_truststore_location or tls.ssl_truststore_certificates
        if tls.ssl_client_auth != "none" and not has_trust:
            return (
                f"ssl.client.auth = {tls.ssl_client_auth} needs ssl.truststore.location or ssl.truststore.certificates"
            )
    if security.protocol in (SASL_PLAINTEXT, SASL_SSL) and not security.mechanisms:
        return f"SASL needs sasl.enabled.mechanisms; allowed: {', '.join(MECHANISMS)}"
    plain = security.mechanisms.get(PLAIN)
    if plain is not None and bool(plain.sasl_users_file) is plain.has_jaas_users:
        return f"PLAIN needs sasl.users.file, or listener.name.{name.lower()}.plain.sasl.jaas.config, and not both"
    oauth = security.mechanisms.get(OAUTHBEARER)
    if oauth is not None and bool(oauth.sasl_oauthbearer_jwks_endpoint_url) is oauth.sasl_oauthbearer_unsecured_tokens:
        return "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url, or sasl.oauthbearer.unsecured.tokens=true, and not both"
    return None
