-- name: enter
-- Enter a relay under its name, unless it is there.
INSERT IGNORE INTO {relay} (name, shards) VALUES ({name}, {shards})

-- name: others
-- The other relays of an outbox.
SELECT name FROM {relay} WHERE name <> %(name)s ORDER BY name

-- name: shards
-- How many shards a relay has; no row where it was never initialised.
SELECT shards FROM {relay} WHERE name = %(name)s

-- name: open_epoch
-- From now on the tasks of this epoch may run, and those of any other end; how many shards they have and are to have.
-- Refused to a leader by lease whose term is over.
UPDATE {relay}
SET epoch = %(epoch)s, heir = NULL, ready = '', membership = %(membership)s, leader = %(leader)s
WHERE name = %(name)s AND (%(term)s IS NULL OR (term = %(term)s AND held_until > utc_timestamp(6)));
SELECT shards, wanted_shards FROM {relay} WHERE name = %(name)s AND epoch = %(epoch)s

-- name: name_heir
-- Let the tasks of an heir come up, to relieve those of this epoch, which itself was an heir or the first.
UPDATE {relay}
SET epoch = %(epoch)s, heir = %(heir)s, ready = ''
WHERE name = %(name)s AND %(epoch)s IN (epoch, heir)

-- name: make_ready
-- The heir's task of this shard can take over: from now on it may run, and the one before it ends.
UPDATE {relay}
SET ready = concat(ready, ',', %(shard)s)
WHERE name = %(name)s AND heir = %(epoch)s AND NOT find_in_set(%(shard)s, ready)

-- name: renew_membership
-- Give the tasks of this term the group's new generation, unless a later one has begun.
UPDATE {relay} SET membership = %(membership)s WHERE name = %(name)s AND leader = %(leader)s

-- name: close_epochs
-- End the tasks of this term, unless a later one has begun.
UPDATE {relay}
SET epoch = NULL, heir = NULL, ready = '', leader = NULL
WHERE name = %(name)s AND leader = %(leader)s

-- name: sit_down
-- Take the shard's seat, unless another task still has it.
SELECT get_lock(sha2(concat(database(), {label}, '/', %(name)s, '/', %(shard)s), 224), 0)

-- name: patience
-- Wait so long for a lock.
SET SESSION innodb_lock_wait_timeout = 10

-- name: wait_for_seat
-- Take the shard's seat once the task that has it gets up, or give up after a while.
SELECT get_lock(sha2(concat(database(), {label}, '/', %(name)s, '/', %(shard)s), 224), 10)

-- name: turn
-- Before a shard opens: the epoch whose task may run, its heir, their membership, and the shard's saved position.
SELECT CASE WHEN find_in_set(%(shard)s, ready) THEN heir ELSE epoch END AS epoch, heir, membership, published,
       "position", released, resharded
FROM {relay}
LEFT JOIN {position} ON relay = name AND shard = %(shard)s
WHERE name = %(name)s

-- name: saved
-- What was last saved of each shard.
SELECT shard, published, "position", released, resharded FROM {position} WHERE relay = %(name)s

-- name: save_position
-- Keep a shard's position in the database, too; not of a shard that there is no more.
INSERT INTO {position} (relay, shard, published, "position", released, resharded)
SELECT name, %(shard)s, %(published)s, %(position)s, %(released)s, %(resharded)s
FROM {relay}
WHERE name = %(name)s AND shards > %(shard)s
ON DUPLICATE KEY UPDATE
  "position" = if(({position}.resharded, {position}.published) <= (%(resharded)s, %(published)s),
                  %(position)s, {position}."position"),
  released = if(({position}.resharded, {position}.published) <= (%(resharded)s, %(published)s),
                %(released)s, {position}.released),
  saved_at = if(({position}.resharded, {position}.published) <= (%(resharded)s, %(published)s),
                utc_timestamp(6), {position}.saved_at),
  published = if(({position}.resharded, {position}.published) <= (%(resharded)s, %(published)s),
                 %(published)s, {position}.published),
  resharded = greatest({position}.resharded, %(resharded)s)

-- name: tell_in_flight
-- Note what a shard has in flight now.
INSERT INTO {in_flight} (relay, shard, "records", "keys")
VALUES (%(name)s, %(shard)s, %(records)s, %(keys)s)
ON DUPLICATE KEY UPDATE "records" = %(records)s, "keys" = %(keys)s, told_at = utc_timestamp(6)

-- name: shard_figures
-- A shard's figures, for whoever is going to add to them.
SELECT figures FROM {in_flight} WHERE relay = %(name)s AND shard = %(shard)s FOR UPDATE

-- name: tell_figures
-- Note a shard's figures.
UPDATE {in_flight} SET figures = %(figures)s WHERE relay = %(name)s AND shard = %(shard)s

-- name: in_flight
-- What each shard has in flight, of those that told it lately.
SELECT shard, "records", "keys"
FROM {in_flight}
WHERE relay = %(name)s AND told_at > utc_timestamp(6) - INTERVAL %(lately)s MICROSECOND

-- name: want_shards
-- Have the number of shards changed with the next epoch, which begins at once; unless it is that already.
UPDATE {relay}
SET wanted_shards = nullif(%(wanted)s, shards),
    epoch = CASE WHEN shards = %(wanted)s THEN epoch END,
    heir = CASE WHEN shards = %(wanted)s THEN heir END,
    ready = CASE WHEN shards = %(wanted)s THEN ready ELSE '' END
WHERE name = %(name)s;
SELECT shards FROM {relay} WHERE name = %(name)s

-- name: epoch
-- The epoch whose tasks may run; NULL where it was ended and no other has begun.
SELECT epoch FROM {relay} WHERE name = %(name)s

-- name: switch_shards
-- The relay has the wanted number of shards from now on, unless another epoch has begun or another number is wanted.
UPDATE {relay}
SET shards = wanted_shards, wanted_shards = NULL
WHERE name = %(name)s AND epoch = %(epoch)s AND wanted_shards = %(wanted)s

-- name: forget_positions
-- Forget the saved positions of all shards.
DELETE FROM {position} WHERE relay = %(name)s
