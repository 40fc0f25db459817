"""Benchmarks: the server CPU per request, compared with a bare echo server.

Server, load generator and echo server are separate processes. A result is the user and system time of the server, as the
operating system reports it, divided by the number of responses. The ratio to the echo server, which sends frames of the same
sizes, can be compared between machines.
"""
