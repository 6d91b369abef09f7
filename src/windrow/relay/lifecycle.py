"""The relay as its owner sees it: started, leading or standing by, stopped; and the thread that does it.

Invariant: a relay that runs publishes, stands by, or is about to try again. What passes (a lost executor, a server
away, another relay's turn) costs a pause; what does not pass (a record that Kafka refuses, a foreign position) stops
it, and `wait` raises it.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from enum import Enum
from types import TracebackType
from typing import Final, Self
from uuid import UUID, uuid4

from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from windrow import errors
from windrow.election.protocol import election_of
from windrow.kafka.clients import check_own_topics
from windrow.record import Committed
from windrow.relay.away import Patience, first_line
from windrow.relay.epoch import warm_up
from windrow.relay.events import Event, MeterRead
from windrow.relay.leadership import Desk, Leadership, positions
from windrow.relay.meter import in_flight
from windrow.relay.registry import Registry
from windrow.relay.transform import check_transform
from windrow.settings import Settings
from windrow.spark.session import cancel, group_jobs, session

log = logging.getLogger(__name__)

_GRACE: Final = 15.0
_LOOK_EVERY: Final = 0.02
_SOON: Final = 1.0
_STAY_WARM: Final = 30.0


class State(Enum):
    """What a relay is up to."""

    CREATED = "created"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Relay:
    """Publishes an outbox to Kafka. `with Relay(settings) as relay: relay.wait()`.

    Of several relays of one name, one leads and the others stand by. It runs in the given Spark session, or in one that
    it makes from the settings and stops at the end. `on_event` is called in the relay's own thread: be quick there.
    """

    def __init__(
        self, settings: Settings, spark: SparkSession | None = None, on_event: Callable[[Event], None] | None = None
    ) -> None:
        self.settings = settings
        self.state = State.CREATED
        self._on_event = on_event
        self._registry = Registry(settings)
        self._own_spark = spark is None
        self._spark = spark
        self._jobs = f"windrow {settings.name} {uuid4()}"
        self._election = election_of(settings)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"relay {settings.name}", daemon=True)
        self._error: BaseException | None = None
        self._epochs = 0
        self._leadership: Leadership | None = None
        self._patience = Patience(settings, self._stop)

    @property
    def leader_id(self) -> UUID | None:
        """The present term's id; None while another relay leads."""
        term = self._election.term
        return term.id if term else None

    @property
    def is_leader(self) -> bool:
        return self.leader_id is not None

    @property
    def is_active(self) -> bool:
        """For cleanup jobs of one's own, which one of several relays is to run: true while this one has the mandate."""
        return self.is_leader

    @property
    def epochs(self) -> int:
        """Epochs that this relay has begun."""
        return self._epochs + (self._leadership.epochs if self._leadership else 0)

    @property
    def in_flight_records(self) -> int:
        """Records that shards have read and not yet committed, as they told the database in the last seconds."""
        return in_flight(self.settings).records

    @property
    def in_flight_keys(self) -> int:
        """How many keys the records in flight have."""
        return in_flight(self.settings).keys

    def start(self) -> None:
        """Check that everything is there, and begin; a mistake is raised here, before anything runs."""
        if self.state is not State.CREATED:
            raise RuntimeError(f"a relay starts once; this one is {self.state.value}")
        check_own_topics(self.settings, self._registry.fit_shards())
        if self._spark is None:
            self._spark = session(self.settings.spark, self.settings.name)
        if self.settings.transform:
            check_transform(self._spark, self.settings)
        self.state = State.RUNNING
        self._thread.start()

    def stop(self) -> None:
        """Let the page in hand be published, make way for another relay, and end."""
        if self.state is State.CREATED:
            self.state = State.STOPPED
        if self.state is not State.RUNNING:
            return
        self.state = State.STOPPING
        self._stop.set()
        self._thread.join(_GRACE)
        if self._thread.is_alive():
            log.warning("relay %s: its tasks do not end by themselves; cancelling them", self.settings.name)
            cancel(self._session, self._jobs)
            self._thread.join(_GRACE)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; False if it has not come in time. Raises what stopped the relay, if not `stop`."""
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def published(self) -> int:
        """How many records relays of this name have published since there are any, as Kafka knows it."""
        return sum(at.published for at in self.positions().values())

    def positions(self) -> dict[int, Committed]:
        """How far each shard is, as Kafka knows it."""
        return positions(self.settings)

    @property
    def _session(self) -> SparkSession:
        if self._spark is None:
            raise AssertionError("not started")
        return self._spark

    def _run(self) -> None:
        desk = Desk(
            self.settings,
            self._session,
            self._jobs,
            self._election,
            self._stop,
            self._tell,
            self._on_event is not None,
            self._patience,
        )
        try:
            with ThreadPoolExecutor(1, "warm-up", group_jobs, (self._session, self._jobs)) as aside, self._election:
                while not self._stop.is_set() and self._election.running:
                    if term := self._election.term:
                        self._lead(Leadership(desk, term))
                    else:
                        self._stand_by(aside)
            if not self._stop.is_set():
                raise errors.WindrowError("the election's thread has ended; its own error is in the log")  # noqa: TRY301
        except (errors.WindrowError, PythonException) as error:
            self._error = error
            log.error("relay %s ends: %s", self.settings.name, first_line(error))  # noqa: TRY400 - `wait` raises it
        finally:
            if self.epochs:
                with self._patience():
                    self._registry.save(self.positions())
            if self._own_spark:
                self._session.stop()
            self.state = State.STOPPED
            log.info("relay %s stopped", self.settings.name)

    def _stand_by(self, aside: Executor) -> None:
        """Wait for the mandate, and have Python workers warm meanwhile, so that leading begins at once.

        They are warmed in another thread, since that takes seconds on a busy machine: this one sees the mandate.
        """
        warming, warm_at = None, time.monotonic() + _SOON
        while not (self._stop.is_set() or self._election.term) and self._election.running:
            if warming and warming.done():
                warming.result()
                warming, warm_at = None, time.monotonic() + _STAY_WARM
            if not warming and time.monotonic() >= warm_at:
                warming = aside.submit(self._warm_up)
            self._stop.wait(_LOOK_EVERY)

    def _warm_up(self) -> None:
        with self._patience():
            warm_up(self._session)

    def _lead(self, leadership: Leadership) -> None:
        self._leadership = leadership
        try:
            leadership.lead()
        finally:
            self._leadership = None
            self._epochs += leadership.epochs

    def _tell(self, event: Event) -> None:
        level = logging.DEBUG if isinstance(event, MeterRead) else logging.INFO
        log.log(level, "relay %s: %s %s", self.settings.name, type(event).__name__, event.leader_id)
        if self._on_event:
            try:
                self._on_event(event)
            except Exception:  # the owner's own mistake must not end the relay
                log.exception("relay %s: the event handler failed", self.settings.name)
