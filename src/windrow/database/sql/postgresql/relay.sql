-- name: enter
-- Enter a relay under its name, unless it is there.
INSERT INTO {relay} (name, shards) VALUES ({name}, {shards}) ON CONFLICT (name) DO NOTHING

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
SET epoch = %(epoch)s, heir = NULL, ready = '{{}}', membership = %(membership)s, leader = %(leader)s
WHERE name = %(name)s
  AND (%(term)s::bigint IS NULL OR (term = %(term)s AND held_until > clock_timestamp()))
RETURNING shards, wanted_shards

-- name: name_heir
-- Let the tasks of an heir come up, to relieve those of this epoch, which itself was an heir or the first.
UPDATE {relay}
SET epoch = %(epoch)s, heir = %(heir)s, ready = '{{}}'
WHERE name = %(name)s AND %(epoch)s IN (epoch, heir)

-- name: make_ready
-- The heir's task of this shard can take over: from now on it may run, and the one before it ends.
UPDATE {relay}
SET ready = array_append(ready, %(shard)s::integer)
WHERE name = %(name)s AND heir = %(epoch)s AND %(shard)s <> ALL (ready)

-- name: renew_membership
-- Give the tasks of this term the group's new generation, unless a later one has begun.
UPDATE {relay} SET membership = %(membership)s WHERE name = %(name)s AND leader = %(leader)s

-- name: close_epochs
-- End the tasks of this term, unless a later one has begun.
UPDATE {relay}
SET epoch = NULL, heir = NULL, ready = '{{}}', leader = NULL
WHERE name = %(name)s AND leader = %(leader)s

-- name: control
-- The epoch whose task of this shard may run, and the number of the latest released dead letter.
SELECT CASE WHEN %(shard)s = ANY (ready) THEN heir ELSE epoch END, release FROM {relay} WHERE name = %(relay)s

-- name: sit_down
-- Take the shard's seat, unless another task still has it.
SELECT pg_try_advisory_lock(hashtextextended(name || '/' || %(shard)s::text, tableoid::bigint))
FROM {relay}
WHERE name = %(name)s

-- name: patience
-- Wait so long for a lock, in this transaction.
SET LOCAL lock_timeout = '10s'

-- name: wait_for_seat
-- Take the shard's seat once the task that has it gets up, or at most as long as lock_timeout says.
SELECT pg_advisory_lock(hashtextextended(name || '/' || %(shard)s::text, tableoid::bigint))
FROM {relay}
WHERE name = %(name)s

-- name: turn
-- Before a shard opens: the epoch whose task may run, its heir, their membership, and the shard's saved position.
SELECT CASE WHEN %(shard)s = ANY (ready) THEN heir ELSE epoch END, heir, membership, published, position, released,
       resharded
FROM {relay}
LEFT JOIN {position} ON relay = name AND shard = %(shard)s
WHERE name = %(name)s

-- name: saved
-- What was last saved of each shard.
SELECT shard, published, position, released, resharded FROM {position} WHERE relay = %(name)s

-- name: save_position
-- Keep a shard's position in the database, too; not of a shard that there is no more.
INSERT INTO {position} (relay, shard, published, position, released, resharded)
SELECT name, %(shard)s, %(published)s, %(position)s, %(released)s, %(resharded)s
FROM {relay}
WHERE name = %(name)s AND shards > %(shard)s
FOR SHARE
ON CONFLICT (relay, shard) DO UPDATE
SET published = excluded.published, position = excluded.position, released = excluded.released,
    resharded = excluded.resharded, saved_at = now()
WHERE ({position}.resharded, {position}.published) <= (excluded.resharded, excluded.published)

-- name: tell_in_flight
-- Note what a shard has in flight now.
INSERT INTO {in_flight} (relay, shard, records, keys)
VALUES (%(name)s, %(shard)s, %(records)s, %(keys)s)
ON CONFLICT (relay, shard) DO UPDATE
SET records = excluded.records, keys = excluded.keys, told_at = now()

-- name: shard_figures
-- A shard's figures, for whoever is going to add to them.
SELECT figures FROM {in_flight} WHERE relay = %(name)s AND shard = %(shard)s FOR UPDATE

-- name: tell_figures
-- Note a shard's figures.
UPDATE {in_flight} SET figures = %(figures)s WHERE relay = %(name)s AND shard = %(shard)s

-- name: in_flight
-- What each shard has in flight, of those that told it lately.
SELECT shard, records, keys FROM {in_flight} WHERE relay = %(name)s AND told_at > now() - %(lately)s
-- name: want_shards
-- Have the number of shards changed with the next epoch, which begins at once; unless it is that already.
UPDATE {relay}
SET wanted_shards = nullif(%(wanted)s, shards),
    epoch = CASE WHEN shards = %(wanted)s THEN epoch END,
    heir = CASE WHEN shards = %(wanted)s THEN heir END,
    ready = CASE WHEN shards = %(wanted)s THEN ready ELSE '{{}}' END
WHERE name = %(name)s
RETURNING shards

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

-- name: now
-- Which database cluster this is, and which transactions are visible in it. With what is written here they are on disk,
-- those that rolled back as well: their numbers are not given again.
WITH written AS (UPDATE {relay} SET name = name WHERE name = %(name)s RETURNING name)
SELECT system_identifier::text, pg_current_snapshot()::text FROM pg_control_system(), written
