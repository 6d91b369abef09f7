-- name: create_slot
-- One slot of a partitioned outbox.
CREATE TABLE {slot} PARTITION OF {outbox} FOR VALUES IN ({number})

-- name: turning
-- How rows are given their slots; no row where the outbox is a plain table.
SELECT pg_get_expr(adbin, adrelid)
FROM pg_attrdef
JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum AND attname = 'slot'
JOIN pg_partitioned_table ON partrelid = adrelid
WHERE adrelid = to_regclass(%(outbox)s)

-- name: clock
-- The database's clock, by which rows are given their slots.
SELECT date_part('epoch', clock_timestamp())

-- name: used
-- Whether a slot takes any room.
SELECT pg_relation_size(to_regclass(%(slot)s)) > 0

-- name: unpublished
-- Whether a slot holds a row that a relay has yet to publish.
SELECT EXISTS (SELECT FROM {slot} WHERE tx >= pg_snapshot_xmax(%(published)s::pg_snapshot))
    OR EXISTS (SELECT FROM {slot} WHERE tx = ANY (ARRAY(SELECT pg_snapshot_xip(%(published)s::pg_snapshot))))

-- name: count
-- How many rows a slot holds.
SELECT count(*) FROM {slot}

-- name: patience
-- Others queue up behind one who waits for a lock: give up soon.
SET LOCAL lock_timeout = '50ms'

-- name: lock
-- From here on nobody has an uncommitted row in the slot, and nobody writes or reads one.
LOCK TABLE {slot} IN ACCESS EXCLUSIVE MODE

-- name: in_office
-- Whether the leader's term lasts.
SELECT {in_office}

-- name: empty
-- Give back the slot's files, whatever old transactions are still open.
TRUNCATE {slot}
