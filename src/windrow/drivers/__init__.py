"""The database libraries that services use, each with its own habits, behind one small face.

`driver_of` and `async_driver_of` recognise the library of a connection by the names of its classes; none is imported.
"""

from windrow.drivers.asynchronous import AsyncDriver, async_driver_of
from windrow.drivers.recognition import COPY_FROM, Copy, Row, Style
from windrow.drivers.synchronous import Driver, driver_of

__all__ = ["COPY_FROM", "AsyncDriver", "Copy", "Driver", "Row", "Style", "async_driver_of", "driver_of"]
