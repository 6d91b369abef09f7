-- name: relay
-- Who leads and how many shards there are.
SELECT shards, leader FROM {relay} WHERE name = %(name)s

-- name: backlog
-- How many rows of a shard wait to be published, and for how long the oldest of them has.
SELECT count(*), extract(epoch FROM now() - min({create_time}))::float
FROM ({rows}) AS rows
WHERE ({ahead}) AND {mine}
