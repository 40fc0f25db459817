"""InitializeShareGroupState (key 83): makes the state of a share partition, or begins it again (share_state/initialize.py).

Brokers ask it: clients need CLUSTER_ACTION.
"""

from functools import partial

from coordinator.api import Api, Exchange, Overlay, Server, share_states
from coordinator.api.error_families import SHARE_STATE_ERRORS
from coordinator.api.guards import guarded_by_cluster
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import InitializeShareGroupStateRequest
from coordinator.security.access import CLUSTER_ACTION
from coordinator.share_state.questions import INITIALIZE


def handle(server: Server, exchange: Exchange[InitializeShareGroupStateRequest]) -> None:
    share_states.handle(INITIALIZE, server, exchange)


API = Api(
    key=83,
    name="InitializeShareGroupState",
    versions=(0, 0),
    access=(CLUSTER_ACTION,),
    handle=handle,
    refuse=partial(share_states.refused, INITIALIZE),
    guard=guarded_by_cluster(CLUSTER_ACTION, handle),
    errors=SHARE_STATE_ERRORS | {ErrorCode.FENCED_STATE_EPOCH},
    elements=("topics.partitions",),
    overlay=Overlay.HIDDEN,
)
