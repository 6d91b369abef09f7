-- name: patience
-- An answer that comes later than this is worth nothing.
SET statement_timeout = '{seconds}s'

-- name: take
-- Take the lease, in a new term, if it is free, expired or our own; the tasks of the term before end. While one of them
-- still has its seat, an expired lease is left alone for one more time-out.
UPDATE {relay} AS relay
SET holder = %(holder)s, term = term + 1, held_until = clock_timestamp() + %(timeout)s,
    leader = NULL, epoch = NULL, heir = NULL, ready = '{{}}'
WHERE name = %(name)s
  AND (holder IS NULL
       OR holder = %(holder)s
       OR held_until + %(timeout)s <= clock_timestamp()
       OR (held_until <= clock_timestamp()
           AND NOT EXISTS (
             SELECT FROM pg_locks, generate_series(0, relay.shards - 1) AS shard
             WHERE locktype = 'advisory' AND objsubid = 1 AND granted
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND (classid::bigint << 32 | objid::bigint)
                 = hashtextextended(relay.name || '/' || shard::text, relay.tableoid::bigint))))
RETURNING term

-- name: renew
-- Hold the lease for another time-out, unless the term is over: taken by another, or expired.
UPDATE {relay}
SET held_until = clock_timestamp() + %(timeout)s
WHERE name = %(name)s AND holder = %(holder)s AND term = %(term)s AND held_until > clock_timestamp()
RETURNING term

-- name: give_back
-- Let another take the lease at once.
UPDATE {relay} SET holder = NULL, held_until = NULL WHERE name = %(name)s AND holder = %(holder)s

-- name: held
-- Whether somebody holds the lease.
SELECT coalesce(held_until > clock_timestamp(), false) FROM {relay} WHERE name = %(name)s

-- name: lasts
-- A part of others: whether a term lasts.
EXISTS (SELECT FROM {relay} WHERE name = {name} AND term = {term} AND held_until > clock_timestamp())
