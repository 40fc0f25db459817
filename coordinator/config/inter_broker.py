"""Which listener workers ask each other at, and as whom: Kafka's settings between brokers."""

from coordinator.config.security import ListenerSecurity
from coordinator.config.settings import ListenerConfig, ServerConfig
from coordinator.config.sharing import LOGINS


class NoInterBrokerListener(ValueError):
    """The settings between workers do not fit the listeners. The text is one line."""


def inter_broker_listener(config: ServerConfig) -> ListenerConfig:
    """The listener at which other workers ask this one. Raises NoInterBrokerListener."""
    shared, listeners = config.shared, {listener.name: listener for listener in config.listeners}
    if len(listeners) < len(config.listeners):
        raise NoInterBrokerListener("listeners: several workers tell listeners apart by their names; give each its own")
    if shared.inter_broker_listener_name:
        setting, name = "inter.broker.listener.name", shared.inter_broker_listener_name.upper()
    else:
        setting, name = "security.inter.broker.protocol", shared.security_inter_broker_protocol
        is_default = name == type(shared)().security_inter_broker_protocol
        if len(listeners) == 1 and is_default:
            return config.listeners[0]
    if name not in listeners:
        raise NoInterBrokerListener(
            f"{setting} = {name}: allowed: the name of a listener ({', '.join(listeners)});"
            " set inter.broker.listener.name to the one at which workers ask each other"
        )
    return listeners[name]


def login_mechanism(config: ServerConfig, listener: ListenerConfig) -> str:
    """The mechanism by which a worker authenticates there; empty: the listener has no SASL. Raises NoInterBrokerListener."""
    security: ListenerSecurity = listener.security
    if not security.mechanisms:
        return ""
    wanted = config.shared.sasl_mechanism_inter_broker_protocol
    usable = [each for each in security.mechanisms if each in LOGINS]
    if not wanted and len(usable) == 1:
        return usable[0]
    if wanted in usable:
        return wanted
    raise NoInterBrokerListener(
        f"sasl.mechanism.inter.broker.protocol = {wanted or 'nothing'}: listener {listener.name} asks workers to authenticate;"
        f" allowed: one of its mechanisms ({', '.join(security.mechanisms)}) that is {', '.join(LOGINS)}"
    )
