-- name: lock
-- One migration at a time for one outbox, until the connection is closed; whether it was our turn in time.
SELECT get_lock(sha2(concat(database(), {label}), 224), 20)

-- name: create
-- The record of what was applied.
CREATE TABLE IF NOT EXISTS {migration} (
  version    integer PRIMARY KEY,
  applied_at datetime(6) NOT NULL DEFAULT (utc_timestamp(6))
) ENGINE = InnoDB

-- name: version
-- The newest migration that was applied; 0 where there is none.
SELECT coalesce(max(version), 0) FROM {migration}

-- name: record
-- Note a migration as applied.
INSERT IGNORE INTO {migration} (version) VALUES ({version})
