-- name: relay
-- How many shards there are and who leads; nobody, where the lease of the one who did has expired.
SELECT shards, CASE WHEN NOT %(by_lease)s OR held_until > clock_timestamp() THEN leader END
FROM {relay}
WHERE name = %(name)s

-- name: figures
-- How many shards there are and who leads, as above, and how many dead letters the relay keeps; with each shard, what it
-- last told, and how long ago.
SELECT shards, CASE WHEN NOT %(by_lease)s OR held_until > clock_timestamp() THEN leader END,
       (SELECT count(*) FROM {dead_letter} WHERE relay = %(name)s), shard, records, keys,
       extract(epoch FROM clock_timestamp() - told_at)::float, figures
FROM {relay}
LEFT JOIN {in_flight} ON relay = name AND shard < shards
WHERE name = %(name)s

-- name: backlog
-- How many rows of a shard wait to be published, and for how long the oldest of them has.
SELECT count(*), extract(epoch FROM now() - min({create_time}))::float
FROM ({rows}) AS rows
WHERE ({ahead}) AND {mine}
