"""The relay as its owner sees it: what it checks before it starts, and what it tells.

What passes (a lost executor, a server away, another relay's turn) costs a pause; what does not pass (a record that
Kafka refuses, a foreign position) stops it, and `wait` raises it.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import SparkSession

from windrow.election.led import Led
from windrow.election.mandate import Term
from windrow.election.protocol import election_of
from windrow.kafka.clients import check_own_topics
from windrow.record import Committed
from windrow.relay.epoch import warm_up
from windrow.relay.events import Event, MeterRead
from windrow.relay.leadership import Desk, Leadership, positions
from windrow.relay.meter import in_flight
from windrow.relay.registry import Registry
from windrow.relay.transform import check_transform
from windrow.settings import Settings

log = logging.getLogger(__name__)


class Doings(NamedTuple):
    """What one relay has done, in all its terms."""

    elections: int = 0
    """Terms that it has begun."""
    epochs: int = 0
    purged: int = 0
    """Rows that it has deleted."""
    deposals: int = 0
    """Times that it found another leading in its place."""

    def after(self, term: Leadership) -> "Doings":
        return Doings(
            self.elections + 1, self.epochs + term.epochs, self.purged + term.purged, self.deposals + term.deposed
        )


class Relay(Led):
    """Publishes an outbox to Kafka. `with Relay(settings) as relay: relay.wait()`.

    Of several relays of one name, one leads and the others stand by. It runs in the given Spark session, or in one that
    it makes from the settings and stops at the end. `on_event` is called in the relay's own thread: be quick there.
    """

    def __init__(
        self, settings: Settings, spark: SparkSession | None = None, on_event: Callable[[Event], None] | None = None
    ) -> None:
        title, pause = f"relay {settings.name}", settings.limits.io_error_backoff
        super().__init__(title, election_of(settings), pause, settings.spark, spark)
        self.settings = settings
        self._on_event = on_event
        self._registry = Registry(settings)
        self._past = Doings()
        self._leadership: Leadership | None = None

    @property
    def is_active(self) -> bool:
        """For cleanup jobs of one's own, which one of several relays is to run: true while this one has the mandate."""
        return self.is_leader

    @property
    def epochs(self) -> int:
        """Epochs that this relay has begun."""
        return self.doings.epochs

    @property
    def doings(self) -> Doings:
        """What this relay has done since it was made."""
        term = self._leadership
        return self._past.after(term) if term else self._past

    @property
    def in_flight_records(self) -> int:
        """Records that shards have read and not yet committed, as they told the database in the last seconds."""
        return in_flight(self.settings).records

    @property
    def in_flight_keys(self) -> int:
        """How many keys the records in flight have."""
        return in_flight(self.settings).keys

    def published(self) -> int:
        """How many records relays of this name have published since there are any, as Kafka knows it."""
        return sum(at.published for at in self.positions().values())

    def positions(self) -> dict[int, Committed]:
        """How far each shard is, as Kafka knows it."""
        return positions(self.settings)

    def _check_servers(self) -> None:
        check_own_topics(self.settings, self._registry.fit_shards())

    def _for_python(self) -> bool:
        return not self.settings.transform

    def _check_session(self) -> None:
        if self.settings.transform:
            check_transform(self._session, self.settings)

    def _warm_up(self) -> None:
        warm_up(self._session)

    def _lead(self, term: Term) -> None:
        leadership = self._leadership = Leadership(self._desk(), term)
        try:
            leadership.lead()
        finally:
            self._past, self._leadership = self._past.after(leadership), None

    def _desk(self) -> Desk:
        return Desk(
            self.settings,
            self._session,
            self._jobs,
            self._election,
            self._stop,
            self._tell,
            self._on_event is not None,
            self._patience,
        )

    def _last_words(self) -> None:
        if self.epochs:
            self._registry.save(self.positions())

    def _tell(self, event: Event) -> None:
        level = logging.DEBUG if isinstance(event, MeterRead) else logging.INFO
        term = {"term": event.leader_id}
        log.log(level, "relay %s: %s %s", self.settings.name, type(event).__name__, event.leader_id, extra=term)
        if self._on_event:
            try:
                self._on_event(event)
            except Exception:  # the owner's own mistake must not end the relay
                log.exception("relay %s: the event handler failed", self.settings.name)
