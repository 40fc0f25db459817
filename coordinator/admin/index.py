"""The start page of the admin address: the paths that it serves, for a person who has only the address."""

from coordinator.admin.http import Request, Response, Routes, json_response

ABOUT = {
    ("GET", "/"): "this list",
    ("GET", "/health/live"): "status 200 while the event loop runs",
    ("GET", "/health/ready"): "status 200 if clients should use this server, else 503 and the reasons",
    ("GET", "/metrics"): "metrics for Prometheus",
    ("GET", "/v1/groups"): "all groups; ?limit=100&after=NAME selects a page",
    ("GET", "/v1/groups/{group_id}"): "a group: state, members, recent rebalances and their causes, offsets",
    ("POST", "/v1/groups/{group_id}/rebalance"): 'rebalance a group; the body is {"reason": TEXT} as application/json',
    ("GET", "/v1/transactions"): "all transactional ids; ?limit=100&after=NAME selects a page",
    ("GET", "/v1/transactions/{transactional_id}"): "a transactional id: state, producer, partitions",
}


def index_routes() -> Routes:
    """The route of `/`."""

    def index(_request: Request) -> Response:
        paths = [{"method": method, "path": path, "about": about} for (method, path), about in ABOUT.items()]
        return json_response({"server": "kafka-group-coordinator", "paths": paths})

    return {("GET", "/"): index}
