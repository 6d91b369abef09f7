"""The way of tomorrow-one's transactional-outbox: a faithful baseline, in a process of its own.

While the lock's row is held: read the next 100 unprocessed rows by id, send them all, await them all. Each one's
acknowledgement is followed by one UPDATE, committed by itself, on the producer's own thread. Then the processing
interval passes, whether there is more or not.
"""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import psycopg
from confluent_kafka import KafkaError, KafkaException, Message, Producer

BATCH_SIZE: Final = 100
PROCESSING_INTERVAL: Final = 0.2
PRODUCER: Final[Mapping[str, Any]] = {"enable.idempotence": True, "acks": "all", "linger.ms": 0}
_SOURCE: Final = b"bench"
_LOCK: Final = "CREATE TEMPORARY TABLE outbox_kafka_lock AS SELECT 'bench'::text AS owner_id"
_READ: Final = "SELECT id, topic, key, value, headers FROM {table} WHERE processed IS NULL ORDER BY id LIMIT %s"


def process(source: str, table: str, kafka: Mapping[str, str], interval: float) -> None:
    """Process the outbox until the process is ended."""
    producer = Producer({**kafka, **PRODUCER})
    read = _READ.format(table=table).encode()
    update = f"UPDATE {table} SET processed = now() WHERE id = %s".encode()  # noqa: S608 - the bench's own table
    with (
        psycopg.connect(source, autocommit=True) as connection,
        psycopg.connect(source, autocommit=True) as other,
        other.cursor() as updating,
    ):

        def processed(number: int, error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            updating.execute(update, (number,), prepare=True)

        connection.execute(_LOCK)
        while True:
            with connection.transaction(), connection.cursor(binary=True) as cursor:
                cursor.execute("SELECT owner_id FROM outbox_kafka_lock FOR UPDATE")
                cursor.execute(read, (BATCH_SIZE,), prepare=True)
                for number, topic, key, value, headers in cursor:
                    own = {"x-sequence": number.to_bytes(8, "big"), "x-source": _SOURCE}
                    producer.produce(
                        topic,
                        value,
                        key,
                        headers=[*headers.items(), *own.items()],
                        on_delivery=partial(processed, number),
                    )
                producer.flush()
            time.sleep(interval)
