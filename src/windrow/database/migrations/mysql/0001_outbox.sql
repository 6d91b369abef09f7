-- The outbox: one row is one message. Rows are found by a mark that is written to them, and published in the order of
-- their ids. Writers need INSERT on this table. What a row may hold is not checked here: the relay makes a malformed one
-- a dead letter. Times are UTC. Headers are two JSON arrays, of names and of contents; a content is a string, null, or an
-- object with the key base64.
CREATE TABLE IF NOT EXISTS {outbox} (
  id            bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,{found_by}
  create_time   datetime(6) NOT NULL DEFAULT (utc_timestamp(6)),
  topic         varchar(249) NOT NULL,
  "key"         longblob,
  value         longblob,
  header_keys   json,
  header_values json,
  "partition"   integer,
  "timestamp"   datetime(6)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;{find}

-- One row a relay: how many shards it has and is to have, who leads, what its tasks show Kafka to be believed, and the
-- number of the latest released dead letter. The tasks of an epoch may run, until those of its heir are ready to relieve
-- them, shard by shard (ready lists these, with commas). Where the leader is chosen by lease: who holds it, in which
-- term, until when.
CREATE TABLE IF NOT EXISTS {relay} (
  name          varchar(200) NOT NULL PRIMARY KEY,
  shards        integer NOT NULL CHECK (shards > 0),
  wanted_shards integer CHECK (wanted_shards > 0),
  leader        binary(16),
  epoch         binary(16),
  heir          binary(16),
  ready         varchar(8000) NOT NULL DEFAULT '',
  membership    blob,
  "release"     bigint NOT NULL DEFAULT 0,
  holder        binary(16),
  term          bigint NOT NULL DEFAULT 0,
  held_until    datetime(6)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Messages that Kafka refused for good, with the reason, and those that wait behind one of their key; kept until
-- somebody discards them or releases them to be published after all, in the order of the numbers that they then get.
-- Headers are the text that they were: as JSON, MySQL would sort the keys of an object.
CREATE TABLE IF NOT EXISTS {dead_letter} (
  relay         varchar(200) NOT NULL,
  id            bigint NOT NULL,
  create_time   datetime(6) NOT NULL,
  topic         varchar(249) NOT NULL,
  "key"         longblob,
  value         longblob,
  header_keys   longtext,
  header_values longtext,
  "partition"   integer,
  "timestamp"   datetime(6),
  reason        text NOT NULL,
  behind        bigint,
  refused_at    datetime(6) NOT NULL DEFAULT (utc_timestamp(6)),
  "release"     bigint,
  PRIMARY KEY (relay, id),
  INDEX (relay, "release"),
  FOREIGN KEY (relay) REFERENCES {relay} (name) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Each shard's position as of the relay's end: where one starts whose positions Kafka has forgotten.
CREATE TABLE IF NOT EXISTS {position} (
  relay      varchar(200) NOT NULL,
  shard      integer NOT NULL,
  published  bigint NOT NULL,
  "position" text NOT NULL,
  released   bigint NOT NULL DEFAULT 0,
  saved_at   datetime(6) NOT NULL DEFAULT (utc_timestamp(6)),
  PRIMARY KEY (relay, shard),
  FOREIGN KEY (relay) REFERENCES {relay} (name) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What each shard had in flight when it last told, a second ago at most while it publishes.
CREATE TABLE IF NOT EXISTS {in_flight} (
  relay     varchar(200) NOT NULL,
  shard     integer NOT NULL,
  "records" integer NOT NULL,
  "keys"    integer NOT NULL,
  told_at   datetime(6) NOT NULL DEFAULT (utc_timestamp(6)),
  PRIMARY KEY (relay, shard),
  FOREIGN KEY (relay) REFERENCES {relay} (name) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
