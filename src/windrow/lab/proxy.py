"""A TCP proxy on the loopback whose connections can be cut, delayed, throttled and left half-open.

It runs in a thread of its own, with its own event loop. One condition holds for all connections through it, those that
are there and those that come. A half-open connection swallows what is sent: nobody is told, until the link is mended,
and then the connection is reset, as a host does that has come back and does not know it any more.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from windrow.embedded import ports

_CHUNK: Final = 65_536


@dataclass(frozen=True, slots=True)
class Condition:
    """What happens to bytes on the way."""

    delay: float = 0.0
    """Seconds that each piece takes."""
    rate: float | None = None
    """Bytes per second, for each direction of a connection."""
    swallows: bool = False
    refuses: bool = False

    def beside(self, other: "Condition") -> "Condition":
        """Both at once."""
        rates = [each.rate for each in (self, other) if each.rate is not None]
        return Condition(
            max(self.delay, other.delay),
            min(rates, default=None),
            self.swallows or other.swallows,
            self.refuses or other.refuses,
        )


SOUND: Final = Condition()
CUT: Final = Condition(refuses=True)
HALF_OPEN: Final = Condition(swallows=True)


class Proxy:
    """Listens on `port`, while its context lasts, and passes on to the port that `target` names at that time."""

    def __init__(self, target: Callable[[], int]) -> None:
        self.port = ports.free_port()
        self._target = target
        self._condition = SOUND
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy {self.port}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, ports.HOST, self.port))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def connections(self) -> int:
        return len(self._writers) // 2

    def impose(self, condition: Condition) -> None:
        """From now on this holds, beside what does already. Cutting resets what is open."""
        self._condition = self._condition.beside(condition)
        if condition.refuses:
            self._run(self._reset())

    def mend(self) -> None:
        """Nothing of it holds any more. What was half-open is reset."""
        was, self._condition = self._condition, SOUND
        if was.swallows:
            self._run(self._reset())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _reset(self) -> None:
        for each in self._writers:
            each.transport.abort()

    async def _end(self) -> None:
        self._server.close()  # here, not in another thread: a connection that ends meanwhile would close it, too
        await self._reset()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._condition.refuses:
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection(ports.HOST, self._target())
        except OSError:  # the server is down, and so the client is told
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(back)
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        self._writers -= {writer, back}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on until one side ends, then end the other as well."""
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                condition = self._condition
                if condition.delay:
                    await asyncio.sleep(condition.delay)
                if condition.rate:
                    await asyncio.sleep(len(chunk) / condition.rate)
                if not self._condition.swallows:
                    writer.write(chunk)
                    await writer.drain()
        if not self._condition.swallows:
            writer.transport.abort() if reader.exception() else writer.close()
