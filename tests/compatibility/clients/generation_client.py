"""kafka-python extended as KIP-792 proposes: its JoinGroup carries the member's generation in tagged field 792.

Two changes implement the proposal in the client: the field, and ILLEGAL_GENERATION as a response to JoinGroup, after
which the member drops its partitions, keeps its id and joins again without a generation. `enforce` is the consumer's
enforceRebalance, which kafka-python has under another name.
"""

import sys
from typing import Any

from kafka.coordinator import base
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import IllegalGenerationError, for_code
from kafka.protocol.api_message import ApiMessage
from kafka_python_client import KafkaPython

GENERATION_ID = {
    "name": "GenerationId", "type": "int32", "versions": "8+", "taggedVersions": "8+", "tag": 792, "default": "-1",
}  # fmt: skip
FIRST_VERSION = 8
with_generation = "792" in sys.argv[2:]
plain_process = ConsumerCoordinator._process_join_group_response


class JoinGroupRequest(ApiMessage):
    """Kafka's request with the field of KIP-792."""

    @classmethod
    def json_patch(cls, json: dict[str, Any]) -> dict[str, Any]:
        return json | {"fields": [*json["fields"], GENERATION_ID]}


class Generational(KafkaPython):
    fenced = 0

    def join_group(self, **fields: Any) -> Any:
        generation = self.consumer._coordinator._generation.generation_id
        return JoinGroupRequest(
            **(fields | {"max_version": FIRST_VERSION, "min_version": FIRST_VERSION}), generation_id=generation
        )

    def do_enforce(self) -> None:
        self.consumer._coordinator.request_rejoin()

    def do_fenced(self) -> int:
        """How often a JoinGroup of this member was refused because of its generation."""
        return self.fenced

    def do_generation(self) -> int:
        return self.consumer._coordinator._generation.generation_id


program = Generational(sys.argv[1])


def process(coordinator: ConsumerCoordinator, response: Any, send_time: float) -> Any:
    if for_code(response.error_code) is IllegalGenerationError:
        program.fenced += 1
        coordinator.reset_generation(member_id=coordinator._generation.member_id)
        raise IllegalGenerationError
    return plain_process(coordinator, response, send_time)


if with_generation:
    base.JoinGroupRequest = program.join_group
    ConsumerCoordinator._process_join_group_response = process
program.run()
