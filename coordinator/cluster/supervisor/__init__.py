"""Several workers on one machine: a process that owns the data folder and its journal, and runs the workers.

What the workers append in a turn of the supervisor's loop becomes durable as one entry of the journal, with one write and one
fdatasync. The data folder has the format that it has without workers.

    store.py              the logs, their claims, appends until they are durable, and which workers live
    kept_log.py           one of these logs: claim, sequences, what is under way, its batches for a replay
    worker_connection.py  the connection of one worker
    ports.py              the bootstrap port that the workers share, and a port for each of them
    processes.py          starts the workers, again when they end, and stops them
    kept_folder.py        opens the folder, and keeps it as a server without workers does
    local_worker.py       the process of a worker
    supervision.py        runs all of this

admin/workers/ answers admin HTTP for all of them.
"""
