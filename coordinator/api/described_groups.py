"""How the answers about consumer and streams groups are put together from what each shard says of its own."""

from typing import Any

from coordinator.api.authorized_operations import GROUP
from coordinator.protocol.errors import ErrorCode


def in_order(request: Any, parts: list[Any]) -> list[Any]:
    """The described groups as Kafka lists them: names that cannot be are answered before it looks for groups."""
    described = {group.group_id: group for part in parts for group in part}
    if request.include_authorized_operations:
        for group in described.values():
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP
    return [described[group_id] for group_id in sorted(request.group_ids, key=bool)]
