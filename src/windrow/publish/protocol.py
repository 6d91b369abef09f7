"""What every publisher does: send pages to Kafka, and know what the shard has committed.

A publisher connects when it is made, and disturbs nobody before `open`. If publishing fails, the publisher is thrown
away and a new one opens, unless Kafka refused records for good: then it may go on around them.
"""

from collections.abc import Sequence
from typing import Protocol

from windrow.record import Committed, Progress, Record, Released


class Publisher(Protocol):
    """A sink of pages, for one shard. Not safe for concurrent use."""

    committed: Committed | None
    """Where the shard stands; None where it has never published."""

    def open(self, membership: bytes, known: Committed | None, /) -> None:
        """Take over from the predecessor, and read how far it came; where Kafka has forgotten that, as far as is known
        otherwise.
        """
        ...

    def publish(self, records: Sequence[Record], progress: Progress | Released) -> None:
        """Publish the records and the progress that they make.

        Raises `PublishFailed` for what Kafka refuses for good, and says there what was published all the same;
        `Interrupted` or `RelayFenced` for what may go through on another try.
        """
        ...

    def renew(self) -> None:
        """Commit what is committed anew, so that Kafka does not forget it."""
        ...

    def listen(self) -> None:
        """Let Kafka's clients say what they have to say, now and then while there is nothing to publish."""
        ...

    def close(self) -> None: ...
