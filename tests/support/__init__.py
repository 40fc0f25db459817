"""Helpers that tests of several folders share: a server process, wire-level clients, a real broker, ports, waiting."""
