"""Fault rules: which requests a test lets fail, wait or get lost, and recordings of what clients asked and were answered.

docs/control.md has the rules; admin/ and the simulator set them.
"""
