"""The client's side of SASL and TLS: how this program proves to another server who it is, and whom it trusts.

sasl    the dialog of a mechanism, without I/O: requests out, responses in
scram   SCRAM-SHA-256 and SCRAM-SHA-512
tls     the files of TLS
"""
