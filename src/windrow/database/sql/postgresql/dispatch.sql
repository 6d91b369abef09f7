-- name: note
-- Note messages as dispatched, unless that is noted.
UPDATE {outbox} SET {processed} = now() WHERE {id} = ANY (%(ids)s) AND {unprocessed}
