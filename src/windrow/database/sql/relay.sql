-- name: enter
-- Enter a relay under its name, unless it is there.
INSERT INTO {relay} (name, shards) VALUES ({name}, {shards}) ON CONFLICT (name) DO NOTHING

-- name: shards
-- How many shards a relay has; no row where it was never initialised.
SELECT shards FROM {relay} WHERE name = %(name)s

-- name: open_epoch
-- From now on the tasks of this epoch may run, and those of any other end.
UPDATE {relay} SET epoch = %(epoch)s, membership = %(membership)s, leader = %(leader)s WHERE name = %(name)s

-- name: renew_epoch
-- Give the tasks of this epoch the group's new generation, unless a later epoch has begun.
UPDATE {relay} SET membership = %(membership)s WHERE name = %(name)s AND epoch = %(epoch)s

-- name: close_epoch
-- End the tasks of this epoch, unless a later one has begun.
UPDATE {relay} SET epoch = NULL, leader = NULL WHERE name = %(name)s AND epoch = %(epoch)s

-- name: current_epoch
-- The epoch whose tasks may run.
SELECT epoch FROM {relay} WHERE name = %(name)s

-- name: turn
-- Before a shard opens: the epoch whose tasks may run, their membership, and the shard's saved position.
SELECT epoch, membership, published, position
FROM {relay}
LEFT JOIN {position} ON relay = name AND shard = %(shard)s
WHERE name = %(name)s

-- name: saved_positions
-- What was saved of each shard.
SELECT shard, published, position FROM {position} WHERE relay = %(name)s

-- name: save_position
-- Keep a shard's position in the database, too.
INSERT INTO {position} (relay, shard, published, position)
VALUES (%(name)s, %(shard)s, %(published)s, %(position)s)
ON CONFLICT (relay, shard) DO UPDATE
SET published = excluded.published, position = excluded.position, saved_at = now()
WHERE {position}.published <= excluded.published
