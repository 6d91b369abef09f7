-- name: patience
-- Wait so long for a lock: an answer that comes later is worth nothing.
SET SESSION innodb_lock_wait_timeout = {seconds}

-- name: take
-- Take the lease, in a new term, if it is free, expired or our own; the tasks of the term before end. While one of them
-- still has its seat, an expired lease is left alone for one more time-out.
START TRANSACTION;
SET @windrow_shards = (SELECT shards FROM {relay} WHERE name = %(name)s FOR UPDATE);
UPDATE {relay}
SET holder = %(holder)s, term = term + 1, held_until = utc_timestamp(6) + INTERVAL %(timeout)s MICROSECOND,
    leader = NULL, epoch = NULL, heir = NULL, ready = ''
WHERE name = %(name)s
  AND (holder IS NULL
       OR holder = %(holder)s
       OR held_until + INTERVAL %(timeout)s MICROSECOND <= utc_timestamp(6)
       OR (held_until <= utc_timestamp(6)
           AND NOT EXISTS (
             SELECT 1
             FROM json_table(concat('[0', repeat(',0', @windrow_shards - 1), ']'), '$[*]'
                             COLUMNS (place FOR ORDINALITY)) AS shards
             WHERE is_used_lock(sha2(concat(database(), {label}, '/', %(name)s, '/', place - 1), 224)) IS NOT NULL)));
SELECT term FROM {relay} WHERE row_count() > 0 AND name = %(name)s;
COMMIT

-- name: renew
-- Hold the lease for another time-out, unless the term is over: taken by another, or expired.
UPDATE {relay}
SET held_until = utc_timestamp(6) + INTERVAL %(timeout)s MICROSECOND
WHERE name = %(name)s AND holder = %(holder)s AND term = %(term)s AND held_until > utc_timestamp(6);
SELECT term FROM {relay} WHERE row_count() > 0 AND name = %(name)s

-- name: give_back
-- Let another take the lease at once.
UPDATE {relay} SET holder = NULL, held_until = NULL WHERE name = %(name)s AND holder = %(holder)s

-- name: held
-- Whether somebody holds the lease.
SELECT coalesce(held_until > utc_timestamp(6), false) FROM {relay} WHERE name = %(name)s

-- name: lasts
-- A part of others: whether a term lasts.
EXISTS (SELECT 1 FROM {relay} WHERE name = {name} AND term = {term} AND held_until > utc_timestamp(6))
