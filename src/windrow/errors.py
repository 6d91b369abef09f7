"""Every error that windrow raises by itself, in one hierarchy.

    WindrowError
    ├── UserError               a mistake or a missing part that its message tells how to mend (exit status 2)
    │   ├── SettingsInvalid     one or more settings are wrong; lists all of them
    │   ├── MessageInvalid      a message that Kafka could not take; names the field
    │   ├── ConnectionUnknown   a connection that outbox and inbox do not know how to write on
    │   ├── TransformInvalid    the query that messages go through cannot be run, or returns what cannot be published
    │   ├── OutboxTableMissing  the outbox or a part of it is not there, or is of another version
    │   ├── InboxTableMissing   the inbox or the table of its offsets is not there
    │   ├── QueueTopicMissing   a topic that queues need is not there, or not as they need it
    │   ├── DatabaseUnreachable
    │   ├── DatabaseForbids     the database's user lacks a right
    │   ├── KafkaUnreachable
    │   ├── ExtraMissing        a part of windrow that is installed on demand is not; names the extra
    │   └── EnvironmentUnfit    Java, a port, the disk or a registry is not to be had
    ├── Interrupted             a connection broke; goes on by itself from the committed position
    ├── PositionForeign         the committed position belongs to another database, or to this one's future
    ├── SparkLost               the Java process that Spark runs in is gone
    ├── SlotLost                the slot that a relay reads the database's log by is gone, and a part of the log with it
    ├── RelayFenced             the election has moved on: another leads, or this one in a new generation
    ├── PublishFailed           Kafka refused records for good
    ├── LeaseLost               a queue's message was held for too long: another gets it, or has got it
    └── HandlerFailed           a consumer's handler failed for good, and there is no dead-letter topic

A message says what is wrong and what to do about it; it never carries a secret. Where the class is documented stands in
a note beside the message, which stack traces and the command line show.
"""

from collections.abc import Sequence
from typing import Final

_DOCUMENTATION: Final = "docs/reference/errors.md"


class WindrowError(Exception):
    """Root of the hierarchy."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.add_note(f"see {self.documentation()}")

    @classmethod
    def documentation(cls) -> str:
        """Where the class is documented, or the one of this module that it refines."""
        return f"{_DOCUMENTATION}#{cls.known_as().lower()}"

    @classmethod
    def known_as(cls) -> str:
        """The name of the class, or of the one of this module that it refines: by it an error is told elsewhere."""
        return next(each.__name__ for each in cls.__mro__ if each.__module__ == __name__)


class UserError(WindrowError):
    """Something that the person at the keyboard can mend; the message says how."""


class SettingsInvalid(UserError):
    """One or more settings are wrong. All of them are reported at once."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)

    def __reduce__(self) -> tuple[type["SettingsInvalid"], tuple[tuple[str, ...]]]:
        return type(self), (self.mistakes,)


class MessageInvalid(UserError):
    """A message that Kafka could not take, refused before it reaches the outbox."""


class ConnectionUnknown(UserError):
    """Outbox or inbox were given something that is no connection of a library that they know."""


class TransformInvalid(UserError):
    """The query of `transform` cannot be run, or what it returns cannot be published."""


class OutboxTableMissing(UserError):
    """The outbox, or a table beside it, is missing or of another version."""


class InboxTableMissing(UserError):
    """The inbox, or the table of its offsets, is missing."""


class QueueTopicMissing(UserError):
    """A topic that queues need is missing, or is not as they need it."""


class DatabaseUnreachable(UserError):
    """The database does not answer or does not let us in."""


class DatabaseForbids(UserError):
    """The database's user lacks a right that the relay needs."""


class KafkaUnreachable(UserError):
    """No Kafka broker answers or lets us in."""


class ExtraMissing(UserError, ImportError):
    """A package is missing that comes with one of windrow's extras."""


class EnvironmentUnfit(UserError):
    """The machine lacks something: Java, a free port, disk space, a registry that answers."""


class Interrupted(WindrowError):
    """The database or Kafka broke off; the same work may go through later, from the committed position."""


class PositionForeign(WindrowError):
    """The committed position does not belong to the database that the relay reads."""


class SlotLost(WindrowError):
    """The replication slot that the committed position names cannot be read on: the log behind it has a gap."""


class SparkLost(WindrowError):
    """The Java process of the Spark session has ended under us: nothing more can be run in it."""


class RelayFenced(WindrowError):
    """Another has taken over: Kafka refused a transaction of a past membership, the database a leader whose lease is
    over, or rows carry another mark. Dealt with inside the relay.
    """


class PublishFailed(WindrowError):
    """Kafka refused records for good."""

    def __init__(self, message: str, topic: str = "", *, whole_topic: bool = False) -> None:
        super().__init__(message)
        self.topic = topic
        self.whole_topic = whole_topic
        """Whether the topic takes no record at all, not only this one."""
        self.published: frozenset[int] = frozenset()
        """What of the same page was published all the same, by id; in a transaction nothing is."""


class LeaseLost(WindrowError):
    """A message of a queue was neither acknowledged nor kept alive in time: it is redelivered, and this word of its
    handler does not count.
    """


class HandlerFailed(WindrowError):
    """A consumer's handler failed as often as it may, and there is no dead-letter topic for its message."""
