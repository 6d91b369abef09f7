-- name: positions
-- Of every relay that reads this outbox: how many shards it has, and the positions that were saved of them.
SELECT shards, coalesce(array_agg(position) FILTER (WHERE position IS NOT NULL), '{{}}')
FROM {relay}
LEFT JOIN {position} ON relay = name
GROUP BY name, shards

-- name: horizon
-- Which cluster this is, and where its transaction counter stands.
SELECT system_identifier::text, pg_snapshot_xmax(pg_current_snapshot())::text FROM pg_control_system()

-- name: due
-- What was published since the last purge, twice so many rows at most: bundles of the places of those that may go, the
-- transactions of those within their retention, and how many were looked at in each of two places of the index.
WITH published AS (
  (
    SELECT ctid AS place, tx, {create_time} AS create_time, false AS late
    FROM {outbox}
    WHERE tx >= pg_snapshot_xmax(%(done)s::pg_snapshot)
      AND tx < pg_snapshot_xmax(%(published)s::pg_snapshot)
      AND pg_visible_in_snapshot(tx, %(published)s::pg_snapshot)
    ORDER BY tx
    LIMIT %(rows)s
  )
  UNION ALL
  (
    SELECT ctid, tx, {create_time}, true
    FROM {outbox}
    WHERE tx = ANY (ARRAY(SELECT pg_snapshot_xip(%(done)s::pg_snapshot)))
      AND pg_visible_in_snapshot(tx, %(published)s::pg_snapshot)
    LIMIT %(rows)s
  )
), bundled AS (
  SELECT place, tx, late, create_time > now() - %(retention)s AS young, (row_number() OVER () - 1) / %(chunk)s AS bundle
  FROM published
)
SELECT (array_agg(place) FILTER (WHERE NOT young))::text, array_agg(DISTINCT tx::text) FILTER (WHERE young),
       count(*) FILTER (WHERE late), count(*) FILTER (WHERE NOT late)
FROM bundled
GROUP BY bundle

-- name: delete
-- Delete the rows in these places, if they are still published ones: a place may have been emptied and filled again.
-- Refused to a leader whose term is over.
DELETE FROM {outbox}
WHERE ctid = ANY (%(places)s::tid[])
  AND pg_visible_in_snapshot(tx, %(published)s::pg_snapshot)
  AND {create_time} <= now() - %(retention)s
  AND {in_office}

-- name: expire
-- Delete rows that were published longer ago than they are kept; one that is to be published again stays.
DELETE FROM {outbox}
WHERE {id} = ANY (ARRAY(
    SELECT {id} FROM {outbox} WHERE {processed} <= now() - %(retention)s ORDER BY {processed} LIMIT %(chunk)s
  ))
  AND {processed} <= now() - %(retention)s
  AND {in_office}
