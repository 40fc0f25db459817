"""Several workers on one machine: a process that owns the data folder and its journal, and runs the workers.

What the workers append in a turn of the supervisor's loop becomes durable as one entry of the journal, with one write and one
fdatasync. The data folder has the format that it has without workers.

    store.py         the logs, their claims, and appends until they are durable
    kept_log.py      one of these logs: claim, sequences, what is under way
    pages.py         the batches of a log in pieces, for a replay
    members.py       which workers live
    epochs.py        claims of a restarted supervisor have higher epochs than all before
    session.py       the connection of one worker
    ports.py         the bootstrap port that the workers share, and a port for each of them
    worker_start.py  what a worker process gets when it starts
    processes.py     starts the workers, again when they end, and stops them

server/kept_folder.py opens the folder, server/supervision.py runs all of this, server/local_worker.py is a worker, and front/
answers admin HTTP for all of them.
"""
