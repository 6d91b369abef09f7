-- The tables as windrow 0.1.0 makes them ("windrow init --sql", relay legacy, 2 shards). Released: never to be changed.
BEGIN;

CREATE TABLE IF NOT EXISTS "legacy_migration" (
  version    integer PRIMARY KEY,
  applied_at timestamptz NOT NULL DEFAULT now()
);

-- The outbox: one row is one message. Rows are found by the transaction that wrote them (tx), or by a mark that is
-- written to them, and published in the order of their ids. Writers need INSERT on this table and SELECT on its id. Partitioned, it is a ring of slots, which
-- rows enter by the clock and which are emptied whole. What a row may hold is not checked here, which would cost every
-- writer a twelfth of its speed: the relay makes a malformed one a dead letter.
CREATE TABLE IF NOT EXISTS "legacy" (
  id            bigint GENERATED ALWAYS AS IDENTITY,
  tx            xid8 NOT NULL DEFAULT pg_current_xact_id(),
  create_time   timestamptz NOT NULL DEFAULT clock_timestamp(),
  topic         varchar(249) NOT NULL,
  key           bytea,
  value         bytea,
  header_keys   text[] NOT NULL DEFAULT '{}',
  header_values bytea[] NOT NULL DEFAULT '{}',
  partition     integer,
  timestamp     timestamptz,
  PRIMARY KEY (id)
);
-- A table that was there is rewritten once for its new column.
ALTER TABLE "legacy" ADD COLUMN IF NOT EXISTS tx xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX ON "legacy" (tx);

-- One row a relay: how many shards it has and is to have, who leads, what its tasks show Kafka to be believed, and the
-- number of the latest released dead letter. The tasks of an epoch may run, until those of its heir are ready to relieve
-- them, shard by shard. Where the leader is chosen by lease: who holds it, in which term, until when.
CREATE TABLE "legacy_relay" (
  name          varchar(200) PRIMARY KEY,
  shards        integer NOT NULL CHECK (shards > 0),
  wanted_shards integer CHECK (wanted_shards > 0),
  leader        uuid,
  epoch         uuid,
  heir          uuid,
  ready         integer[] NOT NULL DEFAULT '{}',
  membership    bytea,
  release       bigint NOT NULL DEFAULT 0,
  holder        uuid,
  term          bigint NOT NULL DEFAULT 0,
  held_until    timestamptz
);

-- Messages that Kafka refused for good, with the reason, and those that wait behind one of their key; kept until
-- somebody discards them or releases them to be published after all, in the order of the numbers that they then get.
-- Those that were read from the log have their place in it.
CREATE TABLE "legacy_dead_letter" (
  relay         varchar(200) NOT NULL REFERENCES "legacy_relay" ON DELETE CASCADE,
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
  behind        bigint,
  refused_at    timestamptz NOT NULL DEFAULT now(),
  release       bigint,
  log_place     text,
  PRIMARY KEY (relay, id)
);
CREATE INDEX ON "legacy_dead_letter" (relay, release) WHERE release IS NOT NULL;

-- Each shard's position as of the last purge or the relay's end: where one starts whose positions Kafka has forgotten.
CREATE TABLE "legacy_position" (
  relay     varchar(200) NOT NULL REFERENCES "legacy_relay" ON DELETE CASCADE,
  shard     integer NOT NULL,
  published bigint NOT NULL,
  position  text NOT NULL,
  released  bigint NOT NULL DEFAULT 0,
  saved_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (relay, shard)
);

-- What each shard had in flight when it last told, a second ago at most while it publishes.
CREATE TABLE "legacy_in_flight" (
  relay   varchar(200) NOT NULL REFERENCES "legacy_relay" ON DELETE CASCADE,
  shard   integer NOT NULL,
  records integer NOT NULL,
  keys    integer NOT NULL,
  told_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (relay, shard)
);

INSERT INTO "legacy_migration" (version) VALUES (1) ON CONFLICT DO NOTHING;

INSERT INTO "legacy_relay" (name, shards) VALUES ('legacy', 2) ON CONFLICT (name) DO NOTHING;

COMMIT;
