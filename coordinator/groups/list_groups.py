"""ListGroups (key 16): the groups of one shard, of all kinds, simple ones included."""

from collections.abc import Iterable

from coordinator.groups.state import Groups
from coordinator.protocol.messages import ListGroupsResponse
from coordinator.protocol.releases import AS_NEWEST, Behaviours

_Listed = ListGroupsResponse.ListedGroup
_OTHER_SPELLINGS = {"not_ready": "notready"}
"""Kafka 4.4 reports the state as NotReady but only finds it as NOT_READY; here both spellings match."""


def list_groups(
    groups: Groups, states: Iterable[str], types: Iterable[str], behaviours: Behaviours = AS_NEWEST
) -> list[_Listed]:
    """The groups in one of these states and of one of these types; an empty filter lets every group pass.

    Case does not matter (before Kafka 3.8 it did); an unknown name matches no group. Mirrors `GroupMetadataManager.listGroups`.
    """
    lowered = (state.strip().lower() for state in states)
    wanted_states = {_OTHER_SPELLINGS.get(state, state) for state in lowered}
    wanted_types = {each.strip().lower() for each in types}
    return [
        _Listed(group.group_id, group.protocol_type or "", group.state.value, group.kind.label)
        for group in groups.by_id.values()
        if (not wanted_states or group.state.lower() in wanted_states)
        and (not behaviours.states_are_filtered_by_case or not wanted_states or group.state.value in states)
        and (not wanted_types or group.kind.label in wanted_types)
    ]
