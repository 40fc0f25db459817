"""DeleteShareGroupState (key 86): deletes the state of a share partition (share_state/delete.py).

Brokers ask it: clients need CLUSTER_ACTION.
"""

from functools import partial

from coordinator.api import Api, Exchange, Overlay, Server, share_states
from coordinator.api.error_families import SHARE_STATE_ERRORS
from coordinator.api.guards import guarded_by_cluster
from coordinator.protocol.messages import DeleteShareGroupStateRequest
from coordinator.security.access import CLUSTER_ACTION
from coordinator.share_state.questions import DELETE


def handle(server: Server, exchange: Exchange[DeleteShareGroupStateRequest]) -> None:
    share_states.handle(DELETE, server, exchange)


API = Api(
    key=86,
    name="DeleteShareGroupState",
    versions=(0, 0),
    access=(CLUSTER_ACTION,),
    handle=handle,
    refuse=partial(share_states.refused, DELETE),
    guard=guarded_by_cluster(CLUSTER_ACTION, handle),
    errors=SHARE_STATE_ERRORS,
    elements=("topics.partitions",),
    overlay=Overlay.HIDDEN,
)
