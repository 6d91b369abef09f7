-- name: bury
-- Copy rows of the outbox to the dead letters; one that is there already stays as it is.
INSERT INTO {dead_letter} (relay, id, create_time, topic, key, value, header_keys, header_values, partition, timestamp,
                           reason)
SELECT %(relay)s, {id}, {create_time}, {topic}, {key}, {value}, {header_keys}, {header_values}, {partition},
       {timestamp}, %(reason)s
FROM {outbox}
WHERE {id} = ANY (%(ids)s)
ON CONFLICT (relay, id) DO NOTHING

-- name: list
-- The dead letters of a relay, oldest first.
SELECT id, topic, key, octet_length(value), reason, create_time, refused_at
FROM {dead_letter}
WHERE relay = %(relay)s
ORDER BY id
LIMIT %(limit)s

-- name: show
-- One dead letter, whole.
SELECT id, topic, key, value, header_keys, header_values, partition, timestamp, reason, create_time, refused_at
FROM {dead_letter}
WHERE relay = %(relay)s AND id = %(id)s

-- name: retry
-- Write dead letters to the outbox anew, in their order; there they get new ids.
WITH taken AS (
  DELETE FROM {dead_letter} WHERE relay = %(relay)s AND (%(ids)s::bigint[] IS NULL OR id = ANY (%(ids)s)) RETURNING *
)
INSERT INTO {outbox} ({written})
SELECT {content} FROM taken ORDER BY id

-- name: discard
-- Forget dead letters.
DELETE FROM {dead_letter} WHERE relay = %(relay)s AND (%(ids)s::bigint[] IS NULL OR id = ANY (%(ids)s))
