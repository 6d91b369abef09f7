"""For the tests of services: an outbox that remembers, and what to ask of it.

`RecordingOutbox` and `AsyncRecordingOutbox` stand in for `Outbox` and `AsyncOutbox` where no database is wanted. The
module `windrow.testing.fixtures` is a pytest plugin with real servers. Needs the standard library alone.
"""

from windrow.testing.recording import AsyncRecordingOutbox, RecordingOutbox

__all__ = ["AsyncRecordingOutbox", "RecordingOutbox"]
