"""The generators of torch, NumPy and Python, seeded so that what is drawn is the same in every process."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

#: The seed of what a file of declarations draws when it is imported, such as the weights in `op(nn.Linear(3, 4), ...)`.
OF_DECLARATIONS = 0


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A context in which the three generators are seeded. Their states are restored afterwards."""
    before = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed is not used, because it formats the stack in case CUDA is initialised later.
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])
