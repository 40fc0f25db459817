"""Every API answers every error that a rule may ask for, in every version, and does nothing else."""

from coordinator.protocol.errors import ErrorCode
from coordinator.requests.init_producer_id import translate_fenced
from coordinator.rules.elements import named_by
from coordinator.rules.responses import can_carry, errors_met
from tests.rules.samples import APIS, GROUP, TOPIC, TRANSACTIONAL_ID, VERSIONS, error_codes, sample
from tests.rules.world import running

_NAMES = {"group": GROUP, "topic": TOPIC, "transactional_id": TRANSACTIONAL_ID}
_TRANSLATED = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}
"""What older versions of some APIs answer instead, as Kafka does."""
_WITHOUT_SESSION = {"ShareAcknowledge": ErrorCode.INVALID_SHARE_SESSION_EPOCH}
"""An error of the session is not hidden by one of partitions. With a session: tests/admin/test_share_groups.py."""
_LOADING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE}


def _state(server):
    """Everything durable: the ends of all logs, and the topics."""
    shards = [(shard.offset_written, shard.log.end_offset) for shard in server.shards]
    ends = [
        partition.end_offset
        for topic in server.topics.registry.topics
        for index in range(server.topics.partition_count(topic))
        if (partition := server.topics.partition(topic, index)) is not None and hasattr(partition, "end_offset")
    ]
    return shards, ends, sorted(server.topics.registry.topics), server.topics.metadata.end_offset


async def test_every_api_answers_each_of_its_errors_in_every_version_and_nothing_changes(tmp_path):
    async with running(tmp_path) as world:
        client = await world.client()
        topic_id = world.server.topics.topic_id(TOPIC)
        before = _state(world.server)
        for api, version in VERSIONS:
            order = ("topic", "group") if api.endswith("Configs") else ("group", "topic", "transactional_id")
            name = next((each for each in order if each in named_by(APIS[api])), None)
            match = {"api": api, "version": version} | ({name: _NAMES[name]} if name else {})
            for code in sorted(errors_met(APIS[api])):
                if not can_carry(APIS[api], version, code):
                    continue
                fault = world.fault(match, {"error": code.name})
                response = await client.call(api, version, sample(api, version, topic_id))
                world.clear()
                allowed = {code, _TRANSLATED.get(code), _LOADING.get(code), _WITHOUT_SESSION.get(api)} - {None}
                found = error_codes(response)
                assert found, (api, version, code.name, response)
                assert set(found) <= allowed, (api, version, code.name, response)
                assert fault.acted == 1
        assert _state(world.server) == before
        assert not any(shard.state.by_id for shard in world.server.groups.shards)


def test_every_api_has_errors_that_its_clients_meet():
    for api in APIS.values():
        assert ErrorCode.UNKNOWN_SERVER_ERROR in errors_met(api)
        assert ErrorCode.NONE not in errors_met(api)
    assert translate_fenced(ErrorCode.PRODUCER_FENCED, 0, 1) is _TRANSLATED[ErrorCode.PRODUCER_FENCED]
