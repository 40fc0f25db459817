"""Speed, measured as what a user pays: server CPU per request, beside a bare echo in the same run.

Server, load generator and echo are processes of their own. A figure is the server's user + system time (from the operating
system) divided by the answers it gave; the ratio to the echo of equal frame sizes is what can be compared between machines.
"""
