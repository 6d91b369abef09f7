-- The outbox: one row is one message. Rows are found by the transaction that wrote them (tx) and published in the
-- order of their ids. Writers need INSERT on this table and SELECT on its id.
CREATE TABLE IF NOT EXISTS {outbox} (
  id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tx            xid8 NOT NULL DEFAULT pg_current_xact_id(),
  create_time   timestamptz NOT NULL DEFAULT clock_timestamp(),
  topic         varchar(249) NOT NULL,
  key           bytea,
  value         bytea,
  header_keys   text[] NOT NULL DEFAULT '{{}}',
  header_values bytea[] NOT NULL DEFAULT '{{}}',
  partition     integer CHECK (partition >= 0),
  timestamp     timestamptz,
  CHECK (cardinality(header_keys) = cardinality(header_values))
);
-- A table of another system, goharvest's for instance, is taken over as it is, and rewritten once for its new column.
ALTER TABLE {outbox} ADD COLUMN IF NOT EXISTS tx xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX ON {outbox} (tx);

-- One row a relay: how many shards it has, who leads, the epoch whose tasks may run, and what they show Kafka to be
-- believed.
CREATE TABLE {relay} (
  name       varchar(200) PRIMARY KEY,
  shards     integer NOT NULL CHECK (shards > 0),
  leader     uuid,
  epoch      uuid,
  membership bytea
);

-- Messages that Kafka refused for good, with the reason; kept until somebody retries or discards them.
CREATE TABLE {dead_letter} (
  relay         varchar(200) NOT NULL REFERENCES {relay} ON DELETE CASCADE,
  id            bigint NOT NULL,
  create_time   timestamptz NOT NULL,
  topic         varchar(249) NOT NULL,
  key           bytea,
  value         bytea,
  header_keys   text[] NOT NULL,
  header_values bytea[] NOT NULL,
  partition     integer,
  timestamp     timestamptz,
  reason        text NOT NULL,
  refused_at    timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (relay, id)
);

-- Each shard's position as of the last purge or the relay's end: where one starts whose positions Kafka has forgotten.
CREATE TABLE {position} (
  relay     varchar(200) NOT NULL REFERENCES {relay} ON DELETE CASCADE,
  shard     integer NOT NULL,
  published bigint NOT NULL,
  position  text NOT NULL,
  saved_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (relay, shard)
);
