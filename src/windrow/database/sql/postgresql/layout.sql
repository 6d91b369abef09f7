-- name: columns
-- The columns of a table and their types; no row where it is not there.
SELECT attname, format_type(atttypid, NULL)
FROM pg_attribute
WHERE attrelid = to_regclass(%(table)s) AND attnum > 0 AND NOT attisdropped

-- name: indexes
-- The indexes of a table: the first column of each, and which rows it is over where not all.
SELECT attname, coalesce(pg_get_expr(indpred, indrelid), '')
FROM pg_index
JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
WHERE indrelid = to_regclass(%(table)s) AND indisvalid
