-- name: bury_whole
-- Make a message that was read from the log a dead letter, with its place there; one that is there stays as it is.
INSERT INTO {dead_letter} (relay, id, create_time, topic, key, value, header_keys, header_values, partition, timestamp,
                           reason, behind, log_place)
VALUES (%(relay)s, %(id)s, coalesce((SELECT create_time FROM {outbox} WHERE id = %(id)s), now()), left(%(topic)s, 249),
        %(key)s, %(value)s, %(header_keys)s::text[], %(header_values)s::bytea[], %(partition)s::integer,
        to_timestamp(%(timestamp)s::bigint / 1000.0), coalesce('waits behind id ' || %(behind)s::bigint, %(reason)s),
        %(behind)s, %(place)s)
ON CONFLICT (relay, id) DO NOTHING

-- name: places
-- The places in the log of letters that were read there.
SELECT id, log_place FROM {dead_letter} WHERE relay = %(relay)s AND log_place IS NOT NULL

-- name: take_back
-- Forget letters whose messages will be read again.
DELETE FROM {dead_letter} WHERE relay = %(relay)s AND id = ANY (%(ids)s)
