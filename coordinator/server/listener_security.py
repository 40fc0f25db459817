"""Makes what protects a listener from its settings: the context of TLS, the mechanisms of SASL, their users and keys."""

from functools import partial

import scramp  # noqa: F401 - at the start, not at the first login

from coordinator.admin.credentials import UnusableToken, read_token
from coordinator.config.security import OAUTHBEARER, PLAIN, ListenerSecurity, SaslConfig, TlsConfig
from coordinator.config.settings import AdminConfig
from coordinator.network.listener import Protection, SaslSetup
from coordinator.security.authenticator import MechanismSetup
from coordinator.security.delegation_tokens import DelegationTokens
from coordinator.security.mechanism import MakeMechanism
from coordinator.security.oauthbearer import OAuthBearer, TokenVerifier
from coordinator.security.password import Plain
from coordinator.security.principal import InvalidRules
from coordinator.security.scram import Scram
from coordinator.security.scram_users import KEY, SALT_BYTES, ScramUsers, key_record
from coordinator.security.tls import TlsContext, UnusableTls
from coordinator.security.tokens import Keys, SignedTokens, UnsecuredTokens, UnusableKeys
from coordinator.security.users import Passwords, UnusableUsers, read_jaas, read_users_file
from coordinator.server import CannotStart
from coordinator.topics.topics import Topics
from coordinator.world.clock import Clock
from coordinator.world.entropy import Entropy
from coordinator.world.threads import RunInThread


def make_protection(
    name: str,
    security: ListenerSecurity,
    topics: Topics,
    tokens: DelegationTokens,
    clock: Clock,
    entropy: Entropy,
    run_in_thread: RunInThread,
) -> Protection:
    """TLS and SASL of a listener. Raises CannotStart."""
    try:
        return {
            "tls": None if security.tls is None else TlsContext(security.tls),
            "sasl": _sasl(security, topics, tokens, clock, entropy, run_in_thread) if security.mechanisms else None,
        }
    except (UnusableTls, InvalidRules, UnusableUsers, UnusableKeys) as error:
        raise CannotStart(f"listener {name}: {error}") from error


def read_admin_protection(config: AdminConfig) -> tuple[str, TlsContext | None]:
    """The token and the TLS of admin HTTP. Raises CannotStart."""
    try:
        token = read_token(config)
        if not config.admin_ssl_keystore_location:
            return token, None
        tls = TlsConfig(
            ssl_client_auth="requested" if config.admin_ssl_truststore_location else "none",
            ssl_keystore_location=config.admin_ssl_keystore_location,
            ssl_key_password=config.admin_ssl_key_password,
            ssl_truststore_location=config.admin_ssl_truststore_location,
        )
        return token, TlsContext(tls)
    except UnusableToken as error:
        raise CannotStart(str(error)) from error
    except UnusableTls as error:
        raise CannotStart(f"admin HTTP: admin.{error}") from error


def _sasl(
    security: ListenerSecurity,
    topics: Topics,
    tokens: DelegationTokens,
    clock: Clock,
    entropy: Entropy,
    run_in_thread: RunInThread,
) -> SaslSetup:
    setups = {
        mechanism: MechanismSetup(
            _maker(mechanism, config, topics, tokens, clock, entropy, run_in_thread), config.connections_max_reauth_ms
        )
        for mechanism, config in security.mechanisms.items()
    }
    common = next(iter(security.mechanisms.values()))
    return SaslSetup(
        setups, clock, common.sasl_server_max_receive_size, common.connection_failed_authentication_delay_ms
    )


def _maker(
    mechanism: str,
    config: SaslConfig,
    topics: Topics,
    tokens: DelegationTokens,
    clock: Clock,
    entropy: Entropy,
    run_in_thread: RunInThread,
) -> MakeMechanism:
    if mechanism == PLAIN:
        jaas = str.__str__(config.sasl_jaas_config)
        passwords = Passwords(read_jaas(jaas) if config.has_jaas_users else read_users_file(config.sasl_users_file))
        return lambda: Plain(passwords)
    if mechanism == OAUTHBEARER:
        verifier = _verifier(config, clock, run_in_thread)
        return lambda: OAuthBearer(verifier)
    users_file = read_users_file(config.sasl_users_file) if config.sasl_users_file else {}
    key = entropy.bytes(SALT_BYTES)
    _keep_key(topics, key)
    find_token = partial(tokens.find_credential, mechanism)
    users = ScramUsers(mechanism, topics.registry.scram_credentials, users_file, key, find_token)
    return lambda: Scram(mechanism, users.find)


def _keep_key(topics: Topics, key: bytes) -> None:
    """Puts the key of made-up salts into the metadata log, unless it has one. If that fails, this server uses its own key."""

    def keep() -> None:
        if KEY not in topics.registry.scram_credentials:
            topics.metadata.commit([key_record(key)], lambda _error: None)

    topics.metadata.in_turn(keep)


def _verifier(config: SaslConfig, clock: Clock, run_in_thread: RunInThread) -> TokenVerifier:
    if config.sasl_oauthbearer_unsecured_tokens:
        return UnsecuredTokens(config, clock)
    keys = Keys(
        config.sasl_oauthbearer_jwks_endpoint_url,
        config.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        clock.machine_ms,
        run_in_thread,
    )
    return SignedTokens(config, keys, clock)
