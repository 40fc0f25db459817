"""Admin HTTP of several workers on one machine: one address that answers for all of them (`serve --workers N`).

It is an `AdminServer` with the endpoints of any server (admin/routes.py), so credentials, TLS, limits and validation are the
same. The endpoints are declared once; routes.py replaces their handlers:

    the supervisor's own   the list of the endpoints, the page, the OpenAPI document, /health/live
    merged                 health and metrics; the lists of groups and transactional ids, which are whole or refused
    forwarded              what is about one group or transactional id goes to the worker that has it; topics to the first
    on all                 fault rules, recordings and the clock: set on every worker, counted together
    events                 read from the logs that the supervisor keeps for the workers, so no take-over disturbs a stream

Workers have admin HTTP of their own at free ports of loopback. Only the supervisor can use it: it has made the token.

    machine.py      what the supervisor gives
    asking.py       a request to a worker; forwarded until the owner of the shard has answered
    merged.py       lists, health, metrics and events of all
    on_all.py       what is set on every worker
    faults.py, recordings.py, clock.py
    routes.py       what several workers do in place of each handler
"""
