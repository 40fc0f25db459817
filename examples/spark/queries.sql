-- Questions about the tables of `coordinator pipeline tables --log data --out tables`, in Spark's SQL.
-- The notebook beside this file shows how to make the views. For DuckDB write "group" instead of `group` (and so on), and for each table:
--   CREATE VIEW rebalances AS SELECT * FROM 'tables/rebalances/**/*.parquet'

-- Which groups rebalance most, how long that takes, and how much of it a setting causes?
SELECT `group`, count(*) AS rebalances, sum(duration_ms) AS total_ms, max(duration_ms) AS longest_ms, sum(delay_ms) AS delay_ms
FROM rebalances
GROUP BY `group`
ORDER BY rebalances DESC, `group`;

-- For whom do they wait?
SELECT r.`group`, m.client_id, m.client_host, count(*) AS waits, sum(r.slowest_ms) AS waited_ms
FROM rebalances r
JOIN (SELECT DISTINCT log_id, shard, `group`, member_id, client_id, client_host FROM member_intervals) m
  ON m.log_id = r.log_id AND m.shard = r.shard AND m.`group` = r.`group` AND m.member_id = r.slowest_member_id
GROUP BY r.`group`, m.client_id, m.client_host
ORDER BY waited_ms DESC, r.`group`, m.client_id;

-- How long did each partition have no owner?
SELECT `group`, topic, `partition`, sum(from_ms - before_ms) AS unowned_ms
FROM (
  SELECT `group`, coalesce(topic, topic_key) AS topic, `partition`, from_ms,
         max(to_ms) OVER (PARTITION BY log_id, shard, `group`, topic_key, `partition` ORDER BY from_offset
                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ms
  FROM ownership_intervals
) AS owned
WHERE from_ms > before_ms
GROUP BY `group`, topic, `partition`
ORDER BY unowned_ms DESC, `group`, topic, `partition`;

-- Which accepted commits came from zombies, and which policy would have refused them?
SELECT `group`, client_id, member_id, truth, coalesce(topic, topic_key) AS topic, `partition`, committed_offset,
       NOT strict_accepts AS strict_refuses, NOT assignment_epoch_accepts AS assignment_epoch_refuses
FROM commit_verdicts
WHERE outcome = 'accepted' AND truth IN ('lost', 'ahead', 'not a member')
ORDER BY `group`, `offset`;

-- What would each fencing policy cost?
SELECT replayed, sum(requests) AS requests, sum(refused_rightly) AS rightly, sum(refused_wrongly) AS wrongly,
       sum(accepted_zombies) AS accepted_zombies
FROM policy_replay
GROUP BY replayed
ORDER BY replayed;

-- Who had the partition when an offset was committed?
SELECT v.`group`, v.topic, v.`partition`, v.committed_offset, v.member_id AS committed_by, o.member_id AS owned_by
FROM commit_verdicts v
LEFT JOIN ownership_intervals o
  ON o.log_id = v.log_id AND o.shard = v.shard AND o.`group` = v.`group` AND o.topic_key = v.topic_key
 AND o.`partition` = v.`partition` AND o.from_offset < v.state_offset AND (o.to_offset IS NULL OR o.to_offset >= v.state_offset)
ORDER BY v.shard, v.`offset`
LIMIT 100;

-- Which partitions are furthest behind?
SELECT `group`, topic, `partition`, committed_offset, end_offset, lag, time_ms
FROM lag
ORDER BY lag DESC NULLS LAST, `group`, topic, `partition`
LIMIT 20;
