-- name: identity
-- Which database cluster this is, where its transaction counter stands, and a row's transaction that it has not reached.
SELECT system_identifier::text, pg_snapshot_xmax(pg_current_snapshot())::text,
       (SELECT tx::text FROM {outbox} WHERE tx >= pg_snapshot_xmax(pg_current_snapshot()) LIMIT 1)
FROM pg_control_system()

-- name: settled
-- A part of others: the transactions that began after lo and are over, as spans of their numbers. What others have written
-- and not committed lies between the spans: of it nothing is read, however much it is.
SELECT coalesce((lag(open) OVER numbers::text::bigint + 1)::text::xid8, pg_snapshot_xmax({lo}::pg_snapshot)) AS first,
       open AS past
FROM (
  SELECT pg_snapshot_xip(pg_current_snapshot())
  UNION ALL
  SELECT pg_snapshot_xmax(pg_current_snapshot())
) AS ends (open)
WHERE open >= pg_snapshot_xmax({lo}::pg_snapshot)
WINDOW numbers AS (ORDER BY open)

-- name: unseen
-- A part of others: the rows not visible in lo. They began after it or were open in it: two places in the index, however
-- old the oldest open transaction is.
SELECT began.*
FROM ({settled}) AS settled
CROSS JOIN LATERAL (SELECT * FROM {outbox} WHERE tx >= settled.first AND tx < settled.past) AS began
UNION ALL
SELECT *
FROM {outbox}
WHERE tx = ANY (ARRAY(
  SELECT pg_snapshot_xip({lo}::pg_snapshot) EXCEPT SELECT pg_snapshot_xip(pg_current_snapshot())
))

-- name: newest
-- A part of others: the newest transaction of all rows that are not visible in lo, of whichever shard. It is on disk.
SELECT newest.tx::text::bigint
FROM ({settled}) AS settled
CROSS JOIN LATERAL (
  SELECT tx FROM {outbox} WHERE tx >= settled.first AND tx < settled.past ORDER BY tx DESC LIMIT 1
) AS newest
ORDER BY settled.past DESC
LIMIT 1

-- name: beyond
-- A part of others: rows ahead of a position.
NOT pg_visible_in_snapshot(tx, {lo}::pg_snapshot)
AND NOT (pg_visible_in_snapshot(tx, {hi}::pg_snapshot) AND {id} <= {after})

-- name: poll
-- In one round trip: the rows not visible in lo, the snapshot they are seen in, and what the control row says.
-- Rows too many or too large for one page are not returned; then crowded is true.
WITH fresh AS MATERIALIZED (
  SELECT {columns}, {size} AS size
  FROM ({unseen}) AS unseen
  WHERE {mine}
  LIMIT %(records)s + 1
), load AS (
  SELECT count(*) > %(records)s OR coalesce(sum(size), 0) > %(bytes)s AS crowded FROM fresh
)
SELECT pg_current_snapshot()::text, ({newest}), CASE WHEN %(shard)s = ANY (ready) THEN heir ELSE epoch END, release,
       crowded, {names}
FROM load
LEFT JOIN {relay} ON name = %(relay)s
LEFT JOIN fresh ON NOT crowded
ORDER BY id

-- name: first
-- The smallest id that is not visible in lo.
SELECT min({id}) FROM ({unseen}) AS unseen

-- name: fresh
-- The present snapshot, the newest transaction with rows, and how many rows and bytes are not visible in lo, counted up to
-- one row more than asked for.
SELECT pg_current_snapshot()::text, ({newest}), count(*), coalesce(sum(size), 0)
FROM (
  SELECT {size} AS size
  FROM ({unseen}) AS unseen
  WHERE {mine}
  LIMIT %(records)s + 1
) AS new

-- name: ahead
-- How many rows there are between two snapshots above an id, counted up to one more than asked for; how many of them are
-- within the bounds (one at least), and the last of these.
SELECT count(*), count(*) FILTER (WHERE fits), max(id) FILTER (WHERE fits)
FROM (
  SELECT id, row_number() OVER so_far <= %(records)s AND sum(size) OVER so_far - size < %(bytes)s AS fits
  FROM (
    SELECT {id} AS id, {size} AS size
    FROM {outbox}
    WHERE {id} > %(after)s
      AND pg_visible_in_snapshot(tx, %(hi)s::pg_snapshot)
      AND NOT pg_visible_in_snapshot(tx, %(lo)s::pg_snapshot)
      AND {mine}
    ORDER BY 1
    LIMIT %(records)s + 1
  ) AS next
  WINDOW so_far AS (ORDER BY id ROWS UNBOUNDED PRECEDING)
) AS numbered

-- name: page
-- The next rows between two snapshots in the order of their ids.
SELECT {columns}
FROM {outbox}
WHERE {id} > {after} AND {id} <= {upto}
  AND pg_visible_in_snapshot(tx, {hi}::pg_snapshot)
  AND NOT pg_visible_in_snapshot(tx, {lo}::pg_snapshot)
  AND {mine}
ORDER BY 1
LIMIT {records}
