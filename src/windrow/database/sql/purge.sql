-- name: positions
-- Of every relay that reads this outbox: how many shards it has, and the positions that were saved of them in this
-- cluster; those of another one would be read wrong.
SELECT name, shards, coalesce(array_agg(position) FILTER (WHERE position::json ->> 'db' = (
  SELECT system_identifier::text FROM pg_control_system())), '{{}}')
FROM {relay}
LEFT JOIN {position} ON relay = name
GROUP BY name, shards

-- name: delete
-- Delete the oldest rows that every relay has published and that are past their retention, so many at most.
WITH oldest AS MATERIALIZED (
  SELECT ctid AS place, tx, {create_time} AS create_time
  FROM {outbox}
  WHERE tx >= %(since)s::xid8 AND tx < pg_snapshot_xmax(%(published)s::pg_snapshot)
    AND pg_visible_in_snapshot(tx, %(published)s::pg_snapshot)
    AND pg_snapshot_xmax(%(published)s::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
  ORDER BY tx
  LIMIT %(chunk)s
)
DELETE FROM {outbox}
WHERE ctid = ANY (ARRAY(SELECT place FROM oldest WHERE create_time <= now() - %(retention)s))
