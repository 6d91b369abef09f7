-- name: chosen
-- A part of others: the published rows that are still kept and chosen.
SELECT *
FROM {outbox}
WHERE pg_visible_in_snapshot(tx, %(published)s::pg_snapshot)
  AND (%(lows)s::bigint[] IS NULL
       OR EXISTS (SELECT FROM unnest(%(lows)s::bigint[], %(highs)s::bigint[]) AS ids (low, high)
                  WHERE {id} BETWEEN low AND high))
  AND (%(since)s::timestamptz IS NULL OR {create_time} >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR {create_time} < %(until)s)
  AND (%(topics)s::text[] IS NULL OR {topic} = ANY (%(topics)s))
  AND (%(keys)s::bytea[] IS NULL OR {key} = ANY (%(keys)s))

-- name: found
-- Of the published rows that are still kept and chosen: how many there are for each topic, from where to where.
SELECT {topic} AS topic, count(*), min({id}), max({id}), min({create_time}), max({create_time})
FROM ({chosen}) AS chosen
GROUP BY 1
ORDER BY 1

-- name: write
-- Write the next of them to the outbox anew, in their order; there they get new ids.
WITH next AS MATERIALIZED (
  SELECT {id} AS id, clock_timestamp() AS create_time, {topic} AS topic, {key} AS key, {value} AS value,
         {header_keys} AS header_keys, {header_values} AS header_values, {partition} AS partition,
         {timestamp} AS timestamp
  FROM ({chosen}) AS chosen
  WHERE {id} BETWEEN %(first)s AND %(last)s
  ORDER BY 1
  LIMIT %(chunk)s
), written AS (
  INSERT INTO {outbox} ({written}) SELECT {content} FROM next ORDER BY id
)
SELECT count(*), max(id) FROM next
