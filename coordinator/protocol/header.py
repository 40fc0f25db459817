"""The header of a request. (A response's header is two numbers: api/exchange.py writes it.)

A request names its API, version and correlation id, then the client id and, from the API's first flexible version on, a section
of tagged fields. This is the only part that is decoded by hand: every request has it, and it must be read before anybody knows
which message follows. (A definition RequestHeader exists too, and a test compares this file with it.)
"""

import struct
from functools import cache

from coordinator.protocol.schema import LATEST, definitions
from coordinator.protocol.wire import TEXTS, DecodeError, skip_tags

RequestHead = tuple[int, int, int, str | None, int]
"""API key, API version, correlation id, client id (nullable), and the position of the body."""

_HEAD = struct.Struct(">hhih").unpack_from


@cache
def _first_flexible_versions() -> dict[int, int]:
    """API key -> first flexible version, for every API that has a definition."""
    schemas = definitions(None)
    return {
        api_key: flexible.lowest if LATEST in flexible else LATEST + 1
        for api_key, name in schemas.request_names.items()
        for flexible in (schemas.outline(name).flexible,)
    }


def decode_request_header(buffer: bytes, _flexible: dict[int, int] = _first_flexible_versions()) -> RequestHead:  # noqa: B008 - a constant
    """Reads the header of a request frame. Raises DecodeError.

    An unknown API key is read as not flexible, and an unknown version by the rule of its API. The caller refuses both, except
    that ApiVersions answers an unknown version.
    """
    try:
        api_key, api_version, correlation_id, size = _HEAD(buffer, 0)
        end = 10
        if size < 0:
            client_id = None
        else:
            end += size
            client_id = TEXTS[buffer[10:end]]
        if api_version >= _flexible.get(api_key, LATEST + 1):
            end = end + 1 if buffer[end] == 0 else skip_tags(buffer, end)
    except (IndexError, struct.error) as error:
        raise DecodeError("the request header is truncated") from error
    if end > len(buffer):
        raise DecodeError("the request header is truncated")
    return api_key, api_version, correlation_id, client_id, end
