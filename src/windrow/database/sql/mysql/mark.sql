-- name: look
-- What the control row says, and whether rows wait that carry none of our marks. Writes nothing.
SELECT CASE WHEN find_in_set(%(shard)s, ready) THEN heir ELSE epoch END AS epoch, "release",
       EXISTS (SELECT 1 FROM {outbox} WHERE {free} AND {mine})
FROM {relay}
WHERE name = %(relay)s

-- name: free
-- A part of others: rows to be published, old enough, that nobody has marked, or somebody else has, who is no more.
({unprocessed} AND {ripe} AND ({mark} IS NULL OR {mark} NOT IN %(held)s))

-- name: ripe
-- A part of others: rows that the application has had time to dispatch by itself.
{create_time} <= utc_timestamp(6) - {after}

-- name: mark
-- In one transaction that the server begins and ends by itself: mark the earliest free rows, bounded by number and by
-- size (one at least), and return them; but only while the control row names our epoch. Its lock has those wait who are
-- about to name another: from then on, we mark nothing any more. Rows are chosen by reading, which passes over what is
-- not committed yet; a look that changes rows would wait for it.
SET @windrow_release = NULL;
START TRANSACTION;
SELECT "release" INTO @windrow_release
FROM {relay}
WHERE name = %(relay)s AND CASE WHEN find_in_set(%(shard)s, ready) THEN heir ELSE epoch END = %(epoch)s
LOCK IN SHARE MODE;
SELECT coalesce(json_arrayagg(chosen_id), '[]') INTO @windrow_ids
FROM (
  SELECT chosen_id, sum(size) OVER (ORDER BY chosen_id ROWS UNBOUNDED PRECEDING) - size AS before_it
  FROM (
    SELECT {id} AS chosen_id, {size} AS size
    FROM {outbox}
    WHERE @windrow_release IS NOT NULL AND {free} AND {mine}
    ORDER BY 1
    LIMIT %(records)s
  ) AS next
) AS summed
WHERE before_it < %(bytes)s;
UPDATE json_table(@windrow_ids, '$[*]' COLUMNS (chosen_id bigint PATH '$')) AS chosen
STRAIGHT_JOIN {outbox} ON {id} = chosen_id
SET {mark} = %(mark)s;
COMMIT;
SELECT @windrow_release, {columns}
FROM (SELECT 1) AS control
LEFT JOIN (
  json_table(@windrow_ids, '$[*]' COLUMNS (chosen_id bigint PATH '$')) AS chosen
  STRAIGHT_JOIN {outbox} ON {id} = chosen_id AND {mark} = %(mark)s
) ON true
WHERE @windrow_release IS NOT NULL

-- name: among
-- A part of others: the rows of these ids, each looked up by its own. A scan would wait for rows that are not committed.
json_table(json_array%(ids)s, '$[*]' COLUMNS (chosen_id bigint PATH '$')) AS chosen
STRAIGHT_JOIN {outbox} ON {id} = chosen_id

-- name: deleted
-- A part of others, the end of a published row: it goes.
DELETE {outbox} FROM {among}

-- name: kept
-- A part of others, the end of a published row: it is kept, and ready to be published again should somebody wish so.
UPDATE {among} SET {processed} = utc_timestamp(6), {mark} = NULL

-- name: purge
-- Be done with rows that were published under one of these marks.
{done} WHERE {mark} IN %(marks)s

-- name: left_over
-- What a predecessor has published under a mark and did not come to be done with.
SELECT {id} FROM {outbox} WHERE {id} BETWEEN %(first)s AND %(last)s AND {mark} = %(mark)s AND {mine}

-- name: published
-- A part of others: rows that are published under a mark, though still there.
({mark} = {given} AND {id} BETWEEN {first} AND {last})

-- name: peek
-- The next rows, without taking them.
SELECT {columns} FROM ({rows}) AS waiting WHERE {ahead} AND {mine} ORDER BY 1 LIMIT %(records)s
