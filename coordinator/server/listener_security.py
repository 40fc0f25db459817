"""Makes what protects a listener from its settings: the context of TLS, the mechanisms of SASL, their users and keys."""

from collections.abc import Callable, Mapping
from typing import Any

import scramp  # noqa: F401 - at the start, not at the first login

from coordinator.admin.credentials import UnusableToken, read_token
from coordinator.config.security import OAUTHBEARER, PLAIN, ListenerSecurity, SaslConfig, TlsConfig
from coordinator.config.settings import AdminConfig
from coordinator.network.listener import Protection, SaslSetup
from coordinator.security.authenticator import MechanismSetup
from coordinator.security.mechanism import MakeMechanism
from coordinator.security.oauthbearer import OAuthBearer, TokenVerifier
from coordinator.security.password import Plain
from coordinator.security.principal import InvalidRules
from coordinator.security.scram import CODES, ITERATIONS_MIN, Credential, Scram, credential_of_password
from coordinator.security.tls import TlsContext, UnusableTls
from coordinator.security.tokens import Keys, SignedTokens, UnsecuredTokens, UnusableKeys
from coordinator.security.users import Passwords, UnusableUsers, read_jaas, read_users_file
from coordinator.server import CannotStart
from coordinator.topics.registry import Registry
from coordinator.world.clock import Clock
from coordinator.world.entropy import Entropy
from coordinator.world.worker import RunInWorker

SALT_BYTES = 32


def make_protection(
    name: str,
    security: ListenerSecurity,
    registry: Registry,
    clock: Clock,
    entropy: Entropy,
    run_in_worker: RunInWorker,
) -> Protection:
    """TLS and SASL of a listener. Raises CannotStart."""
    try:
        return {
            "tls": None if security.tls is None else TlsContext(security.tls),
            "sasl": _sasl(security, registry, clock, entropy, run_in_worker) if security.mechanisms else None,
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
    security: ListenerSecurity, registry: Registry, clock: Clock, entropy: Entropy, run_in_worker: RunInWorker
) -> SaslSetup:
    setups = {
        mechanism: MechanismSetup(
            _maker(mechanism, config, registry, clock, entropy, run_in_worker), config.connections_max_reauth_ms
        )
        for mechanism, config in security.mechanisms.items()
    }
    common = next(iter(security.mechanisms.values()))
    return SaslSetup(
        setups, clock, common.sasl_server_max_receive_size, common.connection_failed_authentication_delay_ms
    )


def _maker(
    mechanism: str, config: SaslConfig, registry: Registry, clock: Clock, entropy: Entropy, run_in_worker: RunInWorker
) -> MakeMechanism:
    if mechanism == PLAIN:
        jaas = str.__str__(config.sasl_jaas_config)
        passwords = Passwords(read_jaas(jaas) if config.has_jaas_users else read_users_file(config.sasl_users_file))
        return lambda: Plain(passwords)
    if mechanism == OAUTHBEARER:
        verifier = _verifier(config, clock, run_in_worker)
        return lambda: OAuthBearer(verifier)
    users = read_users_file(config.sasl_users_file) if config.sasl_users_file else {}
    find = _credentials(mechanism, registry, users, entropy.bytes)
    return lambda: Scram(mechanism, find)


def _verifier(config: SaslConfig, clock: Clock, run_in_worker: RunInWorker) -> TokenVerifier:
    if config.sasl_oauthbearer_unsecured_tokens:
        return UnsecuredTokens(config, clock)
    keys = Keys(
        config.sasl_oauthbearer_jwks_endpoint_url,
        config.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        clock.machine_ms,
        run_in_worker,
    )
    return SignedTokens(config, keys, clock)


def _credentials(
    mechanism: str, registry: Registry, users: Mapping[str, str], random_bytes: Callable[[int], bytes]
) -> Callable[[str], Credential | None]:
    """Finds the credential of a user: that of the metadata log, else that of the user's password in the file."""
    of_file: dict[str, Credential] = {}
    code = CODES[mechanism]

    def find(user: str) -> Credential | None:
        record: Any = registry.scram_credentials.get((user, code))
        if record is not None:
            return Credential(record.salt, record.stored_key, record.server_key, record.iterations)
        if user in users and user not in of_file:
            salt = random_bytes(SALT_BYTES)
            of_file[user] = credential_of_password(mechanism, users[user], salt, ITERATIONS_MIN)
        return of_file.get(user)

    return find
