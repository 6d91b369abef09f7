# ruff: noqa: INP001, T201 - a script, which prints
"""A ledger that survives kill -9 in the middle of its work: each payment moves money once.

    pip install "windrow[inbox]"
    KAFKA=localhost:9092 DATABASE=postgresql://app@localhost/shop python inbox_ledger.py

A payment is two changes with a slow step between them. Kill the process there, as often as you like, and start it
again: what was done by half is undone and done anew, and nothing is done twice. The changes, the inbox's entry and the
offset are one transaction.
"""

import json
import os
import signal
import time
from typing import Any

import psycopg

from windrow.inbox import ConsumerSettings, Inbox, InboxConsumer

SETTINGS = ConsumerSettings(
    base_kafka_config={
        "bootstrap.servers": os.environ["KAFKA"],
        "group.instance.id": os.environ.get("INSTANCE", "ledger-1"),  # who comes back under its name is not waited for
    },
    data_source=os.environ["DATABASE"],
    group=os.environ.get("GROUP", "ledger"),
    topics=(os.environ.get("TOPIC", "payments"),),
)
SLOW_STEP = float(os.environ.get("SLOW_STEP", "1"))


def prepare() -> None:
    with psycopg.connect(SETTINGS.data_source) as connection:
        Inbox(SETTINGS.group).create(connection)
        connection.execute("CREATE TABLE IF NOT EXISTS ledger (account text PRIMARY KEY, cents integer NOT NULL)")


def transfer(connection: Any, payment: Any) -> None:
    """Take from one, give to the other; called once for each payment, as far as the database knows."""
    content = json.loads(payment.value())
    move(connection, content["from"], -content["cents"])
    print("half done:", content["number"], flush=True)
    time.sleep(SLOW_STEP)  # kill -9 here
    move(connection, content["to"], content["cents"])


def move(connection: Any, account: str, cents: int) -> None:
    connection.execute(
        "INSERT INTO ledger VALUES (%s, %s) ON CONFLICT (account) DO UPDATE SET cents = ledger.cents + excluded.cents",
        (account, cents),
    )


def main() -> None:
    prepare()
    consumer = InboxConsumer(SETTINGS, transfer)
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    consumer.run()


if __name__ == "__main__":
    main()
