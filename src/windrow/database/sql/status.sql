-- name: relay
-- Who leads and how many shards there are.
SELECT shards, leader FROM {relay} WHERE name = %(name)s

-- name: backlog
-- How many rows of a shard wait to be published, and for how long the oldest of them has.
SELECT count(*), extract(epoch FROM now() - min({create_time}))::float
FROM (
  SELECT * FROM {outbox} WHERE tx >= pg_snapshot_xmax(%(lo)s::pg_snapshot)
  UNION ALL
  SELECT * FROM {outbox} WHERE tx = ANY (ARRAY(SELECT pg_snapshot_xip(%(lo)s::pg_snapshot)))
) AS unseen
WHERE NOT (pg_visible_in_snapshot(tx, %(hi)s::pg_snapshot) AND {id} <= %(after)s)
  AND {mine}
