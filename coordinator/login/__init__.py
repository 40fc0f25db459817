"""The client's side of SASL: how this program proves to another server who it is.

sasl    the dialog of a mechanism, without I/O: requests out, responses in
scram   SCRAM-SHA-256 and SCRAM-SHA-512
"""
