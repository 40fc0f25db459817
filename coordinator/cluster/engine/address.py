"""The address of an engine: a URL that may have a password, which no log line and no error shows."""

import re
from importlib import import_module
from urllib.parse import parse_qs, unquote, urlsplit

from coordinator.cluster.engine.engine import Engine, EngineRefused, EngineSettings

HIDDEN = "[hidden]"
_SECRET_FIELDS = ("password", "sslpassword")
_PASSWORD = re.compile(r"(://[^:/?#@]*:)(.*)@")
"""Up to the last @, because a password that is not quoted may have any character."""


class EngineAddress:
    """A URL such as `postgresql://user:password@first:5432,second:5432/database`. Its text forms hide the passwords."""

    __slots__ = ("_url", "scheme")

    def __init__(self, url: str) -> None:
        self._url = url
        self.scheme = url.partition("://")[0].lower() if "://" in url else ""

    def reveal(self) -> str:
        """The URL with its passwords, for a driver."""
        return self._url

    def __str__(self) -> str:
        shown = _PASSWORD.sub(rf"\1{HIDDEN}@", self._url, count=1)
        return re.sub(rf"([?&](?:{'|'.join(_SECRET_FIELDS)})=)[^&#]*", rf"\1{HIDDEN}", shown)

    __repr__ = __str__

    def hide(self, text: str) -> str:
        """The text of an error without the address's passwords."""
        for secret in self._secrets():
            text = text.replace(secret, HIDDEN)
        return text

    def hosts(self) -> list[tuple[str, int | None]]:
        """The hosts, and their ports where the URL has them; empty: the URL names none."""
        _, _, hosts = urlsplit(self._url).netloc.rpartition("@")
        listed = hosts or ",".join(self._query().get("host", []))
        return [_host_and_port(each) for each in listed.split(",")] if listed else []

    def _query(self) -> dict[str, list[str]]:
        return parse_qs(self._url.partition("?")[2])

    def _secrets(self) -> list[str]:
        written = [found[2] for found in [_PASSWORD.search(self._url)] if found is not None]
        written += [each for name in _SECRET_FIELDS for each in self._query().get(name, [])]
        return sorted({each for text in written for each in (text, unquote(text)) if each}, key=len, reverse=True)


def _host_and_port(text: str) -> tuple[str, int | None]:
    match = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d+))?", text)
    if match is None:
        raise ValueError(f"{text} is not a host and a port")
    host, port = match.groups()
    return unquote(host).strip("[]"), int(port) if port else None


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
        module = import_module(f"coordinator.cluster.engine.{name}.engine")
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
