"""The limit of a client is that of the most specific entity, in Kafka's order."""

import pytest

from coordinator.log.record import LogRecord
from coordinator.operations.log_records import METADATA, record_decoder
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import AlterClientQuotasRequest
from coordinator.quotas.alter import ENTITIES_MAX, plan_alterations
from coordinator.quotas.enforcement import AddressLimits
from coordinator.quotas.limits import Account, Limits
from coordinator.topics import metadata_records
from coordinator.topics.client_quotas import quota_entity, quota_record

KEY = "producer_byte_rate"
IN_ORDER = [
    {"user": "ann", "client-id": "app"},
    {"user": "ann", "client-id": None},
    {"user": "ann"},
    {"user": None, "client-id": "app"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "app"},
    {"client-id": None},
]


def limits(*entities):
    return Limits({quota_entity(names): {KEY: value} for value, names in enumerate(entities, 1)}, KEY)


def limit(found, user="ann", client_id="app"):
    return found.limit(found.account(user, client_id))


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_of_several_entities_the_most_specific_one_counts(first):
    assert limit(limits(*IN_ORDER[first:])) == 1


@pytest.mark.parametrize("names", IN_ORDER)
def test_each_entity_counts_alone(names):
    found = limits(names)
    assert limit(found) == 1
    others = {"user": "bob", "client_id": "tool"}
    assert limit(found, **others) == (1 if set(names.values()) == {None} else None)


def test_clients_share_what_names_them_and_a_default_is_one_for_each():
    of_user = limits({"user": "ann"})
    assert of_user.account("ann", "a") == of_user.account("ann", "b") == Account("ann", "")
    by_default = limits({"client-id": None})
    assert by_default.account("ann", "a") == by_default.account("bob", "a") == Account("", "a")
    assert by_default.account("ann", "b") != by_default.account("ann", "a")
    pairs = limits({"user": "ann", "client-id": None})
    assert pairs.account("ann", "a") != pairs.account("ann", "b")


def test_a_client_without_a_client_id_has_the_limit_of_its_user():
    found = limits({"user": "ann", "client-id": None}, {"user": "ann"})
    assert limit(found, client_id="") == 2


def test_other_keys_and_addresses_do_not_count():
    quotas = {quota_entity({"user": "ann"}): {"consumer_byte_rate": 1.0}, quota_entity({"ip": None}): {KEY: 2.0}}
    assert not Limits(quotas, KEY)


def test_the_number_of_entities_with_quotas_has_a_bound():
    quotas = {quota_entity({"user": str(number)}): {KEY: 1.0} for number in range(ENTITIES_MAX - 1)}
    request = AlterClientQuotasRequest
    entries = [
        request.EntryData([request.EntityData("user", name)], [request.OpData(KEY, 2.0, remove=False)])
        for name in ("0", "new", "one too many")
    ]
    planned = plan_alterations(quotas, entries)
    errors = {names["user"]: error and error.code for names, error in planned.results}
    assert errors == {"0": None, "new": None, "one too many": ErrorCode.POLICY_VIOLATION}
    assert [record.entity[0].entity_name for record in planned.records] == ["0", "new"]


def test_a_record_of_the_metadata_log_is_shown_as_kafka_writes_it():
    value = metadata_records.encode(quota_record({"user": None}, KEY, 5.0))
    assert value.hex() == "010e00" + "02" + "0575736572" + "0000" + "1370726f64756365725f627974655f72617465" + (
        "4014000000000000" + "00" + "00"
    )
    shown = record_decoder(METADATA)(LogRecord(0, 0, None, value, ()))
    entity = [{"entity_type": "user", "entity_name": None}]
    assert (shown.type, shown.value) == (
        "ClientQuota",
        {"version": 0, "entity": entity, "key": KEY, "value": 5.0, "remove": False},
    )


def test_an_address_has_its_own_limit_or_the_default():
    rate = "connection_creation_rate"
    quotas = {quota_entity({"ip": "::1"}): {rate: 3.0}, quota_entity({"ip": None}): {rate: 5.0}}
    found = AddressLimits(quotas)
    assert found.limit("0:0:0:0:0:0:0:1") == 3
    assert found.limit("127.0.0.1") == 5
    assert found.limit("unknown") == 5
    quotas[quota_entity({"ip": "host.example"})] = quotas[quota_entity({"ip": "10.0.0.1"})] = {rate: float("nan")}
    assert AddressLimits(quotas).limit("10.0.0.1") == 5
    del quotas[quota_entity({"ip": None})]
    assert AddressLimits(quotas).limit("127.0.0.1") is None
