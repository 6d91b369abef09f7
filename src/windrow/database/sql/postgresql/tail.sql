-- name: publish
-- Have the inserts of the outbox decoded for those who read the publication.
CREATE PUBLICATION {publication} FOR TABLE {outbox}{columns} WITH (publish = 'insert', publish_via_partition_root = true)

-- name: published
-- Whether a publication is there.
SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = %(publication)s)

-- name: readiness
-- Whether the server writes a log that can be decoded, its version, and whether this user may read it.
SELECT current_setting('wal_level'), current_setting('server_version_num')::integer,
       (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user),
       current_setting('max_replication_slots')::integer - (SELECT count(*)::integer FROM pg_replication_slots)

-- name: adopt
-- From here on this transaction sees what a new slot's log does not hold.
SET TRANSACTION SNAPSHOT {snapshot}

-- name: before
-- Which database cluster this is, and which transactions are visible.
SELECT system_identifier::text, pg_current_snapshot()::text FROM pg_control_system()

-- name: identity
-- Which database cluster this is, where its transaction counter stands, and where its log.
SELECT system_identifier::text, pg_snapshot_xmax(pg_current_snapshot())::text,
       (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint
FROM pg_control_system()

-- name: control
-- What the control row says; and which transactions are visible by now, with a place in the log behind their commits.
SELECT CASE WHEN %(shard)s = ANY (ready) THEN heir ELSE epoch END, release, pg_current_snapshot()::text,
       (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint
FROM {relay}
WHERE name = %(relay)s

-- name: slot
-- A slot: whether it is of this database, whether its log is lost, and how many bytes of the log it holds back.
SELECT coalesce(database = current_database(), false), coalesce(wal_status = 'lost', true),
       coalesce(pg_current_wal_insert_lsn() - restart_lsn, 0)::bigint
FROM pg_replication_slots
WHERE slot_name = %(slot)s

-- name: take_slot
-- End the one who still reads a slot.
SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %(slot)s AND active

-- name: drop_slot
-- Give a slot up, and with it its place in the log, unless it is gone already.
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %(slot)s

-- name: unpublish
-- Have the outbox decoded for nobody any more.
DROP PUBLICATION IF EXISTS {publication}
