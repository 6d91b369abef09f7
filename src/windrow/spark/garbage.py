"""How seldom the Python workers of resident tasks look for garbage.

What they make by the ten thousand is in no cycle, and goes by itself.
"""

import gc
from typing import Final

_OBJECTS: Final = 1_000_000


def rarely() -> None:
    """Look through new objects only, and a million at a time.

    To look through a page's every seven hundred, as Python does by itself, costs half of the time that it takes to
    read them. And Spark has a worker look through all that it has when its task is over: a tenth of a second, in which
    the heir's task wants the processor. Of modules, which make up almost all of it, nothing is ever garbage.
    """
    gc.set_threshold(_OBJECTS)
    if not gc.get_freeze_count():  # what a task leaves behind is not there to stay
        gc.freeze()
