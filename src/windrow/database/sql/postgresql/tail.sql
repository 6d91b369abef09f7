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

-- name: make_slot
-- For those who initialise a relay by hand: make its slot, and note where it begins; nothing where it has a position. While
-- that goes on nobody writes to the outbox, so what is visible was committed before the slot was made.
BEGIN;
LOCK TABLE {outbox} IN SHARE MODE;
INSERT INTO {position} (relay, shard, published, position)
SELECT {name}, 0, 0,
       json_build_object(
         'v', {format}, 'db', system_identifier::text, 'lo', '1:0:',
         'hi', concat(seen.xmin, ':', seen.xmax - seen.xmin, ':', seen.steps), 'after', 0,
         'slot', slot_name, 'lsn', (lsn - '0/0'::pg_lsn)::bigint)::text
FROM pg_control_system(), pg_create_logical_replication_slot({slot}, 'pgoutput'), (
  SELECT min(xmin) AS xmin, min(xmax) AS xmax,
         string_agg((xip - coalesce(earlier, xmin))::text, ',' ORDER BY xip) AS steps
  FROM (
    SELECT pg_snapshot_xmin(now)::text::bigint AS xmin, pg_snapshot_xmax(now)::text::bigint AS xmax,
           xip::text::bigint AS xip, lag(xip::text::bigint) OVER (ORDER BY xip::text::bigint) AS earlier
    FROM pg_current_snapshot() AS now
    LEFT JOIN pg_snapshot_xip(now) AS xip ON true
  ) AS open_transactions
) AS seen
WHERE NOT EXISTS (SELECT FROM {position} WHERE relay = {name});
COMMIT

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

-- name: waiting
-- How many bytes of the log are behind what a slot has confirmed, and how many it holds back.
SELECT (pg_current_wal_insert_lsn() - confirmed_flush_lsn)::bigint, (pg_current_wal_insert_lsn() - restart_lsn)::bigint
FROM pg_replication_slots
WHERE slot_name = %(slot)s AND database = current_database() AND confirmed_flush_lsn IS NOT NULL AND restart_lsn IS NOT NULL

-- name: take_slot
-- End the one who still reads a slot.
SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %(slot)s AND active

-- name: drop_slot
-- Give a slot up, and with it its place in the log, unless it is gone already.
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %(slot)s

-- name: unpublish
-- Have the outbox decoded for nobody any more.
DROP PUBLICATION IF EXISTS {publication}
