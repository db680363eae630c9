"""Garbage while exporting: a capture makes objects enough to have all that torch and sympy hold looked through, often.

Each such collection takes 0.1 s to find nothing there. That was a third of an export of DenseNet-121, and as much of
importing this package.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["importing", "leaving_garbage"]


@contextmanager
def leaving_garbage() -> Iterator[None]:
    """Garbage in cycles is left lying. For what is soon over, and makes no large tensors."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def importing() -> Iterator[None]:
    """What is made stays: it is put with the oldest objects, without a look through all of it for garbage."""
    with leaving_garbage():
        yield
        if gc.get_freeze_count() == 0:  # Whoever froze objects wants them to stay so.
            gc.freeze()
            gc.unfreeze()
