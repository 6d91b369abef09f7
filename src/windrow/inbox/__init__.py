"""The inbox: a consumer's database remembers which messages it has accepted, so that each has its effect once.

`Inbox` and `AsyncInbox` accept messages in the handler's own transaction.
"""

from windrow.inbox.acceptance import AsyncInbox, Inbox
from windrow.inbox.identity import Received

__all__ = ["AsyncInbox", "Inbox", "Received"]
