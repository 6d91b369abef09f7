"""The relay: publishes an outbox to Kafka, exactly once and in order, with its work on Spark's executors."""

from windrow.extras import needed

with needed("relay"):
    from windrow.election.led import State
    from windrow.relay.events import Event, LeaderAcquired, LeaderFenced, LeaderRefreshed, LeaderRevoked, MeterRead
    from windrow.relay.lifecycle import Relay

__all__ = ["Event", "LeaderAcquired", "LeaderFenced", "LeaderRefreshed", "LeaderRevoked", "MeterRead", "Relay", "State"]
