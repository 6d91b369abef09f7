# ruff: noqa: INP001, T201 - a script, which prints
"""Place orders and write their messages in the same transactions; receive what the relay publishes.

In one terminal:      windrow servers up
In two others, after pasting the export lines that it prints:
                      windrow init --config examples/relay.yaml
                      windrow relay --config examples/relay.yaml
                      python examples/quickstart.py
"""

import json
import os
from contextlib import closing
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer

from windrow import Message, Outbox

outbox = Outbox()


def place_order(connection: psycopg.Connection, customer: str, amount: int) -> str:
    """Insert the order and its message; whoever calls owns the transaction."""
    order = str(uuid4())
    connection.execute("INSERT INTO orders (id, customer, amount) VALUES (%s, %s, %s)", (order, customer, amount))
    value = json.dumps({"order": order, "amount": amount})
    outbox.write(connection, Message("orders", key=customer, value=value, headers={"type": "OrderPlaced"}))
    return order


def write() -> str:
    """Three orders, of which the second is rolled back; the last one's id."""
    with psycopg.connect(os.environ["WINDROW_DATA_SOURCE"], autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY, customer text, amount integer)")
        with connection.transaction():
            print("committed    ", place_order(connection, "alice", 120))
        with connection.transaction():
            print("rolled back  ", place_order(connection, "alice", 999))
            raise psycopg.Rollback
        with connection.transaction():
            last = place_order(connection, "alice", 80)
            print("committed    ", last)
    return last


def receive(last: str) -> None:
    """Print the messages up to the one of the order `last`."""
    settings = {
        "bootstrap.servers": os.environ["WINDROW_KAFKA_BOOTSTRAP_SERVERS"],
        "group.id": "quickstart",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "allow.auto.create.topics": True,
    }
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe(["orders"])
        order = None
        while order != last:
            message = consumer.poll(1.0)
            if message is None or message.error():
                continue
            order = json.loads(message.value())["order"]
            headers = ", ".join(f"{name}={content.decode()}" for name, content in message.headers())
            print("received     ", order, f"({headers})")


if __name__ == "__main__":
    receive(write())
