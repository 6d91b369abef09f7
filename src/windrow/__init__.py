"""windrow: from a database commit to a consumer's acknowledgement.

The client side stands here: `Message`, `Outbox` and `AsyncOutbox`. It needs no third-party package; it works on the
caller's own connection. The relay is in `windrow.relay`, the command line in `windrow.cli`.
"""

from windrow.message import Message
from windrow.outbox import AsyncOutbox, Outbox

__all__ = ["AsyncOutbox", "Message", "Outbox"]
