-- name: bury
-- Copy rows of the outbox to the dead letters, refused or behind a refused one; one that is there stays as it is.
INSERT IGNORE INTO {dead_letter} (relay, id, create_time, topic, "key", value, header_keys, header_values, "partition",
                                  "timestamp", reason, behind)
SELECT %(relay)s, {id}, {create_time}, {topic}, {key}, {value}, {header_keys}, {header_values}, {partition},
       {timestamp}, coalesce(concat('waits behind id ', aside_behind), %(reason)s), aside_behind
FROM json_table(%(letters)s, '$[*]' COLUMNS (aside bigint PATH '$[0]', aside_behind bigint PATH '$[1]')) AS letters
JOIN {outbox} ON {id} = aside

-- name: list
-- The dead letters of a relay, oldest first.
SELECT id, topic, "key", octet_length(value), reason, create_time, refused_at, behind, "release"
FROM {dead_letter}
WHERE relay = %(relay)s
ORDER BY id
LIMIT %(limit)s

-- name: show
-- One dead letter, whole.
SELECT id, topic, "key", value, header_keys, header_values, "partition", "timestamp", reason, create_time, refused_at,
       behind, "release"
FROM {dead_letter}
WHERE relay = %(relay)s AND id = %(id)s

-- name: lock
-- One at a time numbers, adds or takes back a relay's dead letters, until the transaction ends; the latest number.
SELECT "release" FROM {relay} WHERE name = %(relay)s FOR UPDATE

-- name: release
-- Number dead letters after the latest number, in the order of their ids, for the shards to publish.
UPDATE {dead_letter}
JOIN (
  SELECT id AS letter, row_number() OVER (ORDER BY id) AS place
  FROM {dead_letter}
  WHERE relay = %(relay)s AND "release" IS NULL AND (%(everything)s OR id IN %(ids)s)
) AS chosen ON id = letter
SET "release" = %(latest)s + place
WHERE relay = %(relay)s

-- name: advance
-- The latest number, which the shards go by.
UPDATE {relay} SET "release" = %(latest)s WHERE name = %(relay)s

-- name: discard
-- Forget dead letters, except those that were released.
DELETE FROM {dead_letter} WHERE relay = %(relay)s AND "release" IS NULL AND (%(everything)s OR id IN %(ids)s)

-- name: any
-- Whether a relay has dead letters.
SELECT EXISTS (SELECT 1 FROM {dead_letter} WHERE relay = %(relay)s)

-- name: forget_published
-- Forget the letters of a shard that are published: those up to the number that Kafka has committed.
DELETE FROM {dead_letter} WHERE relay = %(relay)s AND "release" <= %(released)s AND {mine}

-- name: forget
-- Forget these letters, which were released and have arrived.
DELETE FROM {dead_letter} WHERE relay = %(relay)s AND id IN %(ids)s AND "release" IS NOT NULL

-- name: forget_ahead
-- Forget the letters of a shard whose rows lie ahead of its position: they will be captured again.
DELETE letter
FROM {dead_letter} AS letter
WHERE relay = %(relay)s AND {mine} AND (SELECT {ahead} FROM {outbox} WHERE {id} = letter.id)

-- name: blocked
-- The keys of a shard that have dead letters, and the first of each.
SELECT topic, "key", min(id)
FROM {dead_letter}
WHERE relay = %(relay)s AND "key" IS NOT NULL AND {mine}
GROUP BY topic, "key"

-- name: gather
-- Of each key of a shard with a released letter, or with one whose refused one was discarded: number all letters anew.
UPDATE {dead_letter}
JOIN (
  SELECT each_letter.id AS letter, row_number() OVER (ORDER BY each_letter.id) AS place
  FROM {dead_letter} AS each_letter
  JOIN (
    SELECT DISTINCT topic, "key"
    FROM {dead_letter} AS letter
    WHERE relay = %(relay)s AND "key" IS NOT NULL AND {mine} AND (
      "release" IS NOT NULL
      OR behind IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM {dead_letter} AS refused
                         WHERE refused.relay = letter.relay AND refused.id = letter.behind)
    )
  ) AS gathered ON gathered.topic = each_letter.topic AND gathered."key" = each_letter."key"
  WHERE each_letter.relay = %(relay)s
) AS queued ON id = letter
SET "release" = %(latest)s + place
WHERE relay = %(relay)s

-- name: released
-- The next released letters of a shard in the order of their numbers, bounded by number and by size (one at least).
SELECT "release", id, topic, "key", value, header_keys, header_values, "partition",
       timestampdiff(MICROSECOND, '1970-01-01', "timestamp") DIV 1000,
       timestampdiff(MICROSECOND, '1970-01-01', create_time)
FROM (
  SELECT next.*, sum(size) OVER (ORDER BY "release" ROWS UNBOUNDED PRECEDING) - size AS before_it
  FROM (
    SELECT letter.*,
           coalesce(octet_length(value), 0) + coalesce(octet_length("key"), 0)
           + coalesce(octet_length(header_values), 0) AS size
    FROM {dead_letter} AS letter
    WHERE relay = %(relay)s AND "release" > %(after)s AND "release" <= %(upto)s AND {mine}
    ORDER BY "release"
    LIMIT %(records)s
  ) AS next
) AS summed
WHERE before_it < %(bytes)s
ORDER BY "release"

-- name: write_back
-- Write the released letters of a shard to the outbox anew, in the order of their numbers; there they get new ids.
INSERT INTO {outbox} ({written})
SELECT {content} FROM {dead_letter} WHERE relay = %(relay)s AND "release" IS NOT NULL AND {mine} ORDER BY "release";
DELETE FROM {dead_letter} WHERE relay = %(relay)s AND "release" IS NOT NULL AND {mine}

-- name: put_back
-- Released letters that were refused again: dead letters as before, with the new reason.
UPDATE {dead_letter} SET "release" = NULL, behind = NULL, reason = %(reason)s, refused_at = utc_timestamp(6)
WHERE relay = %(relay)s AND id IN %(ids)s

-- name: hold_back
-- Have the later letters of the same keys wait behind those that were refused again.
UPDATE {dead_letter} AS later
JOIN {dead_letter} AS refused
  ON later.relay = refused.relay AND later.topic = refused.topic AND later."key" = refused."key"
     AND later.id > refused.id
SET later."release" = NULL, later.behind = refused.id, later.reason = concat('waits behind id ', refused.id)
WHERE refused.relay = %(relay)s AND refused.id IN %(ids)s
