# ruff: noqa: INP001 - a script
"""Payments as protobuf messages: consumers find the message's full name in the header `x-value-type`.

    pip install protobuf "psycopg[binary]" windrow
    DATABASE=postgresql://app@localhost/shop python protobuf_payments.py

A service has classes that protoc made of its own schema; to need no compiler, this one uses a type of Google's.
"""

import os

import psycopg
from google.protobuf.struct_pb2 import Struct

from windrow.outbox import ProtobufOutbox

outbox = ProtobufOutbox()


def pay(connection: psycopg.Connection, account: str, cents: int) -> int:
    """Book the payment and tell it; whoever calls owns the transaction."""
    connection.execute("INSERT INTO payments (account, cents) VALUES (%s, %s)", (account, cents))
    payment = Struct()
    payment.update({"account": account, "cents": cents})
    return outbox.write(connection, "payments", payment, key=account)


def main() -> None:
    with psycopg.connect(os.environ["DATABASE"]) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS payments (account text, cents integer)")
        pay(connection, "alice", 1200)


if __name__ == "__main__":
    main()
