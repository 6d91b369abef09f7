"""Kafka's protocol, as much of it as a relay's hot path takes: transactions of record batches and positions.

librdkafka takes one record at a time and needs several round trips for a small transaction. Here, a page is encoded in
columns, and Kafka 4's transactions (KIP-890) take no registration beforehand. What this leaves out on purpose: it never
sends anything a second time. Whatever goes wrong ends the connection, and its owner starts from what is committed.
"""
