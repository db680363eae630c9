"""A context in which no dispatch mode sees what is called: neither the recording's own nor one of the user's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch._C import _len_torch_dispatch_stack
from torch._ops import _len_torch_dispatch_stack_pre_dispatch, _pop_mode_from_pre_dispatch
from torch.utils._python_dispatch import _pop_mode, _push_mode

__all__ = ["outside_of_modes"]


@contextmanager
def outside_of_modes() -> Iterator[None]:
    """As torch's `_disable_current_modes`, which imports further modules for a check that does not apply here."""
    pre_dispatch = [_pop_mode_from_pre_dispatch() for _ in range(_len_torch_dispatch_stack_pre_dispatch())]
    modes = [_pop_mode() for _ in range(_len_torch_dispatch_stack())]
    try:
        yield
    finally:
        for mode in (*reversed(modes), *reversed(pre_dispatch)):
            _push_mode(mode)
