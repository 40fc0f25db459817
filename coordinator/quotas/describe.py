"""Which client quotas a filter finds (Kafka: `ClientQuotasImage.describe`)."""

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.java import hash_map_order, object_map_order
from coordinator.protocol.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from coordinator.quotas.alter import entity_hash
from coordinator.quotas.names import CLIENT_ID, ENTITY_TYPES, IP, USER
from coordinator.topics.client_quotas import QuotaEntity, Quotas

_ANY_NAME = object()

_Component = DescribeClientQuotasRequest.ComponentData
_Entry = DescribeClientQuotasResponse.EntryData
_Entity = DescribeClientQuotasResponse.EntityData
_Value = DescribeClientQuotasResponse.ValueData
_Filter = dict[str, object]
"""Entity type -> its name, None for the default, or `_ANY_NAME`."""


def find_quotas(quotas: Quotas, request: DescribeClientQuotasRequest) -> list[_Entry]:
    """The entities that match all components of the request.

    `strict`: and have no other types. Raises INVALID_REQUEST, UNSUPPORTED_VERSION.
    """
    wanted = _filter(request.components)
    return [
        _entry(entity, quotas[entity])
        for entity in object_map_order(quotas, entity_hash, len(quotas))
        if _matches(dict(entity), wanted, strict=request.strict)
    ]


def _filter(components: list[_Component]) -> _Filter:
    wanted: _Filter = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in wanted:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter."
            )
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        wanted[kind] = _wanted_name(component)
    if IP in wanted and not wanted.keys().isdisjoint({USER, CLIENT_ID}):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component.",
        )
    return wanted


def _wanted_name(component: _Component) -> object:
    """Match types: 0 a name, 1 the default, 2 every name and the default."""
    match component.match_type, component.match:
        case (0, None):
            problem = "Request specified MATCH_TYPE_EXACT, but set match string to null."
        case (0, name):
            return name
        case (1, None):
            return None
        case (2, None):
            return _ANY_NAME
        case (1, _):
            problem = "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
        case (2, _):
            problem = "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
        case (unknown, _):
            problem = f"Unknown match type {unknown}"
    raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _matches(names: dict[str, str | None], wanted: _Filter, *, strict: bool) -> bool:
    if strict and len(names) != len(wanted):
        return False
    return all(kind in names and (name is _ANY_NAME or name == names[kind]) for kind, name in wanted.items())


def _entry(entity: QuotaEntity, values: dict[str, float]) -> _Entry:
    names = dict(entity)
    return _Entry(
        entity=[_Entity(kind, names[kind]) for kind in hash_map_order(names, len(names))],
        values=[_Value(key, values[key]) for key in hash_map_order(values, len(values))],
    )
