-- name: enter
-- Enter a relay under its name, unless it is there.
INSERT INTO {relay} (name, shards) VALUES ({name}, {shards}) ON CONFLICT (name) DO NOTHING

-- name: shards
-- How many shards a relay has; no row where it was never initialised.
SELECT shards FROM {relay} WHERE name = %(name)s

-- name: open_epoch
-- From now on the tasks of this epoch may run, and those of any other end; how many shards they have and are to have.
UPDATE {relay} SET epoch = %(epoch)s, membership = %(membership)s, leader = %(leader)s WHERE name = %(name)s
RETURNING shards, wanted_shards

-- name: renew_epoch
-- Give the tasks of this epoch the group's new generation, unless a later epoch has begun.
UPDATE {relay} SET membership = %(membership)s WHERE name = %(name)s AND epoch = %(epoch)s

-- name: close_epoch
-- End the tasks of this epoch, unless a later one has begun.
UPDATE {relay} SET epoch = NULL, leader = NULL WHERE name = %(name)s AND epoch = %(epoch)s

-- name: control
-- The epoch whose tasks may run, and the number of the latest released dead letter.
SELECT epoch, release FROM {relay} WHERE name = %(name)s

-- name: turn
-- Before a shard opens: the epoch whose tasks may run, their membership, and the shard's saved position.
SELECT epoch, membership, published, position, released
FROM {relay}
LEFT JOIN {position} ON relay = name AND shard = %(shard)s
WHERE name = %(name)s

-- name: save_position
-- Keep a shard's position in the database, too; not of a shard that there is no more.
INSERT INTO {position} (relay, shard, published, position, released)
SELECT name, %(shard)s, %(published)s, %(position)s, %(released)s
FROM {relay}
WHERE name = %(name)s AND shards > %(shard)s
FOR SHARE
ON CONFLICT (relay, shard) DO UPDATE
SET published = excluded.published, position = excluded.position, released = excluded.released, saved_at = now()
WHERE {position}.published <= excluded.published

-- name: want_shards
-- Have the number of shards changed with the next epoch, which begins at once; unless it is that already.
UPDATE {relay}
SET wanted_shards = nullif(%(wanted)s, shards), epoch = CASE WHEN shards = %(wanted)s THEN epoch END
WHERE name = %(name)s
RETURNING shards

-- name: ended
-- Whether the epoch was ended and no other has begun.
SELECT epoch IS NULL FROM {relay} WHERE name = %(name)s

-- name: switch_shards
-- The relay has the wanted number of shards from now on, unless another epoch has begun or another number is wanted.
UPDATE {relay}
SET shards = wanted_shards, wanted_shards = NULL
WHERE name = %(name)s AND epoch = %(epoch)s AND wanted_shards = %(wanted)s

-- name: forget_positions
-- Forget the saved positions of all shards.
DELETE FROM {position} WHERE relay = %(name)s

-- name: now
-- Which database cluster this is, and which transactions are visible in it.
SELECT system_identifier::text, pg_current_snapshot()::text FROM pg_control_system()
