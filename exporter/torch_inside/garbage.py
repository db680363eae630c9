"""Garbage collection, which is paused until an export, or the import of this package, is over; and what refers to what.

A capture creates so many objects that Python often starts a full collection, which visits all objects of torch. Each
takes 0.1 s and finds nothing to free. Together they took a third of the time of an export of DenseNet-121,
and a third of the time of importing this package.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from gc import collect, get_objects, get_referents, get_referrers

__all__ = [
    "collect", "get_objects", "get_referents", "get_referrers", "importing", "leaving_garbage",
]  # fmt: skip


#: Python 3.12 freezes some hundred objects itself, other versions none; a program has many more.
_FROZEN_BY_PYTHON = 1_000


@contextmanager
def leaving_garbage() -> Iterator[None]:
    """A context without garbage collection. For code that ends soon and creates no large tensors."""
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
    """A context without garbage collection, after which new objects are in the oldest generation, as modules stay."""
    with leaving_garbage():
        yield
        if gc.get_freeze_count() < _FROZEN_BY_PYTHON:  # Otherwise the user has frozen objects; that would be undone.
            gc.freeze()
            gc.unfreeze()
