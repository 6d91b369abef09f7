"""What works on Spark while it leads, as its owner sees it: started, leading or standing by, stopped.

A relay and a tracker are led in the same way; each says what it checks first, what it does while it leads, and how its
Python workers are kept warm meanwhile.

Invariant: what runs leads, stands by, or is about to try again. What passes costs a pause; what does not pass stops it,
and `wait` raises it.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import timedelta
from enum import Enum
from types import TracebackType
from typing import Final, Self
from uuid import UUID, uuid4

from pyspark.sql import SparkSession

from windrow import errors
from windrow.election.mandate import Term
from windrow.election.protocol import Election
from windrow.spark.away import Patience, first_line
from windrow.spark.session import cancel, end, group_jobs, has_lost_java, session

log = logging.getLogger(__name__)

_GRACE: Final = 15.0
_LOOK_EVERY: Final = 0.02
_SOON: Final = 1.0
_STAY_WARM: Final = 30.0


class State(Enum):
    """What it is up to."""

    CREATED = "created"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Led(ABC):
    """Runs in the given Spark session, or in one that it makes from its settings and stops at the end."""

    def __init__(
        self,
        title: str,
        election: Election,
        pause: timedelta,
        spark_settings: Mapping[str, str],
        spark: SparkSession | None,
    ) -> None:
        """`title` says who it is, in the log and to Spark; `pause` is between two tries of what failed."""
        self.state = State.CREATED
        self._title, self._election = title, election
        self._spark_settings, self._spark, self._own_spark = spark_settings, spark, spark is None
        self._jobs = f"windrow {title} {uuid4()}"
        self._stop = threading.Event()
        self._patience = Patience(title, pause, self._stop)
        self._thread = threading.Thread(target=self._run, name=title, daemon=True)
        self._error: BaseException | None = None

    @property
    def leader_id(self) -> UUID | None:
        """The present term's id; None while another one leads."""
        term = self._election.term
        return term.id if term else None

    @property
    def is_leader(self) -> bool:
        return self.leader_id is not None

    def start(self) -> None:
        """Check that everything is there, and begin; a mistake is raised here, before anything runs."""
        if self.state is not State.CREATED:
            raise RuntimeError(f"{self._title} starts once; it is {self.state.value}")
        self._check_servers()
        if self._spark is None:
            self._spark = session(self._spark_settings, self._title, for_python=self._for_python())
        self._check_session()
        self.state = State.RUNNING
        self._thread.start()

    def stop(self) -> None:
        """Let the work in hand be committed, make way for another, and end."""
        if self.state is State.CREATED:
            self.state = State.STOPPED
        if self.state is not State.RUNNING:
            return
        self.state = State.STOPPING
        self._stop.set()
        self._thread.join(_GRACE)
        if self._thread.is_alive():
            log.warning("%s: its tasks do not end by themselves; cancelling them", self._title)
            cancel(self._session, self._jobs)
            self._thread.join(_GRACE)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; False if it has not come in time. Raises what ended it, if not `stop`."""
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

    @abstractmethod
    def _check_servers(self) -> None:
        """Raise what is missing, before anything is started."""

    def _for_python(self) -> bool:
        """Whether Spark's Java only hosts tasks in Python."""
        return True

    def _check_session(self) -> None:
        """Raise what is wrong with the Spark session."""
        return

    @abstractmethod
    def _lead(self, term: Term) -> None:
        """Work until the term is over, or this is to stop."""

    @abstractmethod
    def _warm_up(self) -> None:
        """Have Python workers ready."""

    def _last_words(self) -> None:
        """Say what is to be said at the end, while Spark is still there."""
        return

    @property
    def _session(self) -> SparkSession:
        if self._spark is None:
            raise AssertionError("not started")
        return self._spark

    def _current(self, term: Term) -> Term | None:
        """The term as it is now, maybe in a new generation of the group; None once it is over."""
        current = self._election.term
        return current if current and current.id == term.id and not self._stop.is_set() else None

    def _run(self) -> None:
        try:
            with ThreadPoolExecutor(1, "warm-up", group_jobs, (self._session, self._jobs)) as aside, self._election:
                while not self._stop.is_set() and self._election.running:
                    if term := self._election.term:
                        self._lead(term)
                    else:
                        self._stand_by(aside)
            if not self._stop.is_set():
                raise errors.WindrowError("the election's thread has ended; its own error is in the log")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - whatever it is, `wait` raises it
            self._error = self._explained(error)
            log.error("%s ends: %s", self._title, first_line(self._error))  # noqa: TRY400 - `wait` raises it
        finally:
            with self._patience():
                self._last_words()
            if self._own_spark:
                end(self._session)
            self.state = State.STOPPED
            log.info("%s stopped", self._title)

    def _explained(self, error: Exception) -> Exception:
        if not has_lost_java(error):
            return error
        lost = errors.SparkLost(
            "Spark's Java process has ended, killed or out of memory: start this process anew, as a supervisor does; "
            "if it happens again, look at the system's log, and give it more memory (spark.driver.memory)"
        )
        lost.__cause__ = error
        return lost

    def _stand_by(self, aside: Executor) -> None:
        """Wait for the mandate, and have Python workers warm meanwhile, so that leading begins at once.

        They are warmed in another thread, since that takes seconds on a busy machine: this one sees the mandate.
        """
        warming, warm_at = None, time.monotonic() + _SOON
        while not (self._stop.is_set() or self._election.term) and self._election.running:
            if warming and warming.done():
                with self._patience():
                    warming.result()
                warming, warm_at = None, time.monotonic() + _STAY_WARM
            if not warming and time.monotonic() >= warm_at:
                warming = aside.submit(self._warm_up)
            self._stop.wait(_LOOK_EVERY)
