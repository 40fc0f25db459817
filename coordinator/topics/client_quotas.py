"""The client quotas of the metadata log: entity -> key -> value (Kafka: `ClientQuotasImage`).

Replay keeps them here; `coordinator/quotas` says what they mean.
"""

from collections.abc import Iterator, Mapping

from coordinator.protocol.java import hash_map_order
from coordinator.protocol.messages import ClientQuotaRecord

QuotaEntity = tuple[tuple[str, str | None], ...]
"""The types of an entity with their names, sorted by type: (("client-id", "app"), ("user", None)). None: the default."""
Quotas = dict[QuotaEntity, dict[str, float]]


def quota_entity(names: Mapping[str, str | None]) -> QuotaEntity:
    """The entity with these types and names."""
    return tuple(sorted(names.items()))


def replay(quotas: Quotas, record: ClientQuotaRecord) -> None:
    """Applies a record (`ClientQuotaControlManager.replay`)."""
    entity = quota_entity({each.entity_type: each.entity_name for each in record.entity})
    before = quotas.get(entity, {})
    # Each change copies Kafka's HashMap, which settles the order of keys that share a bucket.
    values = {key: before[key] for key in hash_map_order(before, len(before))}
    if record.remove:
        values.pop(record.key, None)
    else:
        values[record.key] = record.value
    quotas[entity] = values
    if not values:
        del quotas[entity]


def quota_record(names: Mapping[str, str | None], key: str, value: float | None) -> ClientQuotaRecord:
    """The record that sets a quota, or removes it (None)."""
    entity = [ClientQuotaRecord.EntityData(entity_type, name) for entity_type, name in names.items()]
    return ClientQuotaRecord(entity=entity, key=key, value=value or 0.0, remove=value is None)


def snapshot(quotas: Quotas) -> Iterator[ClientQuotaRecord]:
    """The records that set these quotas."""
    for entity, values in quotas.items():
        for key, value in values.items():
            yield quota_record(dict(entity), key, value)
