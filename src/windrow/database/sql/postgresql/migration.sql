-- name: lock
-- One migration at a time for one outbox, until the transaction ends.
SELECT 1 FROM pg_advisory_xact_lock(hashtextextended({label}, 0))

-- name: create
-- The record of what was applied.
CREATE TABLE IF NOT EXISTS {migration} (
  version    integer PRIMARY KEY,
  applied_at timestamptz NOT NULL DEFAULT now()
)

-- name: version
-- The newest migration that was applied; 0 where there is none.
SELECT coalesce(max(version), 0) FROM {migration}

-- name: record
-- Note a migration as applied.
INSERT INTO {migration} (version) VALUES ({version}) ON CONFLICT DO NOTHING
