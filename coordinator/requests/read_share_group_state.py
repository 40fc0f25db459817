"""ReadShareGroupState (key 84): a leader takes over the state of a share partition (share_state/read.py).

Brokers ask it: clients need CLUSTER_ACTION.
"""

from functools import partial

from coordinator.api import share_states
from coordinator.api.declaration import Api, Overlay
from coordinator.api.error_families import SHARE_STATE_ERRORS
from coordinator.api.guards import guarded_by_cluster
from coordinator.protocol.errors import ErrorCode
from coordinator.security.access import CLUSTER_ACTION
from coordinator.share_state.questions import READ

handle = partial(share_states.handle, READ)

API = Api(
    key=84,
    name="ReadShareGroupState",
    versions=(0, 0),
    access=(CLUSTER_ACTION,),
    handle=handle,
    refuse=partial(share_states.refuse, READ),
    guard=guarded_by_cluster(CLUSTER_ACTION, handle),
    errors=SHARE_STATE_ERRORS | {ErrorCode.FENCED_LEADER_EPOCH},
    elements=("topics.partitions",),
    overlay=Overlay.HIDDEN,
)
