"""WriteShareGroupState (key 85): a leader adds to the state of a share partition (share_state/write.py).

Brokers ask it: clients need CLUSTER_ACTION. v1 says how many records are done with.
"""

from functools import partial

from coordinator.api import Api, Exchange, Overlay, Server, share_states
from coordinator.api.error_families import SHARE_STATE_ERRORS
from coordinator.api.guards import guarded_by_cluster
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import WriteShareGroupStateRequest
from coordinator.security.access import CLUSTER_ACTION
from coordinator.share_state.questions import WRITE


def handle(server: Server, exchange: Exchange[WriteShareGroupStateRequest]) -> None:
    share_states.handle(WRITE, server, exchange)


API = Api(
    key=85,
    name="WriteShareGroupState",
    versions=(0, 1),
    access=(CLUSTER_ACTION,),
    handle=handle,
    refuse=partial(share_states.refused, WRITE),
    guard=guarded_by_cluster(CLUSTER_ACTION, handle),
    errors=SHARE_STATE_ERRORS | {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH},
    elements=("topics.partitions",),
    overlay=Overlay.HIDDEN,
)
