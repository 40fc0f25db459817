"""Which records change the client quotas as a request asks, and which entities are refused.

This is Kafka's `ClientQuotaControlManager.alterClientQuotas`, with its order of checks and its texts. A request is not
atomic: the valid entities are changed.
"""

import math
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.java import hash_map_order, object_map_order, string_hash
from coordinator.protocol.messages import AlterClientQuotasRequest, ClientQuotaRecord
from coordinator.quotas.names import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    ENTITY_TYPES,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from coordinator.topics.client_quotas import QuotaEntity, Quotas, quota_entity, quota_record

ENTITIES_MAX = 100_000
"""The most entities that have quotas. Kafka has no bound."""
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_FRACTION_MAX = 1e-6
_Bound = tuple[int, str] | None
"""The largest whole number of a key, and what Kafka calls its type; None: any number."""
_IP_KEYS: Mapping[str, _Bound] = {CONNECTION_CREATION_RATE: (_INT_MAX, "an INT")}
_USER_AND_CLIENT_KEYS: Mapping[str, _Bound] = {
    PRODUCER_BYTE_RATE: (_LONG_MAX, "a LONG"),
    CONSUMER_BYTE_RATE: (_LONG_MAX, "a LONG"),
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}

Names = dict[str, str | None]
"""Entity type -> name, in the order in which Kafka's HashMap lists them."""


class Alterations(NamedTuple):
    """What a request comes to."""

    records: list[ClientQuotaRecord]
    results: list[tuple[Names, KafkaError | None]]
    """For each entity, in Kafka's order."""


def plan_alterations(quotas: Quotas, entries: Sequence[AlterClientQuotasRequest.EntryData]) -> Alterations:
    """Plans the changes. Each refused entity has INVALID_REQUEST, or POLICY_VIOLATION beyond `ENTITIES_MAX`."""
    records: list[ClientQuotaRecord] = []
    names: dict[QuotaEntity, Names] = {}
    errors: dict[QuotaEntity, KafkaError | None] = {}
    room = ENTITIES_MAX - len(quotas)
    for entry in entries:
        of_entry = _names(entry)
        entity = quota_entity(of_entry)
        names.setdefault(entity, of_entry)
        values = {op.key: None if op.remove else op.value for op in entry.ops}
        if entity in errors or len(values) < len(entry.ops):
            errors[entity] = _invalid(f"Ignoring duplicate entity {_text(of_entry)}")
            continue
        try:
            changes = _changes(quotas.get(entity, {}), of_entry, values)
            if changes and entity not in quotas:
                room = _take_place(room)
            records += changes
            errors[entity] = None
        except KafkaError as error:
            errors[entity] = error
    ordered = object_map_order(names, entity_hash)
    return Alterations(records, [(names[entity], errors[entity]) for entity in ordered])


def entity_hash(entity: QuotaEntity) -> int:
    """Kafka's `ClientQuotaEntity.hashCode`."""
    total = sum(string_hash(kind) ^ (string_hash(name) if name is not None else 0) for kind, name in entity)
    return 31 + total


def _names(entry: AlterClientQuotasRequest.EntryData) -> Names:
    """The names of an entity; of a type that occurs twice, the last counts, as in Kafka."""
    names = {each.entity_type: each.entity_name for each in entry.entity}
    return {kind: names[kind] for kind in hash_map_order(names, len(entry.entity))}


def _text(names: Names) -> str:
    listed = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in names.items())
    return f"ClientQuotaEntity(entries={{{listed}}})"


def _changes(current: Mapping[str, float], names: Names, values: Mapping[str, float | None]) -> list[ClientQuotaRecord]:
    _check_names(names)
    bounds = _keys_of(names)
    changed = []
    for key in hash_map_order(values, len(values)):
        value = values[key]
        if value is not None:
            _check_value(bounds, key, value)
        if value != current.get(key):
            changed.append(key)
    # Kafka's broker collects the changes in a HashMap of its own (`ClientQuotaDelta`) before it adds them to the others.
    return [quota_record(names, key, values[key]) for key in hash_map_order(changed)]


def _check_names(names: Names) -> None:
    if not names:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if not name and name is not None:
            raise _invalid(f"Empty {kind} not supported")


def _keys_of(names: Names) -> Mapping[str, _Bound]:
    """The keys that an entity can have (`configKeysForEntityType`)."""
    if IP not in names:
        return _USER_AND_CLIENT_KEYS
    if USER in names or CLIENT_ID in names:
        raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = names[IP]
    if address is not None and not _is_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_value(bounds: Mapping[str, _Bound], key: str, value: float) -> None:
    """Refuses what `validateQuotaKeyValue` refuses."""
    if key not in bounds:
        raise _invalid(f"Invalid configuration key {key}")
    if value <= 0.0:
        raise _invalid(f"Quota {key} must be greater than 0")
    bound = bounds[key]
    if bound is None:
        return
    largest, kind = bound
    if value > float(largest):
        raise _invalid(f"Proposed value for {key} is too large for {kind}.")
    if math.fmod(value, 1.0) > _FRACTION_MAX:
        raise _invalid(f"{key} cannot be a fractional value.")


def _take_place(room: int) -> int:
    if room <= 0:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"The server keeps the quotas of at most {ENTITIES_MAX} entities.")
    return room - 1


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
