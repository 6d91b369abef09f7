-- name: bury
-- Copy rows of the outbox to the dead letters, refused or behind a refused one; one that is there stays as it is.
INSERT INTO {dead_letter} (relay, id, create_time, topic, key, value, header_keys, header_values, partition, timestamp,
                           reason, behind)
SELECT %(relay)s, {id}, {create_time}, {topic}, {key}, {value}, {header_keys}, {header_values}, {partition},
       {timestamp}, coalesce('waits behind id ' || aside.behind, %(reason)s), aside.behind
FROM {outbox}
JOIN (
  SELECT (letter ->> 0)::bigint AS letter, (letter ->> 1)::bigint AS behind
  FROM jsonb_array_elements(%(letters)s::jsonb) AS each (letter)
) AS aside ON aside.letter = {id}
ON CONFLICT (relay, id) DO NOTHING

-- name: list
-- The dead letters of a relay, oldest first.
SELECT id, topic, key, octet_length(value), reason, create_time, refused_at, behind, release
FROM {dead_letter}
WHERE relay = %(relay)s
ORDER BY id
LIMIT %(limit)s

-- name: show
-- One dead letter, whole.
SELECT id, topic, key, value, header_keys, header_values, partition, timestamp, reason, create_time, refused_at,
       behind, release
FROM {dead_letter}
WHERE relay = %(relay)s AND id = %(id)s

-- name: lock
-- One at a time numbers, adds or takes back a relay's dead letters, until the transaction ends; the latest number.
SELECT release FROM {relay} WHERE name = %(relay)s FOR UPDATE

-- name: release
-- Number dead letters after the latest number, in the order of their ids, for the shards to publish.
WITH chosen AS (
  SELECT id AS letter, row_number() OVER (ORDER BY id) AS place
  FROM {dead_letter}
  WHERE relay = %(relay)s AND release IS NULL AND (%(everything)s OR id = ANY (%(ids)s::bigint[]))
)
UPDATE {dead_letter} SET release = %(latest)s + place FROM chosen WHERE relay = %(relay)s AND id = letter

-- name: advance
-- The latest number, which the shards go by.
UPDATE {relay} SET release = %(latest)s WHERE name = %(relay)s

-- name: discard
-- Forget dead letters, except those that were released.
DELETE FROM {dead_letter}
WHERE relay = %(relay)s AND release IS NULL AND (%(everything)s OR id = ANY (%(ids)s::bigint[]))

-- name: any
-- Whether a relay has dead letters.
SELECT EXISTS (SELECT FROM {dead_letter} WHERE relay = %(relay)s)

-- name: forget_published
-- Forget the letters of a shard that are published: those up to the number that Kafka has committed.
DELETE FROM {dead_letter} WHERE relay = %(relay)s AND release <= %(released)s AND {mine}

-- name: forget
-- Forget these letters, which were released and have arrived.
DELETE FROM {dead_letter} WHERE relay = %(relay)s AND id = ANY (%(ids)s) AND release IS NOT NULL

-- name: forget_ahead
-- Forget the letters of a shard whose rows lie ahead of its position: they will be captured again.
DELETE FROM {dead_letter} AS letter
WHERE relay = %(relay)s AND {mine} AND (SELECT {ahead} FROM {outbox} WHERE {id} = letter.id)

-- name: blocked
-- The keys of a shard that have dead letters, and the first of each.
SELECT topic, key, min(id) FROM {dead_letter} WHERE relay = %(relay)s AND key IS NOT NULL AND {mine} GROUP BY topic, key

-- name: gather
-- Of each key of a shard with a released letter, or with one whose refused one was discarded: number all letters anew.
WITH keys AS (
  SELECT DISTINCT topic, key
  FROM {dead_letter} AS letter
  WHERE relay = %(relay)s AND key IS NOT NULL AND {mine} AND (
    release IS NOT NULL
    OR behind IS NOT NULL
       AND NOT EXISTS (SELECT FROM {dead_letter} AS refused WHERE refused.relay = letter.relay AND refused.id = letter.behind)
  )
), queued AS (
  SELECT id AS letter, row_number() OVER (ORDER BY id) AS place
  FROM {dead_letter}
  JOIN keys USING (topic, key)
  WHERE relay = %(relay)s
)
UPDATE {dead_letter} SET release = %(latest)s + place FROM queued WHERE relay = %(relay)s AND id = letter

-- name: released
-- The next released letters of a shard in the order of their numbers, bounded by number and by size (one at least).
SELECT release, id, topic, key, value, header_keys, header_values, partition,
       CASE WHEN isfinite(timestamp) THEN (extract(epoch FROM timestamp) * 1000)::bigint END,
       CASE WHEN isfinite(create_time) THEN (extract(epoch FROM create_time) * 1000000)::bigint END
FROM (
  SELECT *, sum(size) OVER (ORDER BY release ROWS UNBOUNDED PRECEDING) - size AS before
  FROM (
    SELECT *, coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0) + pg_column_size(header_values) AS size
    FROM {dead_letter}
    WHERE relay = %(relay)s AND release > %(after)s AND release <= %(upto)s AND {mine}
    ORDER BY release
    LIMIT %(records)s
  ) AS next
) AS summed
WHERE before < %(bytes)s
ORDER BY release

-- name: write_back
-- Write the released letters of a shard to the outbox anew, in the order of their numbers; there they get new ids.
WITH taken AS (
  DELETE FROM {dead_letter} WHERE relay = %(relay)s AND release IS NOT NULL AND {mine} RETURNING *
)
INSERT INTO {outbox} ({written}) SELECT {content} FROM taken ORDER BY release

-- name: put_back
-- Released letters that were refused again: dead letters as before, with the new reason.
UPDATE {dead_letter} SET release = NULL, behind = NULL, reason = %(reason)s, refused_at = now()
WHERE relay = %(relay)s AND id = ANY (%(ids)s)

-- name: hold_back
-- Have the later letters of the same keys wait behind those that were refused again.
UPDATE {dead_letter} AS later
SET release = NULL, behind = refused.id, reason = 'waits behind id ' || refused.id
FROM {dead_letter} AS refused
WHERE refused.relay = %(relay)s AND refused.id = ANY (%(ids)s)
  AND later.relay = refused.relay AND later.topic = refused.topic AND later.key = refused.key AND later.id > refused.id
