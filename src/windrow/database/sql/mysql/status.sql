-- name: relay
-- How many shards there are and who leads; nobody, where the lease of the one who did has expired.
SELECT shards, CASE WHEN NOT %(by_lease)s OR held_until > utc_timestamp(6) THEN leader END AS leader
FROM {relay}
WHERE name = %(name)s

-- name: figures
-- How many shards there are and who leads, as above, and how many dead letters the relay keeps; with each shard, what it
-- last told, and how long ago.
SELECT shards, CASE WHEN NOT %(by_lease)s OR held_until > utc_timestamp(6) THEN leader END AS leader,
       (SELECT count(*) FROM {dead_letter} WHERE relay = %(name)s) AS letters, shard, "records", "keys",
       timestampdiff(MICROSECOND, told_at, utc_timestamp(6)) / 1e6, figures
FROM {relay}
LEFT JOIN {in_flight} ON relay = name AND shard < shards
WHERE name = %(name)s

-- name: backlog
-- How many rows of a shard wait to be published, and for how long the oldest of them has.
SELECT count(*), timestampdiff(MICROSECOND, min({create_time}), utc_timestamp(6)) / 1e6
FROM ({rows}) AS waiting
WHERE ({ahead}) AND {mine}
