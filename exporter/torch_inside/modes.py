"""torch's modes and transforms: what sees the operators that are called, and contexts in which one of them does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch._C import DisableTorchFunction as without_function_overrides
from torch._C import _DisableTorchDispatch as without_dispatch_overrides
from torch._C import _len_torch_dispatch_stack
from torch._C import _len_torch_function_stack as number_of_function_modes
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack as outside_of_transforms
from torch._ops import _len_torch_dispatch_stack_pre_dispatch, _pop_mode_from_pre_dispatch
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as dispatch_modes

__all__ = [
    "TorchDispatchMode", "Uncompiled", "dispatch_modes", "number_of_function_modes", "outside_of_inference_mode",
    "outside_of_modes", "outside_of_transforms", "without_dispatch_overrides", "without_function_overrides",
]  # fmt: skip


class Uncompiled:
    """A base of dispatch modes in which nothing is compiled.

    torch protects each call of other modes from `torch.compile`, which imports dynamo in 1.5 s and takes 3 us a call.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def outside_of_inference_mode() -> AbstractContextManager[object]:
    """A context without inference mode, in which torch does not take some views of tensors, and whose tensors can only
    be used in it. Here there is nothing to save by it."""
    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext()


@contextmanager
def outside_of_modes() -> Iterator[None]:
    """A context in which no dispatch mode sees what is called: neither the recording's own nor one of the user's.

    As torch's `_disable_current_modes`, which imports further modules for a check that does not apply here.
    """
    pre_dispatch = [_pop_mode_from_pre_dispatch() for _ in range(_len_torch_dispatch_stack_pre_dispatch())]
    modes = [_pop_mode() for _ in range(_len_torch_dispatch_stack())]
    try:
        yield
    finally:
        for mode in (*reversed(modes), *reversed(pre_dispatch)):
            _push_mode(mode)
