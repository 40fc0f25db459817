"""What API files share. From here they import the seam that they are written against; the modules have the rest."""

from coordinator.api.declaration import HERE, Api, Coordinator, Forwarded, Overlay, QuotaType
from coordinator.api.exchange import Exchange
from coordinator.api.permits import Permits, denial
from coordinator.api.server import Server
from coordinator.api.sliced_work import Pieces

# fmt: off
__all__ = [
    "HERE", "Api", "Coordinator", "Exchange", "Forwarded", "Overlay", "Permits", "Pieces", "QuotaType", "Server", "denial",
]
