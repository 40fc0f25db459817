"""A Kafka-compatible cluster as engine.

engine.py      the engine, and why no client library is behind it
address.py     what the URL says
cluster.py     who leads what, and which connection is for which purpose
partitions.py  Fetch, ListOffsets, Produce, DeleteRecords
topics.py      makes and checks the topics
records.py     what is in a log's partition, and what of it counts
log.py         reads a log
appends.py     writes to logs by a claim
producers.py   the second lock, on Apache Kafka
snapshots.py   what stands for the beginning of a log
control.py     beats and owners
"""
