"""Makes the engine that an address names."""

from importlib import import_module

from coordinator.engine.address import EngineAddress
from coordinator.engine.engine import Engine, EngineRefused, EngineSettings


def engine_for(address: EngineAddress, settings: EngineSettings) -> Engine:
    """The engine of an address, not opened yet. Its driver is imported here, so that others need not be installed.

    Raises: EngineRefused: the scheme is unknown, the driver is missing, or the settings are not for this engine.
    """
    if address.scheme not in {"postgresql", "postgres"}:
        raise EngineRefused(f"{address}: an engine's address begins with postgresql://")
    try:
        module = import_module("coordinator.engine.postgresql")
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise EngineRefused(
            "the journal over PostgreSQL needs asyncpg: pip install '.[postgresql]' in a checkout"
        ) from None
    try:
        engine: Engine = module.PostgresqlEngine(address, settings)
    except ValueError as error:
        raise EngineRefused(f"{address}: {address.hide(str(error))}") from None
    return engine
