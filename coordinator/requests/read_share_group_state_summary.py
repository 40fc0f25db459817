"""ReadShareGroupStateSummary (key 87): the start offset and the count of a share partition (share_state/summary.py).

Brokers ask it: clients need CLUSTER_ACTION. v1 has the count of records that are done with.
"""

from functools import partial

from coordinator.api import Api, Exchange, Overlay, Server, share_states
from coordinator.api.error_families import SHARE_STATE_ERRORS
from coordinator.api.guards import guarded_by_cluster
from coordinator.protocol.messages import ReadShareGroupStateSummaryRequest
from coordinator.security.access import CLUSTER_ACTION
from coordinator.share_state.questions import SUMMARY


def handle(server: Server, exchange: Exchange[ReadShareGroupStateSummaryRequest]) -> None:
    share_states.handle(SUMMARY, server, exchange)


API = Api(
    key=87,
    name="ReadShareGroupStateSummary",
    versions=(0, 1),
    access=(CLUSTER_ACTION,),
    handle=handle,
    refuse=partial(share_states.refused, SUMMARY),
    guard=guarded_by_cluster(CLUSTER_ACTION, handle),
    writes=False,
    errors=SHARE_STATE_ERRORS,
    elements=("topics.partitions",),
    overlay=Overlay.HIDDEN,
)
