-- name: look
-- What the control row says, and whether rows wait that carry none of our marks. Writes nothing.
SELECT CASE WHEN %(shard)s = ANY (ready) THEN heir ELSE epoch END, release,
       EXISTS (SELECT FROM {outbox} WHERE {free} AND {mine})
FROM {relay}
WHERE name = %(relay)s

-- name: free
-- A part of others: rows to be published, old enough, that nobody has marked, or somebody else has, who is no more.
({unprocessed} AND {ripe} AND ({mark} IS NULL OR {mark} <> ALL (%(held)s::uuid[])))

-- name: ripe
-- A part of others: rows that the application has had time to dispatch by itself.
{create_time} <= now() - {after}

-- name: mark
-- In one statement: mark the earliest free rows, bounded by number and by size (one at least), and return them; but only
-- while the control row names our epoch. Its lock has those wait who are about to name another: from then on, we mark
-- nothing any more.
WITH control AS MATERIALIZED (
  SELECT release
  FROM {relay}
  WHERE name = %(relay)s AND CASE WHEN %(shard)s = ANY (ready) THEN heir ELSE epoch END = %(epoch)s
  FOR SHARE
), chosen AS MATERIALIZED (
  SELECT chosen_id
  FROM (
    SELECT chosen_id, sum(size) OVER (ORDER BY chosen_id ROWS UNBOUNDED PRECEDING) - size AS before
    FROM (
      SELECT {id} AS chosen_id, {size} AS size FROM {outbox} WHERE {free} AND {mine} ORDER BY 1 LIMIT %(records)s
    ) AS next
  ) AS summed
  WHERE before < %(bytes)s
), marked AS (
  UPDATE {outbox} SET {mark} = %(mark)s FROM chosen, control WHERE {id} = chosen_id RETURNING {columns}
)
SELECT release, {names}
FROM control
LEFT JOIN marked ON true

-- name: among
-- A part of others: the rows of these ids.
{id} = ANY (%(ids)s)

-- name: deleted
-- A part of others, the end of a published row: it goes.
DELETE FROM {outbox} WHERE {among}

-- name: kept
-- A part of others, the end of a published row: it is kept, and ready to be published again should somebody wish so.
UPDATE {outbox} SET {processed} = now(), {mark} = NULL WHERE {among}

-- name: purge
-- Be done with rows that were published under one of these marks.
{done} AND {mark} = ANY (%(marks)s)

-- name: left_over
-- What a predecessor has published under a mark and did not come to be done with.
SELECT {id} FROM {outbox} WHERE {id} BETWEEN %(first)s AND %(last)s AND {mark} = %(mark)s AND {mine}

-- name: published
-- A part of others: rows that are published under a mark, though still there.
({mark} = {given} AND {id} BETWEEN {first} AND {last})

-- name: peek
-- The next rows, without taking them.
SELECT {columns} FROM ({rows}) AS rows WHERE {ahead} AND {mine} ORDER BY 1 LIMIT %(records)s
