-- name: others
-- Other relays that have published from this outbox.
SELECT DISTINCT relay FROM {position} WHERE relay <> %(relay)s ORDER BY relay

-- name: judged
-- Of every row: whether it was written in another cluster, and whether it was published from there.
-- Whoever writes here has a transaction number that is not older than the table here, and not younger than the version
-- of the row that carries it. What breaks either rule was restored or copied; all else counts as written here.
SELECT id, future OR (unsettled AND (tx < made OR tx > writer)) AS foreign_made, unsettled AND published AS published,
       unsettled
FROM (
  SELECT {id} AS id, tx::text::bigint AS tx, tx::text::bigint >= horizon AS future, made,
         horizon - mod(horizon - outbox.xmin::text::bigint, 4294967296) AS writer,
         ({unsettled}) AS unsettled, ({published}) AS published
  FROM {outbox} AS outbox, (
    SELECT horizon, horizon - mod(horizon - pg_attribute.xmin::text::bigint, 4294967296) AS made
    FROM pg_attribute, (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS horizon) AS clock
    WHERE attrelid = {table}::regclass AND attname = 'ctid'
  ) AS here
) AS rows

-- name: count
-- How many rows were published from another cluster, wait from there, and were written here and have to be looked at.
SELECT count(*) FILTER (WHERE foreign_made AND published), count(*) FILTER (WHERE foreign_made AND NOT published),
       count(*) FILTER (WHERE unsettled AND NOT foreign_made)
FROM ({judged}) AS judged

-- name: rewrite
-- Give the rows of another cluster transactions of this one: those published the first of all, the others the present.
UPDATE {outbox} AS outbox
SET tx = CASE WHEN published THEN {first}::xid8 ELSE pg_current_xact_id() END
FROM ({judged}) AS judged
WHERE foreign_made AND outbox.{id} = judged.id
