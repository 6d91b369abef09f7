"""Writers at work, each with its own journal: what users do to an outbox, and what they should not.

Each transaction is drawn at random: most are small; some are rolled back, wholly or to a savepoint, some are prepared
and committed later, some stay open for seconds, some get their number long before they write, some are large. Keys are
private to a writer, but for the hot ones. A message's place among its key's is counted in the database, in the same
transaction, under a row's lock: so the order in which a key's messages are written is the one that the places tell.

A transaction is noted in the journal right before its outcome is sought, and in the database by itself: so it is known
afterwards of each one whether it was committed. What was prepared when a writer was killed or cut off is committed by
its next life.
"""

import contextlib
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal
from uuid import uuid4

from windrow.database.connections import connect, connect_plainly
from windrow.errors import DatabaseUnreachable
from windrow.lab.child import told_to_stop
from windrow.lab.history import QUEUED, Journal, Sent
from windrow.lab.queues import QUEUE
from windrow.message import Message
from windrow.outbox import Outbox
from windrow.settings import Settings

_HOT_KEYS: Final = 3
_PRIVATE_KEYS: Final = 8
_QUEUED_SHARE: Final = 0.2
_AFTER_BREAK: Final = 0.2
_LARGEST: Final = 100_000_000
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS lab_place (name varchar(100) PRIMARY KEY, place bigint NOT NULL)",
    "CREATE TABLE IF NOT EXISTS lab_commit (client varchar(100) NOT NULL, number bigint NOT NULL)",
)
_COUNT: Final = {
    "postgresql": "INSERT INTO lab_place VALUES (%s, 1) ON CONFLICT (name) DO UPDATE SET place = lab_place.place + 1",
    "mysql": "INSERT INTO lab_place VALUES (%s, 1) ON DUPLICATE KEY UPDATE place = place + 1",
}
# Whoever left a lock behind is met again in recovery, which comes with the next connection.
_PATIENCE: Final = {"postgresql": "SET lock_timeout = '5s'", "mysql": "SET innodb_lock_wait_timeout = 5"}

