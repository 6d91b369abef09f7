-- How often the number of shards had changed when a position was committed: counts begin anew with each change.
ALTER TABLE {position} ADD COLUMN resharded integer NOT NULL DEFAULT 0;
