-- name: relay
-- Who leads and how many shards there are.
SELECT shards, leader FROM {relay} WHERE name = %(name)s

-- name: backlog
-- How many rows of a shard wait to be published, and for how long the oldest of them has.
SELECT count(*), extract(epoch FROM now() - min({create_time}))::float
FROM ({unseen}) AS unseen
WHERE NOT (pg_visible_in_snapshot(tx, %(hi)s::pg_snapshot) AND {id} <= %(after)s)
  AND {mine}
