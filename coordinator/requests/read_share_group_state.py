"""ReadShareGroupState (key 84): a leader takes over the state of a share partition (share_state/read.py).

Brokers ask it: clients need CLUSTER_ACTION.
"""

from functools import partial

from coordinator.api import Api, Exchange, Overlay, Server, share_states
from coordinator.api.error_families import SHARE_STATE_ERRORS
from coordinator.api.guards import guarded_by_cluster
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ReadShareGroupStateRequest
from coordinator.security.access import CLUSTER_ACTION
from coordinator.share_state.questions import READ


def handle(server: Server, exchange: Exchange[ReadShareGroupStateRequest]) -> None:
    share_states.handle(READ, server, exchange)


API = Api(
    key=84,
    name="ReadShareGroupState",
    versions=(0, 0),
    access=(CLUSTER_ACTION,),
    handle=handle,
    refuse=partial(share_states.refused, READ),
    guard=guarded_by_cluster(CLUSTER_ACTION, handle),
    errors=SHARE_STATE_ERRORS | {ErrorCode.FENCED_LEADER_EPOCH},
    elements=("topics.partitions",),
    overlay=Overlay.HIDDEN,
)
