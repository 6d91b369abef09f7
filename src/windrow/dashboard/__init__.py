"""The dashboard: one page that shows how a relay and its queues are, and changes what a token allows.

It shows what the relay's watch and `windrow queue list` see from outside, and remembers the last half hour. So whoever
reaches the database and Kafka can serve it; the relay need not run. Pages ask the chronicle, never the servers: a
hundred open pages cost them no more than one, but for lists of dead letters. Invariant: without the token nothing
changes, and no message's content or key leaves.
"""
