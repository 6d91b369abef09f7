"""Immediate dispatch: the application sends its messages by itself, and the relay sweeps up the rest."""

from windrow.extras import needed

with needed("relay"):
    from windrow.dispatch.dispatcher import Dispatcher, Writing

__all__ = ["Dispatcher", "Writing"]
