-- name: session
-- Who we are, the clock, and which server this is.
SELECT current_user(), timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) / 1e6, version()

-- name: settings
-- The settings that a relay and its guarantees depend on.
SHOW VARIABLES
WHERE variable_name IN ('read_only', 'log_bin', 'binlog_format', 'wsrep_on', 'innodb_flush_log_at_trx_commit',
                        'sync_binlog')

-- name: holders
-- Connections whose transaction has kept what was deleted since in the table for long.
SELECT trx_mysql_thread_id, timestampdiff(SECOND, trx_started, now())
FROM information_schema.innodb_trx
WHERE trx_started < now() - INTERVAL %(long)s MICROSECOND

-- name: connections
-- How many connections there may be.
SELECT @@max_connections

-- name: connected
-- How many connections there are.
SHOW STATUS WHERE variable_name = 'Threads_connected'

-- name: try_select
-- Changes nothing.
SELECT 1 FROM {table} LIMIT 0

-- name: try_insert
-- Changes nothing.
EXPLAIN INSERT INTO {table} () VALUES ()

-- name: try_update
-- Changes nothing.
EXPLAIN UPDATE {table} SET {column} = {column} WHERE false

-- name: try_delete
-- Changes nothing.
EXPLAIN DELETE FROM {table} WHERE false

-- name: dead_letters
-- How many dead letters a relay has.
SELECT count(*) FROM {dead_letter} WHERE relay = %(relay)s
