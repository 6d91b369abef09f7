"""After a dump was restored into another cluster, a repaired relay goes on: nothing lost, nothing doubled."""

import dataclasses
import json
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from fix_command import relay_config, windrow
from fix_pipeline import Pipeline
from windrow import embedded
from windrow.capture.position import Position, Snapshot
from windrow.embedded.postgres import find_programs
from windrow.errors import PositionForeign, UserError
from windrow.kafka.clients import client_config, committed_positions, position_reader
from windrow.relay import Relay
from windrow.relay.purge import Purger
from windrow.relay.repair import Repair

pytestmark = pytest.mark.timeout(400)
PATIENCE = 120.0


def test_restored_dump_is_relayed_on_without_loss_or_repetition(
    make_pipeline: Callable[..., Pipeline], spark: SparkSession, tmp_path: Path
) -> None:
    old = make_pipeline(shards=2, purge={"interval": "1h"})
    _let_transactions_pass(old, 500)
    old.write(*(old.message(f"published {number}", key=f"{number}") for number in range(10)))
    with old.relay() as relay:
        old.wait_published(relay, 10, PATIENCE)
    for number in range(10):
        old.write(old.message(f"waits {number}", key=f"{number}"))
    with embedded.Postgres() as elsewhere:
        new = Pipeline(dataclasses.replace(old.settings, data_source=elsewhere.url), old.topic, spark)
        _dump_and_restore(old, new)
        with new.connect() as connection:
            for number in range(10):
                connection.execute("SAVEPOINT here")
                new.outbox.write(connection, new.message(f"new {number}", key=f"{number}"))
        with Relay(new.settings, spark) as relay, pytest.raises(PositionForeign, match="windrow repair"):
            relay.wait(PATIENCE)
        assert sum(Purger(new.settings).purge()) == 0
        _repair_by_command(new, tmp_path)
        with new.relay() as relay:
            new.wait_published(relay, 30, PATIENCE)
            new.write(new.message("later", key="0"))
            new.wait_published(relay, 31)
            with pytest.raises(UserError, match="stop it first"):
                Repair(new.settings).mend()
    of_key: dict[bytes | None, list[bytes | None]] = {}
    for message in new.received():
        of_key.setdefault(message.key(), []).append(message.value())
    expected = {
        f"{number}".encode(): [f"{what} {number}".encode() for what in ("published", "waits", "new")]
        for number in range(10)
    }
    expected[b"0"].append(b"later")
    assert of_key == expected


def _repair_by_command(pipeline: Pipeline, folder: Path) -> None:
    config = relay_config(folder, pipeline.settings)
    shown = windrow("repair", "--config", config, "--json")
    assert shown.returncode == 1, shown.stderr
    found = json.loads(shown.stdout)
    assert len(found.pop("reasons")) == 3, "two shards and the rows"
    assert found == {"published": 10, "waiting": 10, "native": 10, "mended": False}
    assert "nothing was changed" in shown.stderr
    mended = windrow("repair", "--config", config, "--yes")
    assert mended.returncode == 0, mended.stderr
    sound = windrow("repair", "--config", config)
    assert (sound.returncode, "nothing is wrong" in sound.stderr) == (0, True)


def test_repair_that_broke_off_is_taken_up_again(pipeline: Pipeline) -> None:
    """The rows are rewritten, the position is not yet: what was published stays so, what waits is published once."""
    _restore(pipeline, (10, "in lo"), (25, "in hi"), (25, "in hi, but after"), (26, "open in hi"), (40, "later"))
    old = Position("1234567890", lo=Snapshot(20, 20), hi=Snapshot(26, 30, (26,)), after=2).encode()
    _commit_position(pipeline, old)
    first = Repair(pipeline.settings).mend()
    assert (len(first.reasons), first.published, first.waiting, first.native) == (1, 2, 3, 0)
    _commit_position(pipeline, old)
    again = Repair(pipeline.settings).mend()
    assert (len(again.reasons), again.published, again.waiting, again.native) == (1, 2, 0, 3)
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 7 + 3, PATIENCE)
    assert pipeline.values() == [b"in hi, but after", b"open in hi", b"later"]


def test_sound_position_stays_while_rows_from_elsewhere_are_taken_in(pipeline: Pipeline) -> None:
    pipeline.write(pipeline.message("first"))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
    with closing(position_reader(pipeline.settings)) as reader:
        before = committed_positions(reader, pipeline.settings, range(1))
        assert Repair(pipeline.settings).mend().reasons == ()
        _restore(pipeline, (4_000_000_000, "from elsewhere"))
        (reason,) = Repair(pipeline.settings).look().reasons
        assert reason.startswith("the outbox has rows of transaction 4000000000")
        Repair(pipeline.settings).mend()
        assert committed_positions(reader, pipeline.settings, range(1)) == before
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
    assert pipeline.values() == [b"first", b"from elsewhere"]


def test_other_relays_of_the_outbox_are_not_put_in_the_wrong_place(pipeline: Pipeline) -> None:
    table = pipeline.settings.outbox_table
    with pipeline.connect() as connection:
        connection.execute(f"INSERT INTO {table}_relay (name, shards) VALUES ('other', 1)")
        connection.execute(f"INSERT INTO {table}_position VALUES ('other', 0, 1, %s)", (Position("1").encode(),))
    with pytest.raises(UserError, match=r"other relays.*: other\n"):
        Repair(pipeline.settings).mend()


def _let_transactions_pass(pipeline: Pipeline, count: int) -> None:
    with pipeline.connect() as connection:
        connection.autocommit = True
        for _ in range(count):
            connection.execute("SELECT pg_current_xact_id()")


def _dump_and_restore(old: Pipeline, new: Pipeline) -> None:
    programs = find_programs(None)
    dump = subprocess.run(
        [programs / "pg_dump", f"--table={old.settings.outbox_table}*", old.settings.data_source],
        capture_output=True,
        check=True,
    )
    subprocess.run(
        [programs / "psql", "--quiet", "--set=ON_ERROR_STOP=1", new.settings.data_source],
        input=dump.stdout,
        capture_output=True,
        check=True,
    )


def _restore(pipeline: Pipeline, *rows: tuple[int, str]) -> None:
    """Rows as a restored dump has them: with numbers of transactions of another cluster."""
    with pipeline.connect() as connection:
        for tx, value in rows:
            connection.execute(
                f"INSERT INTO {pipeline.settings.outbox_table} (tx, topic, key, value) VALUES (%s, %s, 'key', %s)",
                (str(tx), pipeline.topic, value.encode()),
            )


def _commit_position(pipeline: Pipeline, metadata: str) -> None:
    consumer = Consumer(client_config(pipeline.settings, {"group.id": pipeline.settings.leader_group_id}))
    consumer.commit(offsets=[TopicPartition(pipeline.settings.position_topic, 0, 7, metadata)], asynchronous=False)
    consumer.close()
