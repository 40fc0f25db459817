"""The client's side of the protocol: how this program asks another server, and proves to it who it is.

conversation    requests and responses as bytes, without I/O
asynchronous    connections on an event loop
blocking        connections of commands
reading         requests for records and offsets
login/          SASL and TLS
"""