Kind = Literal["plain", "rolled back", "savepoint", "prepared", "early", "long", "large"]
_KINDS: Final[dict[Kind, float]] = {
    "plain": 0.68,
    "rolled back": 0.1,
    "savepoint": 0.1,
    "prepared": 0.04,
    "early": 0.05,
    "long": 0.02,
    "large": 0.01,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What one transaction is to be."""

    kind: Kind
    keys: tuple[str, ...]
    size: int = 20
    """Bytes beside what identifies a message."""
    open_for: float = 0.0
    """Seconds between its last statement and its end; where it is early, between its first one, which gives it its
    number, and its messages."""
    queued: int = 0
    """Messages for the queue besides."""


def draw(chance: random.Random, client: str) -> Shape:
    """The next transaction of a client. At most one key is hot, and it comes first: so nobody waits in a circle."""
    kind: Kind = chance.choices(list(_KINDS), list(_KINDS.values()))[0]
    own = [f"{client} {chance.randrange(_PRIVATE_KEYS)}" for _ in range(chance.randint(1, 5))]
    if kind == "long":
        return Shape(kind, tuple(own), open_for=chance.uniform(0.5, 4.0))
    if kind == "large":
        return Shape(kind, tuple(own[:1]), size=chance.choice([300_000, 300_000, 1_000_000, 10_000_000]))
    hot = [f"hot {chance.randrange(_HOT_KEYS)}"] if kind == "early" or chance.random() < 0.3 else []
    return Shape(kind, (*hot, *own), open_for=chance.uniform(0.0, 0.5 if kind == "early" else 0.05))


@dataclass(frozen=True, slots=True)
class Load:
    """What is written, and by how many."""

    topic: str
    seed: int
    writers: int
    rate: float
    """Transactions a second, of all writers together."""
    queues: bool = False
    """Whether some of them write for a queue, too."""


def create_load(settings: Settings) -> None:
    with connect(settings.data_source) as connection:
        for each in _TABLES:
            connection.execute(each)


def read_commits(settings: Settings) -> set[tuple[str, int]]:
    """The transactions that were committed, by their client and its number."""
    with connect(settings.data_source) as connection:
        rows = connection.execute("SELECT client, number FROM lab_commit").fetchall()
    return {(client, number) for client, number in rows}


def run_writers(settings: Settings, load: Load, folder: Path) -> None:
    """Write until SIGTERM. To be run in a process of its own."""
    stop = told_to_stop()
    with ThreadPoolExecutor(load.writers) as threads:
        writers = [Writer(settings, load, folder / f"writer-{number}.jsonl") for number in range(load.writers)]
        lives = [threads.submit(each.run, stop) for each in writers]
    for each in lives:
        each.result()


class Writer:
    """One client."""

    def __init__(self, settings: Settings, load: Load, journal: Path) -> None:
        self._settings, self._load, self._client = settings, load, journal.stem
        self._journal = Journal(journal)
        # After a life that was killed, another sequence.
        self._chance = random.Random(f"{load.seed} {self._client} {self._journal.number}")  # noqa: S311 - no secret
        self._outbox = Outbox(settings.outbox_table, max_value_bytes=_LARGEST)

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                with closing(connect_plainly(self._settings.data_source, "windrow lab")) as connection:
                    self._write_on(connection, stop)
            except DatabaseUnreachable:
                stop.wait(_AFTER_BREAK)
        self.recover()

    def _write_on(self, connection: Any, stop: threading.Event) -> None:
        """Until told to stop, or until the connection fails."""
        try:
            self._recover(connection)
            while not stop.wait(self._chance.expovariate(self._load.rate / self._load.writers)):
                shape = draw(self._chance, self._client)
                if self._load.queues and self._chance.random() < _QUEUED_SHARE:
                    shape = replace(shape, queued=self._chance.randint(1, 3))
                if shape.kind == "prepared" and self._settings.dialect == "mysql":
                    continue
                self.write(connection, shape)
        except connection.Error:
            stop.wait(_AFTER_BREAK)
            with contextlib.suppress(connection.Error):
                connection.rollback()

    def write(self, connection: Any, shape: Shape) -> None:
        """One transaction, from its first statement to its end."""
        began = time.monotonic()
        cursor = connection.cursor()
        if shape.kind == "early":
            cursor.execute(_COUNT[self._settings.dialect], (f"{self._client} early",))
            time.sleep(shape.open_for)
        send = partial(self._send, connection, cursor, began, shape.size)
        sent = [send(key) for key in shape.keys]
        sent += [self._send_to_queue(connection, began) for _ in range(shape.queued)]
        if shape.kind == "savepoint":
            cursor.execute("SAVEPOINT before_second_thoughts")
            undone = [send(key) for key in reversed(shape.keys)]
            cursor.execute("ROLLBACK TO SAVEPOINT before_second_thoughts")
            self._journal.end(self._journal.begin(undone, began), "failed")
        if shape.kind != "early":
            time.sleep(shape.open_for)
        number = self._journal.begin(sent, began)
        cursor.execute("INSERT INTO lab_commit VALUES (%s, %s)", (self._client, number))
        match shape.kind:
            case "rolled back":
                self._journal.end(number, "failed")
                connection.rollback()
                return
            case "prepared":
                cursor.execute(f"PREPARE TRANSACTION '{self._client}/{number}'")
                self._commit_prepared(connection, number)
            case _:
                connection.commit()
        self._journal.end(number, "ok")

    def write_burst(self, count: int, size: int) -> None:
        """Many messages of as many keys in one transaction, if the database is there."""
        keys = tuple(f"{self._client} {place}" for place in range(count))
        with (
            contextlib.suppress(DatabaseUnreachable),
            closing(connect_plainly(self._settings.data_source, "windrow lab")) as connection,
            contextlib.suppress(connection.Error),
        ):
            self.write(connection, Shape("plain", keys, size))

    def recover(self) -> None:
        """Commit what an earlier life, or a connection that was lost, has prepared; for as long as it takes."""
        while True:
            try:
                connection = connect_plainly(self._settings.data_source, "windrow lab")
            except DatabaseUnreachable:
                time.sleep(_AFTER_BREAK)
                continue
            with closing(connection), contextlib.suppress(connection.Error):
                return self._recover(connection)

    def _recover(self, connection: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(_PATIENCE[self._settings.dialect])
        connection.commit()
        if self._settings.dialect == "mysql":
            return
        mine = f"{self._client}/"
        cursor.execute("SELECT gid FROM pg_prepared_xacts WHERE starts_with(gid, %s)", (mine,))
        prepared: Sequence[tuple[str]] = cursor.fetchall()
        connection.rollback()
        for (name,) in prepared:
            number = int(name.removeprefix(mine))
            self._commit_prepared(connection, number)
            self._journal.end(number, "ok")

    def _commit_prepared(self, connection: Any, number: int) -> None:
        connection.autocommit = True
        connection.execute(f"COMMIT PREPARED '{self._client}/{number}'")
        connection.autocommit = False

    def _send(self, connection: Any, cursor: Any, began: float, size: int, key: str) -> Sent:
        cursor.execute(_COUNT[self._settings.dialect], (key,))
        cursor.execute("SELECT place FROM lab_place WHERE name = %s", (key,))
        sent = Sent(uuid4().hex, key, int(cursor.fetchone()[0]))
        # When its transaction began comes with it, so that whoever receives it sees at once how late it is.
        value = f"{sent.id} {began} {'x' * size}"
        self._outbox.write(connection, Message(self._load.topic, value, key))
        return sent

    def _send_to_queue(self, connection: Any, began: float) -> Sent:
        sent = Sent(uuid4().hex, QUEUED, 0)
        self._outbox.write(connection, f"{sent.id} {began} ", queue=QUEUE)
        return sent
