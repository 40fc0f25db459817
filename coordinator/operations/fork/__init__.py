"""`coordinator serve --from`: makes a data folder from the groups and offsets of another server, without its records.

    source      a folder of Kafka or of this server (folder_source.py), or a server (network_source.py)
    groups      one partition of `__consumer_offsets` at a time is replayed into a state, as a load does (groups_read.py)
    data folder the groups are written to the partitions that they have here, topics without their records (data_folder.py)

Nothing is written to the source. The folder is built under another name and renamed when it is complete (run.py).
"""


class ForkFailed(Exception):
    """The source cannot be read, or the data folder cannot be made. The text is one line for the user."""
