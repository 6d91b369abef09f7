"""Whatever order transactions commit in: every committed row is relayed, in order for its key, and no other."""

import random
import threading
from collections import defaultdict
from collections.abc import Callable

import pytest

from fix_pipeline import Pipeline, wait_for
from windrow import Message


def test_rows_committed_out_of_id_order_are_all_relayed(pipeline: Pipeline) -> None:
    writers = [pipeline.connect() for _ in range(20)]
    for number, writer in enumerate(writers):
        pipeline.outbox.write(writer, pipeline.message(f"{number}", key=f"{number}"))
    late_first = random.sample(writers, len(writers))
    with pipeline.relay() as relay:
        for done, writer in enumerate(late_first, 1):
            writer.commit()
            pipeline.wait_published(relay, done)
            writer.close()
    assert sorted(pipeline.values()) == sorted(f"{number}".encode() for number in range(20))


def test_long_transaction_delays_only_its_own_rows(pipeline: Pipeline) -> None:
    with pipeline.connect() as slow, pipeline.relay() as relay:
        pipeline.outbox.write(slow, pipeline.message("slow"))
        for number in range(10):
            pipeline.write(pipeline.message(f"{number}"))
        pipeline.wait_published(relay, 10)
        assert b"slow" not in pipeline.values()
        slow.commit()
        pipeline.wait_published(relay, 11)
    assert pipeline.values().count(b"slow") == 1


def test_row_written_late_by_an_early_transaction_keeps_its_place(pipeline: Pipeline) -> None:
    """Its transaction number is older than the other's, but its row is younger: ids decide."""
    with pipeline.connect() as early:
        early.execute("SELECT pg_current_xact_id()")
        pipeline.write(pipeline.message("first"))
        pipeline.outbox.write(early, pipeline.message("second"))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
    assert pipeline.values() == [b"first", b"second"]


def test_rolled_back_rows_never_appear(pipeline: Pipeline) -> None:
    with pipeline.connect() as connection, pipeline.relay() as relay:
        for number in range(30):
            pipeline.outbox.write(connection, pipeline.message(f"{number}"))
            connection.rollback() if number % 3 else connection.commit()
        pipeline.wait_published(relay, 10)
    assert pipeline.values() == [f"{number}".encode() for number in range(0, 30, 3)]


def test_rows_of_a_rolled_back_savepoint_never_appear(pipeline: Pipeline) -> None:
    with pipeline.connect() as connection:
        pipeline.outbox.write(connection, pipeline.message("kept"))
        connection.execute("SAVEPOINT here")
        pipeline.outbox.write(connection, pipeline.message("dropped"))
        connection.execute("ROLLBACK TO SAVEPOINT here")
        connection.execute("SAVEPOINT there")
        pipeline.outbox.write(connection, pipeline.message("released"))
        connection.execute("RELEASE SAVEPOINT there")
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
    assert pipeline.values() == [b"kept", b"released"]


def test_prepared_transaction_appears_when_it_is_committed(pipeline: Pipeline) -> None:
    with pipeline.connect() as connection, pipeline.relay() as relay:
        connection.tpc_begin(pipeline.topic)
        pipeline.outbox.write(connection, pipeline.message("prepared"))
        connection.tpc_prepare()
        pipeline.write(pipeline.message("other"))
        pipeline.wait_published(relay, 1)
        assert pipeline.values() == [b"other"]
        connection.tpc_commit()
        pipeline.wait_published(relay, 2)
    assert sorted(pipeline.values()) == [b"other", b"prepared"]


@pytest.mark.parametrize("shards", [1, 3])
def test_order_of_each_key_holds_with_8_concurrent_writers(make_pipeline: Callable[..., Pipeline], shards: int) -> None:
    pipeline = make_pipeline(partitions=4, shards=shards)
    keys, per_writer = [f"key {number}" for number in range(10)], 150
    with pipeline.connect() as connection:
        connection.execute(f"CREATE TABLE {pipeline.settings.name}_count (key text PRIMARY KEY, n int DEFAULT 0)")
        connection.cursor().executemany(
            f"INSERT INTO {pipeline.settings.name}_count VALUES (%s)", [(key,) for key in keys]
        )

    def write() -> None:
        with pipeline.connect() as connection:
            for _ in range(per_writer):
                key = random.choice(keys)
                number = connection.execute(
                    f"UPDATE {pipeline.settings.name}_count SET n = n + 1 WHERE key = %s RETURNING n", (key,)
                ).fetchone()
                assert number
                pipeline.outbox.write(connection, pipeline.message(f"{number[0]}", key=key))
                connection.commit()

    with pipeline.relay() as relay:
        threads = [threading.Thread(target=write) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        pipeline.wait_published(relay, 8 * per_writer)
    numbers = defaultdict(list)
    for message in pipeline.received():
        numbers[message.key()].append(int(message.value() or b"0"))
    assert sum(map(len, numbers.values())) == 8 * per_writer
    assert all(each == list(range(1, len(each) + 1)) for each in numbers.values())


def test_backlog_of_many_pages_comes_whole_and_in_order(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(limits={"pageRecords": 70})
    pipeline.write(*(pipeline.message(f"{number}") for number in range(1_000)))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1_000)
        pipeline.write(*(pipeline.message(f"{number}") for number in range(1_000, 1_500)))
        pipeline.wait_published(relay, 1_500)
    assert pipeline.values() == [f"{number}".encode() for number in range(1_500)]


def test_page_is_bounded_by_bytes(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(limits={"pageBytes": "100kB"})
    values = [bytes([number]) * 60_000 for number in range(20)]
    pipeline.write(*map(pipeline.message, values))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 20)
    assert pipeline.values() == values


def test_keyless_messages_of_a_topic_keep_their_order(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(partitions=1, shards=3)
    pipeline.write(*(pipeline.message(f"{number}", key=None) for number in range(100)))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 100)
    assert pipeline.values() == [f"{number}".encode() for number in range(100)]


def test_traffic_goes_on_while_epochs_turn(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(epoch="1s")
    stop = threading.Event()
    written: list[bytes] = []

    def write() -> None:
        with pipeline.connect() as connection:
            while not stop.wait(0.005):
                value = f"{len(written)}"
                pipeline.outbox.write(connection, Message(pipeline.topic, value, "key"))
                connection.commit()
                written.append(value.encode())

    writer = threading.Thread(target=write)
    writer.start()
    with pipeline.relay() as relay:
        wait_for(lambda: relay.epochs >= 4, "four epochs")
        stop.set()
        writer.join()
        pipeline.wait_published(relay, len(written))
    assert pipeline.values() == written
