-- name: columns
-- The columns of a table; no row where it is not there.
SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%(table)s) AND attnum > 0 AND NOT attisdropped
