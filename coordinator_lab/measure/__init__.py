"""Measurements that people start by hand: `python -m coordinator_lab.measure NAME`."""
