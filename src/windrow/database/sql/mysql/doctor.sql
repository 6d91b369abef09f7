-- name: dead_letters
-- How many dead letters a relay has.
SELECT count(*) FROM {dead_letter} WHERE relay = %(relay)s
