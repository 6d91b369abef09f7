-- What a shard has done since it exists, as JSON, told with what it has in flight.
ALTER TABLE {in_flight} ADD COLUMN /*M! IF NOT EXISTS */ figures text
