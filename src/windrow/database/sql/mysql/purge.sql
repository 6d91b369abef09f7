-- name: expire
-- Delete rows that were published longer ago than they are kept; one that is to be published again stays.
DELETE FROM {outbox}
WHERE {processed} <= utc_timestamp(6) - INTERVAL %(retention)s MICROSECOND AND {in_office}
ORDER BY {processed}
LIMIT %(chunk)s
