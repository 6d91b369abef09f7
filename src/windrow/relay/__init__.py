"""The relay: publishes an outbox to Kafka, exactly once and in order, with its work on Spark's executors."""

from windrow.relay.lifecycle import Relay, State

__all__ = ["Relay", "State"]
