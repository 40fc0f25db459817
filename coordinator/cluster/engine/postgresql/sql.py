"""The SQL of the PostgreSQL engine, all of it.

Names are looked up in the schema of the cluster, which each connection has as its `search_path`.

The fence is the row of a log in `owner`. An append locks it FOR SHARE if it still has the claim's epoch; a claim updates it. So
a claim waits for appends that are under way, and every append behind it finds another epoch. Each statement is a transaction
of its own: between statements nothing is locked, so a worker that is paused blocks nobody. Appends, claims and releases lock
several rows of `owner`, in the order of the logs' names; every other statement locks one. So no two of them wait for each
other.

`piece` has the log and the sequence as its key, so that a piece cannot be there twice.
"""

SCHEMA_VERSION = 2

SCHEMA_EXISTS = "SELECT to_regnamespace($1) IS NOT NULL"
LOCK_SCHEMA = "SELECT pg_advisory_xact_lock(hashtextextended('coordinator engine ' || $1, 0))"
TABLES_EXIST = "SELECT to_regclass('schema_version') IS NOT NULL"
READ_VERSION = "SELECT version FROM schema_version"

# Pieces are compressed by Kafka's clients or not at all; PostgreSQL need not try.
CREATE_TABLES = f"""
CREATE TABLE owner (
    log text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL,
    worker_id text, node_id int, host text, port int, listeners text);
CREATE TABLE piece (
    log text COLLATE "C", sequence bigint, epoch bigint NOT NULL, data bytea NOT NULL,
    PRIMARY KEY (log, sequence));
ALTER TABLE piece ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE snapshot (
    log text COLLATE "C", id uuid, upto bigint NOT NULL, parts int NOT NULL,
    PRIMARY KEY (log, id));
CREATE TABLE snapshot_part (
    log text COLLATE "C", id uuid, part int, data bytea NOT NULL,
    PRIMARY KEY (log, id, part));
ALTER TABLE snapshot_part ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE worker (
    id text PRIMARY KEY, node_id int NOT NULL, host text NOT NULL, port int NOT NULL, listeners text NOT NULL,
    beat timestamptz NOT NULL);
CREATE TABLE schema_version (version int NOT NULL);
INSERT INTO schema_version VALUES ({SCHEMA_VERSION});
"""

# A promotion begins a new timeline, so an old primary that comes back is recognized by its lower one.
SERVER = """
SELECT current_setting('server_version_num')::int AS version,
       current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('synchronous_standby_names') AS synchronous_standby_names,
       ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline
"""

# What a write promises comes with its answer: a reload of the server's configuration changes it under an open connection.
_DURABILITY = "current_setting('synchronous_commit'), current_setting('synchronous_standby_names')"

CLAIM = f"""
WITH claimed AS (
    INSERT INTO owner (log, epoch, worker_id, node_id, host, port, listeners)
    SELECT log, 1, $3, $4, $5, $6, $7 FROM unnest($1::text[]) AS wanted (log) ORDER BY log COLLATE "C"
    ON CONFLICT (log) DO UPDATE
        SET epoch = owner.epoch + 1, worker_id = $3, node_id = $4, host = $5, port = $6, listeners = $7
        WHERE owner.epoch = coalesce(($2::bigint[])[array_position($1, owner.log)], owner.epoch)
    RETURNING log, epoch)
SELECT log, epoch, pg_notify($8, ''), {_DURABILITY} FROM claimed
"""
# A statement of its own: one that waited for a lock would still see the logs as they were before.
CLAIMED_LOGS = """
SELECT owner.log, epoch, greatest(covered, (SELECT max(sequence) + 1 FROM piece WHERE log = owner.log)), covered
FROM owner CROSS JOIN LATERAL (SELECT coalesce(max(upto), 0) AS covered FROM snapshot WHERE log = owner.log) AS extent
WHERE owner.log = ANY($1::text[])
"""
RELEASE = """
WITH sent AS (SELECT * FROM unnest($1::text[], $2::bigint[]) AS sent (log, epoch)),
held AS MATERIALIZED (
    SELECT owner.log FROM owner JOIN sent USING (log, epoch) ORDER BY owner.log FOR UPDATE OF owner),
released AS (
    UPDATE owner SET epoch = owner.epoch + 1, worker_id = NULL, node_id = NULL, host = NULL, port = NULL, listeners = NULL
    FROM held WHERE owner.log = held.log
    RETURNING owner.log)
SELECT pg_notify($3, '') FROM released
"""
OWNERS = "SELECT log, epoch, worker_id, node_id, host, port, listeners FROM owner"

