-- name: note
-- Note messages as dispatched, unless that is noted.
UPDATE json_table(json_array%(ids)s, '$[*]' COLUMNS (chosen_id bigint PATH '$')) AS chosen
STRAIGHT_JOIN {outbox} ON {id} = chosen_id
SET {processed} = utc_timestamp(6)
WHERE {unprocessed}
