-- name: settings
-- The settings that a relay's guarantees and its table's health depend on, as they hold for this session.
SELECT name, setting
FROM pg_settings
WHERE name IN ('synchronous_commit', 'fsync', 'autovacuum', 'track_counts')

-- name: session
-- Who we are, the clock, whether this is a replica, whether we may see other users' sessions, and the server process.
SELECT current_user::text, extract(epoch FROM clock_timestamp())::float, pg_is_in_recovery(),
       pg_has_role('pg_read_all_stats', 'USAGE'), pg_backend_pid()

-- name: connections
-- How many connections there may be for us, and how many there are besides the relay's own.
SELECT current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer,
       count(*)
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND NOT starts_with(application_name, %(own)s) AND pid <> pg_backend_pid()

-- name: relaxed
-- Roles that do not wait for their commits to be on disk, by a setting of their own or of the database.
SELECT coalesce(rolname, 'every role')::text
FROM pg_db_role_setting
LEFT JOIN pg_roles ON pg_roles.oid = setrole
LEFT JOIN pg_database ON pg_database.oid = setdatabase
WHERE (setdatabase = 0 OR datname = current_database())
  AND EXISTS (
    SELECT FROM unnest(setconfig) AS each
    WHERE split_part(each, '=', 1) = 'synchronous_commit' AND split_part(each, '=', 2) IN ('off', 'false', 'no', '0')
  )

-- name: holders
-- Who has kept the oldest visible transaction from moving on for long: what was deleted since stays in the table.
SELECT 'session ' || pid, extract(epoch FROM now() - xact_start)::float
FROM pg_stat_activity
WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start < now() - %(long)s
  AND backend_type = 'client backend'
UNION ALL
SELECT 'prepared transaction ' || gid, extract(epoch FROM now() - prepared)::float
FROM pg_prepared_xacts
WHERE prepared < now() - %(long)s
UNION ALL
SELECT 'unused replication slot ' || slot_name, NULL
FROM pg_replication_slots
WHERE xmin IS NOT NULL AND NOT active

-- name: lacking
-- The rights on a table that this user does not have.
SELECT wanted
FROM unnest(%(rights)s::text[]) AS wanted
WHERE NOT has_table_privilege(%(table)s::regclass, wanted)

-- name: may_identify
-- Whether this user may ask which database cluster this is.
SELECT has_function_privilege('pg_control_system()', 'EXECUTE')

-- name: never_vacuumed
-- Whether the table itself is exempt from autovacuum.
SELECT count(*) > 0
FROM pg_class, unnest(reloptions) AS option
WHERE oid = %(table)s::regclass AND option IN ('autovacuum_enabled=false', 'autovacuum_enabled=off')

-- name: dead_letters
-- How many dead letters a relay has.
SELECT count(*) FROM {dead_letter} WHERE relay = %(relay)s
