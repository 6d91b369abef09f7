# ruff: noqa: INP001, T201 - a script, which prints
"""Accounts by event state capture: the event is published first, and the table is what comes of it.

    pip install "windrow[inbox]"
    KAFKA=localhost:9092 DATABASE=postgresql://app@localhost/shop python event_state.py

There is no outbox and no relay; the topic account-events has to be there. It is the truth: delete the table, the
inbox and its offsets, and the accounts are there again after the next start.
"""

import json
import os
import threading
from typing import Any
from uuid import uuid4

import psycopg

from windrow import Message
from windrow.inbox import ConsumerSettings, Inbox, InboxConsumer, OwnEvents

SETTINGS = ConsumerSettings(
    base_kafka_config={"bootstrap.servers": os.environ["KAFKA"]},
    data_source=os.environ["DATABASE"],
    group=os.environ.get("GROUP", "accounts"),
    topics=(os.environ.get("TOPIC", "account-events"),),
)


def prepare() -> None:
    with psycopg.connect(SETTINGS.data_source) as connection:
        Inbox(SETTINGS.group).create(connection)
        connection.execute("CREATE TABLE IF NOT EXISTS accounts (id text PRIMARY KEY, cents integer NOT NULL)")


def apply(connection: Any, event: Any) -> None:
    """Write what an event says; called once for each, within the transaction that remembers it."""
    content = json.loads(event.value())
    connection.execute(
        "INSERT INTO accounts VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET cents = accounts.cents + excluded.cents",
        (content["account"], content["cents"]),
    )


def deposit(events: OwnEvents, account: str, cents: int, request: str) -> bool:
    """Publish, then wait until it is applied. Whoever asks again under the same request deposits once."""
    content = json.dumps({"account": account, "cents": cents})
    published = events.publish(Message(SETTINGS.topics[0], content, key=account), event_id=request)
    return events.applied(published, timeout=10)


def main() -> None:
    prepare()
    consumer, events = InboxConsumer(SETTINGS, apply), OwnEvents(SETTINGS)
    applying = threading.Thread(target=consumer.run)
    applying.start()
    try:
        request = str(uuid4())
        print("applied:", deposit(events, "alice", 1200, request), deposit(events, "alice", 1200, request))
        with psycopg.connect(SETTINGS.data_source) as connection:
            print("alice has", connection.execute("SELECT cents FROM accounts WHERE id = 'alice'").fetchone())
    finally:
        consumer.stop()
        applying.join()
        events.close()


if __name__ == "__main__":
    main()
