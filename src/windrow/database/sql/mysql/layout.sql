-- name: columns
-- The columns of a table and their types, in their order; no row where it is not there.
SELECT column_name, data_type
FROM information_schema.columns
WHERE table_schema = coalesce(%(schema)s, database()) AND table_name = %(name)s
ORDER BY ordinal_position

-- name: indexes
-- The indexes of a table: the first column of each; all are over all rows.
SELECT column_name, ''
FROM information_schema.statistics
WHERE table_schema = coalesce(%(schema)s, database()) AND table_name = %(name)s AND seq_in_index = 1
