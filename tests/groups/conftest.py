"""Lets the tests of every folder below import `harness`."""
