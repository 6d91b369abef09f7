-- name: positions
-- Of every relay that reads this outbox: how many shards it has, and the positions that were saved of them.
SELECT name, shards, array_remove(array_agg(position), NULL)
FROM {relay}
LEFT JOIN {position} ON relay = name
GROUP BY name, shards

-- name: delete
-- Delete the oldest rows that every relay has published and that are past their retention, so many at most.
WITH oldest AS MATERIALIZED (
  SELECT ctid AS place, tx, create_time
  FROM {outbox}
  WHERE tx >= %(since)s::xid8 AND tx < pg_snapshot_xmax(%(published)s::pg_snapshot)
    AND pg_visible_in_snapshot(tx, %(published)s::pg_snapshot)
  ORDER BY tx
  LIMIT %(chunk)s
)
DELETE FROM {outbox}
WHERE ctid = ANY (ARRAY(SELECT place FROM oldest WHERE create_time <= now() - %(retention)s))
