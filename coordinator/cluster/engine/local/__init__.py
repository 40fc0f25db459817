"""The supervisor of one machine as engine.

engine.py  the engine: a worker's connection to the supervisor
wire.py    what the two say to each other
"""
