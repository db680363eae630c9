"""Products of float32 on a GPU with all of their bits.

torch lets cuDNN multiply float32 as TF32 unless this is switched off, and cuBLAS if this is switched on. TF32 has ten
bits of mantissa, and the model that is compared has float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import torch

__all__ = ["in_full_precision"]


@contextmanager
def in_full_precision() -> Iterator[None]:
    """A context in which no product is in TF32. torch has this setting for all threads, and only GPUs follow it."""
    with ExitStack() as until_the_end:
        if torch.cuda.is_initialized():
            matmul, cudnn = torch.backends.cuda.matmul, cast("Any", torch.backends.cudnn)
            for library, parts in ((matmul, [matmul]), (cudnn, [cudnn.conv, cudnn.rnn])):
                _switch(library, parts, until_the_end)
        yield


def _switch(library: Any, parts: list[Any], until_the_end: ExitStack) -> None:
    """Have a library multiply in full precision. If the user has chosen by `fp32_precision`, which torch has for parts
    of a library, torch refuses to read `allow_tf32`, which is older."""
    try:
        chosen = library.allow_tf32
    except RuntimeError:
        for part in parts:
            until_the_end.callback(setattr, part, "fp32_precision", part.fp32_precision)
            part.fp32_precision = "ieee"
    else:
        if chosen:
            until_the_end.callback(setattr, library, "allow_tf32", chosen)
            library.allow_tf32 = False
