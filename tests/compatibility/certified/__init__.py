"""The programs that docs/certification.md is about: the obvious consumer and the obvious read-process-write program of each
client library, share consumers, and programs that are wrong on purpose.

Each reads the environment that `coordinator certify` gives it (docs/certify.md). A TOPIC that begins with ^ is a pattern. All
settings of the libraries but those that such a program must make are their defaults.
"""
