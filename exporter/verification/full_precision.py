"""Products of float32 on a GPU with all of their bits.

torch lets cuDNN multiply float32 as TF32 unless this is switched off, and cuBLAS if this is switched on. TF32 has ten
bits of mantissa, and the model that is compared has float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, cast

import torch

__all__ = ["in_full_precision"]


@contextmanager
def in_full_precision() -> Iterator[None]:
    """A context in which no product is in TF32. torch has this setting for all threads, and only GPUs follow it.

    The convolutions of a module that was traced on a GPU are the exception: a trace keeps the setting that it was made
    with.
    """
    with ExitStack() as until_the_end:
        if torch.cuda.is_initialized():
            _switch_to_float32(until_the_end)
        yield


def _switch_to_float32(until_the_end: ExitStack) -> None:
    """torch has an older setting, `allow_tf32`, and a newer one, `fp32_precision`, which is read by kernels.

    For cuDNN both are changed, because torch raises an error where they disagree. For cuBLAS only the newer one is: the
    older one would be restored as "high" where the user has chosen "medium".
    """
    matmul, cudnn = torch.backends.cuda.matmul, cast("Any", torch.backends.cudnn)
    with suppress(RuntimeError):  # Raised where they disagree already, by the user's own choice.
        if cudnn.allow_tf32:
            until_the_end.callback(setattr, cudnn, "allow_tf32", True)
            cudnn.allow_tf32 = False
    for part in (matmul, cudnn.conv, cudnn.rnn):
        if part.fp32_precision == "tf32":  # By its own setting, or by that of all backends.
            until_the_end.callback(setattr, part, "fp32_precision", "tf32")
            part.fp32_precision = "ieee"
