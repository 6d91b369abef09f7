"""The consumer's transactions: the offsets, the inbox's entries and the handler's effects are committed together.

Invariant: a partition's offset goes on only from where this consumer believes it to be. Whoever lost the partition
meanwhile finds it elsewhere, changes nothing, and is told. The offset comes first in the transaction, so that another
who works on the same messages waits for its end before a handler runs.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias, TypeVar

from windrow.drivers import driver_of
from windrow.errors import (
    DatabaseForbids,
    DatabaseUnreachable,
    InboxTableMissing,
    Interrupted,
    SettingsInvalid,
    UserError,
)
from windrow.inbox.acceptance import Inbox
from windrow.inbox.failure import forbidden, missing, passing, spoiled
from windrow.observe.tracing import handling

T = TypeVar("T")
Handler: TypeAlias = Callable[[Any, Any], object]
"""Called with the connection and the message; what it returns is ignored."""


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int


Spans: TypeAlias = Mapping[Place, tuple[int, int]]
"""For each partition the offset that it is at, and the one that it is to go on to."""


@dataclass(frozen=True, slots=True)
class Done:
    """Committed."""

    accepted: int = 0
    """How many messages were handled; the others had been before."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Nothing was changed: another has gone on in a partition."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing was changed: the handler failed on this message."""

    message: Any
    error: Exception


@dataclass(frozen=True, slots=True)
class Spoiled:
    """Nothing was changed: some handler swallowed a database error, or rolled back."""


Outcome: TypeAlias = Done | Lost | Failed | Spoiled


class Work:
    """Transactions on a connection of its own, which is opened when it is needed, and anew after it broke."""

    def __init__(self, connect: Callable[[], Any], inbox: Inbox, handler: Handler) -> None:
        self._connect, self._inbox, self._handler = connect, inbox, handler
        self._connection: Any = None
        self._known = False
        """Whether the database has ever answered: from then on it will again."""

    def offsets(self) -> dict[Place, int]:
        """Where the consumer is in each partition that it has ever entered."""
        return self._committed(self._offsets)

    def enter(self, starts: Mapping[Place, int]) -> None:
        """Note where the consumer begins in partitions that it has not entered before."""

        def note(connection: Any) -> None:
            driver = driver_of(connection)
            for place, offset in sorted(starts.items()):
                driver.change(*self._inbox.begin_at(*place, offset, driver.dialect))

        self._committed(note)

    def do(self, messages: Sequence[Any], spans: Spans) -> Outcome:
        """Have the new ones of the messages handled, and go on behind all of them."""

        def handle(connection: Any) -> int:
            self._advance(connection, spans)
            handler = handling(self._handler, self._inbox.name)
            accepted = self._inbox.accept_many(connection, messages)
            for message in accepted:
                try:
                    handler(connection, message)
                except Exception as error:  # whatever it is, it is the handler's and gets counted
                    raise _HandlerRaised(message) from error
            self._check(connection, spans)
            return len(accepted)

        return self._outcome(handle)

    def skip(self, message: Any, spans: Spans) -> Outcome:
        """Go on behind a message that is dealt with elsewhere."""

        def note(connection: Any) -> int:
            self._advance(connection, spans)
            self._inbox.accept(connection, message)
            return 0

        return self._outcome(note)

    def purge(self, retention: timedelta) -> int:
        return self._committed(lambda connection: self._inbox.purge(connection, retention))

    def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):  # it may be broken
                self._connection.close()
            self._connection = None

    def _offsets(self, connection: Any) -> dict[Place, int]:
        driver = driver_of(connection)
        rows = driver.fetch(*self._inbox.offsets(driver.dialect))
        return {Place(topic, partition): offset for topic, partition, offset in rows}

    def _advance(self, connection: Any, spans: Spans) -> None:
        driver = driver_of(connection)
        for place, span in sorted(spans.items()):  # in one order, so that nobody waits in a circle
            if driver.change(*self._inbox.advance(*place, span, driver.dialect)) != 1:
                raise _Passed

    def _check(self, connection: Any, spans: Spans) -> None:
        """Raise unless the transaction is still the one that the offsets went on in. A database may have ended it when
        a statement failed, and a commit then says nothing, or commits effects without their offsets.
        """
        try:
            now = self._offsets(connection)
        except Exception as error:
            if spoiled(error):
                raise _Broken from error
            raise
        if any(now.get(place) != end for place, (_, end) in spans.items()):
            raise _Broken

    def _outcome(self, what: Callable[[Any], int]) -> Outcome:
        try:
            return Done(self._committed(what))
        except _Passed:
            return Lost()
        except _Broken:
            return Spoiled()
        except _HandlerRaised as raised:
            error = raised.__cause__
            if isinstance(error, Exception) and spoiled(error):
                return Spoiled()
            if not isinstance(error, Exception) or passing(error):
                raise Interrupted(f"the database broke off in a handler: {error}") from error
            return Failed(raised.message, error)

    def _committed(self, what: Callable[[Any], T]) -> T:
        """Run it in a transaction; where that does not end well, nothing is changed, or nobody knows."""
        try:
            connection = self._open()
            result = what(connection)
            connection.commit()
        except (_Passed, _Broken, _HandlerRaised):
            self._undo()
            raise
        except UserError:
            self.close()
            raise
        except Exception as error:
            self.close()
            if missing(error):
                remedy = f'inboxTable {self._inbox.table} or what belongs to it is not there: run "windrow inbox init"'
                raise InboxTableMissing(remedy) from error
            if forbidden(error):
                raise DatabaseForbids(f"{error}: grant the right to the consumer's user") from error
            if not passing(error):
                raise
            raise Interrupted(f"the database broke off: {error}") from error
        except BaseException:
            self.close()
            raise
        return result

    def _undo(self) -> None:
        try:
            self._connection.rollback()
        except Exception as error:
            self.close()
            raise Interrupted(f"the database broke off: {error}") from error

    def _open(self) -> Any:
        if self._connection is None:
            try:
                self._connection = self._connect()
            except DatabaseUnreachable as error:
                if not self._known:
                    raise
                raise Interrupted(str(error)) from error
            self._known = True
            if _in_autocommit(self._connection):
                raise SettingsInvalid(["connect: give connections that are not in autocommit"])
        return self._connection


class _Passed(Exception):
    """Another has gone on in a partition."""


class _Broken(Exception):
    """A handler has broken the transaction and said nothing."""


class _HandlerRaised(Exception):
    def __init__(self, message: Any) -> None:
        super().__init__()
        self.message = message


def _in_autocommit(connection: Any) -> bool:
    asked = getattr(connection, "get_autocommit", None)
    return bool(asked()) if asked else getattr(connection, "autocommit", False) is True