APPEND = f"""
WITH sent AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[]) AS sent (log, epoch, sequence, data)),
held AS MATERIALIZED (
    SELECT owner.log, owner.epoch
    FROM owner JOIN (SELECT DISTINCT log, epoch FROM sent) AS claimed USING (log, epoch)
    ORDER BY owner.log
    FOR SHARE OF owner)
INSERT INTO piece (log, sequence, epoch, data)
SELECT sent.log, sent.sequence, sent.epoch, sent.data FROM sent JOIN held USING (log, epoch)
ON CONFLICT DO NOTHING
RETURNING log, {_DURABILITY}
"""

# Sequences have no gaps, so a page is a range of them. With a LIMIT instead, PostgreSQL may read and sort all that is behind.
PIECES = """
SELECT sequence, data
FROM (SELECT sequence, data, sum(octet_length(data)) OVER (ORDER BY sequence) - octet_length(data) AS bytes_before
      FROM piece
      WHERE log = $1 AND sequence >= $2::bigint AND sequence < least($3::bigint, $2::bigint + $4::bigint)) AS page
WHERE bytes_before < $5
ORDER BY sequence
"""
TAIL = "SELECT sequence, data FROM piece WHERE log = $1 AND sequence >= $2 ORDER BY sequence"
NEWEST_SNAPSHOT = "SELECT id, parts FROM snapshot WHERE log = $1 AND upto = $2 LIMIT 1"
PARTS = """
SELECT part AS sequence, data
FROM (SELECT part, data, sum(octet_length(data)) OVER (ORDER BY part) - octet_length(data) AS bytes_before
      FROM snapshot_part
      WHERE log = $1 AND id = $6 AND part >= $2::int AND part < least($3::int, $2::int + $4::int)) AS page
WHERE bytes_before < $5
ORDER BY part
"""

_HELD = "held AS MATERIALIZED (SELECT log FROM owner WHERE log = $1 AND epoch = $2 FOR SHARE)"
NEW_ID = "SELECT gen_random_uuid()"
ADD_PART = f"""
WITH {_HELD} INSERT INTO snapshot_part (log, id, part, data) SELECT log, $3, $4, $5 FROM held RETURNING {_DURABILITY}
"""
COMPLETE_SNAPSHOT = f"""
WITH {_HELD} INSERT INTO snapshot (log, id, upto, parts) SELECT log, $3, $4, $5 FROM held RETURNING {_DURABILITY}
"""
REMOVE_OTHER_SNAPSHOTS = f"""
WITH {_HELD},
heads AS (DELETE FROM snapshot USING held WHERE snapshot.log = held.log AND id <> $3),
parts AS (DELETE FROM snapshot_part USING held WHERE snapshot_part.log = held.log AND id <> $3)
SELECT {_DURABILITY} FROM held
"""
FIRST_PIECE = "SELECT min(sequence) AS sequence FROM piece WHERE log = $1"
REMOVE_PIECES = f"""
WITH {_HELD},
removed AS (DELETE FROM piece USING held WHERE piece.log = held.log AND sequence < $3)
SELECT {_DURABILITY} FROM held
"""

# A row for each other worker that lives, or one: the next one to die, unless it beats before, comes first.
BEAT = """
WITH before AS (
    SELECT FROM worker
    WHERE (id, node_id, host, port, listeners) = ($1, $2, $3, $4, $5)
        AND beat > clock_timestamp() - $7 * interval '1 millisecond'),
beaten AS (
    INSERT INTO worker (id, node_id, host, port, listeners, beat) VALUES ($1, $2, $3, $4, $5, clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET node_id = $2, host = $3, port = $4, listeners = $5, beat = clock_timestamp())
SELECT id, node_id, host, port, listeners, epochs,
       $7 - 1000 * extract(epoch FROM clock_timestamp() - beat)::float8 AS death_ms,
       (SELECT pg_notify($6, '') WHERE NOT EXISTS (SELECT FROM before))
FROM (SELECT coalesce(sum(epoch), 0)::bigint AS epochs FROM owner) AS owners
LEFT JOIN worker ON id <> $1 AND beat > clock_timestamp() - $7 * interval '1 millisecond'
ORDER BY beat
"""
LEAVE = """
WITH gone AS (DELETE FROM worker WHERE id = $1 OR beat < clock_timestamp() - interval '1 day' RETURNING id)
SELECT pg_notify($2, '') FROM gone
"""
WORKERS = """
SELECT id, node_id, host, port, listeners FROM worker
WHERE beat > clock_timestamp() - $1 * interval '1 millisecond'
ORDER BY node_id, id
"""
