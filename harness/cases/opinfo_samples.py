"""PyTorch's OpInfo: finding an entry of `op_db`, drawing its samples, and deciding which of them are usable.

Every function here imports `torch.testing._internal`, which takes seconds, so none may be called during collection.
"""

from __future__ import annotations

import difflib
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from onnx_parity.harness.axes import Dtype
from onnx_parity.harness.cases.opinfo_entries import DTYPES, EXCLUDED, UNDETERMINED, Usable
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.declaration_error import DeclarationError

if TYPE_CHECKING:
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

#: The dtypes that inputs and outputs of a usable sample may have.
_TORCH_DTYPES = frozenset(getattr(torch, dtype) for dtype in DTYPES)


class _Place:
    """The position of a tensor among the leaves of a call."""

    def __repr__(self) -> str:
        return "tensor"


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One call of an operator: its tensors, and all other arguments, which are part of the program."""

    operator: Callable[..., object]
    tensors: tuple[torch.Tensor, ...]
    leaves: tuple[object, ...]
    spec: TreeSpec

    @classmethod
    def of(cls, operator: Callable[..., object], drawn: SampleInput) -> Sample:
        leaves, spec = tree_flatten((drawn.input, tuple(drawn.args), dict(drawn.kwargs)))
        tensors = tuple(leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor))
        return cls(operator, tensors, tuple(_Place() if isinstance(x, torch.Tensor) else x for x in leaves), spec)

    def call(self, *tensors: torch.Tensor) -> object:
        """The operator's result for other tensors in place of this sample's."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, _Place) else leaf for leaf in self.leaves]
        first, args, kwargs = tree_unflatten(leaves, self.spec)
        return self.operator(first, *args, **kwargs)

    def is_same_call(self, other: Sample) -> bool:
        """Whether the two calls differ only in the values of their tensors."""
        # By repr, because the == of some types, such as arrays, does not return a boolean.
        return (self.spec, repr(self.leaves), self._kinds) == (other.spec, repr(other.leaves), other._kinds)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the tensors, by the rules for the inputs of declared cases."""
        return ("x",) if len(self.tensors) == 1 else tuple(f"x{index}" for index in range(len(self.tensors)))

    @property
    def _kinds(self) -> list[tuple[torch.Size, torch.dtype]]:
        return [(tensor.shape, tensor.dtype) for tensor in self.tensors]

    @property
    def is_usable(self) -> bool:
        """Whether it has a tensor, and torch returns the same plain tensors each time."""
        if not self.tensors or not all(map(_is_plain, self.tensors)):
            return False
        try:
            once, again = (self._outputs(seed) for seed in (0, 1))
        except Exception:  # noqa: BLE001  torch's own samples on torch's own operator: what fails is of no use here.
            return False
        tensors = [leaf for leaf in once if isinstance(leaf, torch.Tensor)]
        return bool(tensors) and all(map(_is_plain, tensors)) and all(map(_equal, once, again))

    @torch.no_grad()
    def _outputs(self, seed: int) -> list[object]:
        torch.manual_seed(seed)
        # Entries of random operators seed torch themselves, so their results would look deterministic.
        with patch.object(torch, "manual_seed"):
            return tree_leaves(self.call(*(tensor.clone() for tensor in self.tensors)))


class SampleModule(torch.nn.Module):
    """A sample as a module that takes its tensors."""

    def __init__(self, sample: Sample) -> None:
        super().__init__()
        self.sample = sample

    def forward(self, *tensors: torch.Tensor) -> object:
        return self.sample.call(*tensors)


def find_entry(name: str) -> OpInfo:
    """The entry of this name: `clamp`, `nn.functional.pad.constant`, `div.floor_rounding`."""
    if name in EXCLUDED:
        raise DeclarationError(f"OpInfo entry {name!r} cannot be a case: {EXCLUDED[name]}. Leave it out.")
    entries = all_entries()
    if name not in entries:
        close = difflib.get_close_matches(name, entries, n=3)
        variants = [entry for entry in entries if entry.startswith(f"{name}.")]
        meant = ", ".join(variants or close)
        raise DeclarationError(
            f"torch {torch.__version__} has no OpInfo entry {name!r}"
            + (f"; it has {meant}." if meant else ".")
            + " An entry's name is that of its operator, a dot and its variant, as in div.floor_rounding."
        )
    return entries[name]


def sample_seed(run_seed: int, entry: str, draw: int = 0) -> int:
    """The seed of an entry's samples, which torch draws from one random stream."""
    return stable_seed(run_seed, entry, str(draw))


@lru_cache(maxsize=2 * len(DTYPES))
def draw_samples(entry: str, dtype: Dtype, seed: int) -> tuple[Sample, ...]:
    """All samples of an entry. They are cached, because all cells of an entry, which are adjacent, need them."""
    found = find_entry(entry)
    with _seeded(seed):
        # Without `set_seed=False` every draw would use the same fixed seed of torch.
        drawn = found.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False, set_seed=False)
        return tuple(Sample.of(found.op, each) for each in drawn)


def usable_samples(entry: str, dtypes: tuple[Dtype, ...] = DTYPES) -> Usable:
    """The positions of an entry's usable samples in each dtype that has any."""
    found = find_entry(entry)
    usable: dict[Dtype, tuple[int, ...]] = {}
    for dtype in dtypes:
        if not found.supports_dtype(getattr(torch, dtype), "cpu") or dtype in UNDETERMINED.get(entry, ()):
            continue
        try:
            # Two draws, because a random operator may return the same results for the values of one draw.
            draws = [draw_samples(entry, dtype, seed) for seed in (0, 1)]
        except Exception:  # noqa: BLE001  A draw is torch's own test code: one that fails gives no samples.
            continue
        with _seeded(0):
            together = enumerate(zip(*draws, strict=False))
            positions = tuple(place for place, drawn in together if all(sample.is_usable for sample in drawn))
        if positions:
            usable[dtype] = positions
    return usable


@cache
def all_entries() -> Mapping[str, OpInfo]:
    """Every entry of `op_db` by its name."""
    with _torch_as_it_was():
        from torch.testing._internal.common_methods_invocations import op_db
    return {f"{each.name}.{each.variant_test_name}".rstrip("."): each for each in op_db}


@contextmanager
def _torch_as_it_was() -> Iterator[None]:
    """Undoes two effects of importing torch's tests: backend flags become frozen, and calls of scripts are wrapped."""
    calls = torch._C.ScriptFunction.__call__, torch._C.ScriptMethod.__call__
    # The module is behind a proxy that returns its variables but does not set them.
    variables, flag = torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag"
    allowed = variables[flag]
    try:
        yield
    finally:
        torch._C.ScriptFunction.__call__, torch._C.ScriptMethod.__call__ = calls  # type: ignore[method-assign]
        variables[flag] = allowed


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """A context in which the three generators that samples use are seeded. Their states are restored afterwards."""
    before = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.dtype in _TORCH_DTYPES


def _equal(once: object, again: object) -> bool:
    if isinstance(once, torch.Tensor) and isinstance(again, torch.Tensor):
        return once.shape == again.shape and torch.allclose(once, again, rtol=0, atol=0, equal_nan=True)
    return once == again
