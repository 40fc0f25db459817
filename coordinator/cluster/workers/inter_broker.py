"""How a worker asks others, and whether they will answer it: the listener for workers, its TLS and SASL, and its ACLs."""

from functools import partial

from coordinator.client.login.sasl import Sasl
from coordinator.cluster.workers.peers import PeerAccess
from coordinator.config.inter_broker import inter_broker_listener, login_mechanism
from coordinator.config.security import PLAIN
from coordinator.config.settings import ListenerConfig, ServerConfig
from coordinator.security.access import CLUSTER_ACTION
from coordinator.security.authorizer import CLUSTER_NAME
from coordinator.security.principal import ANONYMOUS, USER, InvalidRules, NoRuleApplies, Principal
from coordinator.security.standard_authorizer import StandardAuthorizer
from coordinator.security.tls import UnusableTls, make_client_context, own_principal
from coordinator.security.users import UnusableUsers, read_login
from coordinator.server import CannotStart


def peer_access(config: ServerConfig) -> PeerAccess:
    """How this worker connects to others. Raises CannotStart."""
    listener = inter_broker_listener(config)
    tls = listener.security.tls
    try:
        if tls is None:
            return PeerAccess(None, _login(config, listener))
        make_client_context(tls)
        return PeerAccess(partial(make_client_context, tls), _login(config, listener))
    except (UnusableTls, UnusableUsers) as error:
        raise CannotStart(f"listener {listener.name}: {error}") from error


def _login(config: ServerConfig, listener: ListenerConfig) -> Sasl | None:
    mechanism = login_mechanism(config, listener)
    if not mechanism:
        return None
    setting = f"listener.name.{listener.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    jaas = str.__str__(listener.security.mechanisms[mechanism].sasl_jaas_config)
    login = read_login(jaas, "Plain" if mechanism == PLAIN else "Scram") if jaas else None
    if login is None:
        raise CannotStart(
            f"workers authenticate at listener {listener.name} by {mechanism}: set {setting} with username and password"
        )
    return Sasl(mechanism=mechanism, user=login[0], password=login[1])


def check_may_ask(config: ServerConfig, access: PeerAccess, authorizer: StandardAuthorizer | None) -> None:
    """Raises CannotStart unless the workers' principal may do what only brokers may."""
    if authorizer is None:
        return
    principal = _principal(config, access)
    if not authorizer.allows(principal, config.listeners[0].host, CLUSTER_ACTION, CLUSTER_NAME, quiet=True):
        raise CannotStart(
            f"{principal} may not do ClusterAction, and workers ask each other as {principal} about transactions:"
            " name it in super.users, or allow it by an ACL"
        )


def _principal(config: ServerConfig, access: PeerAccess) -> Principal:
    if access.sasl is not None:
        return Principal(USER, access.sasl.user)
    tls = inter_broker_listener(config).security.tls
    try:
        return ANONYMOUS if tls is None else own_principal(tls)
    except (UnusableTls, InvalidRules, NoRuleApplies) as error:
        raise CannotStart(f"the principal of this worker's certificate: {error}") from error
