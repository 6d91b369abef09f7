"""The outbox's writing side: messages inserted in the caller's own transaction."""

from windrow.outbox.writer import AsyncOutbox, Outbox

__all__ = ["AsyncOutbox", "Outbox"]
