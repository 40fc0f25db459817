"""Makes the engine that an address names."""

from importlib import import_module

from coordinator.engine.address import EngineAddress
from coordinator.engine.engine import Engine, EngineRefused, EngineSettings

ENGINES = {
    "postgresql": ("postgresql", "PostgresqlEngine"),
    "postgres": ("postgresql", "PostgresqlEngine"),
    "kafka": ("kafka", "KafkaEngine"),
}
"""The module and class of each scheme. They are imported when they are asked for, so that no driver need be installed."""


def engine_for(address: EngineAddress, settings: EngineSettings) -> Engine:
    """The engine of an address, not opened yet.

    Raises: EngineRefused: the scheme is unknown, the driver is missing, or the settings are not for this engine.
    """
    if address.scheme not in ENGINES:
        raise EngineRefused(f"{address}: an engine's address begins with postgresql:// or kafka://")
    name, kind = ENGINES[address.scheme]
    try:
        module = import_module(f"coordinator.engine.{name}.engine")
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise EngineRefused(
            "the journal over PostgreSQL needs asyncpg: pip install '.[postgresql]' in a checkout"
        ) from None
    try:
        engine: Engine = getattr(module, kind)(address, settings)
    except ValueError as error:
        raise EngineRefused(f"{address}: {address.hide(str(error))}") from None
    return engine
