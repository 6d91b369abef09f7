"""The outbox's writing side: messages inserted in the caller's own transaction."""

from windrow.outbox.writer import Outbox

__all__ = ["Outbox"]
