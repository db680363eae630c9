"""PyTorch's databases: finding an entry of `op_db` or `module_db`, drawing its samples, and which of them are usable.

Every function here imports `torch.testing._internal`, which takes seconds, so none may be called during collection.
"""

from __future__ import annotations

import difflib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from unittest.mock import patch

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from onnx_parity.exporter.torch_inside.imports import StandIn, standing_in
from onnx_parity.harness.axes import Dtype
from onnx_parity.harness.cases.generators import seeded
from onnx_parity.harness.cases.opinfo_entries import DTYPES, EXCLUDED, NOT_UNIQUE, UNDETERMINED, Usable
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.declaration_error import DeclarationError

if TYPE_CHECKING:
    from torch.testing._internal.common_modules import ModuleInfo
    from torch.testing._internal.opinfo.core import OpInfo

#: The dtypes that inputs and outputs of a usable sample may have.
_TORCH_DTYPES = frozenset(
    {*(getattr(torch, dtype) for dtype in DTYPES), torch.int16, torch.complex64, torch.complex128}
)


#: The driver of least squares to which torch gives pivots that it has not set, so that results vary from run to run.
_WITH_UNSET_PIVOTS = "gelsy"
#: The seeds of the survey. There are two, because a random operator may return the same results for the values of one.
_OF_SURVEY = (0, 1)


class TensorPlace:
    """The position of a tensor among the leaves of a call."""

    def __repr__(self) -> str:
        return "tensor"


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One call of an operator or a module: its tensors, and all other arguments, which are part of the program."""

    operator: Callable[..., object]
    tensors: tuple[torch.Tensor, ...]
    leaves: tuple[object, ...]
    spec: TreeSpec

    @classmethod
    def of(cls, operator: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> Sample:
        leaves, spec = tree_flatten((args, kwargs))
        tensors = tuple(leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor))
        return cls(operator, tensors, tuple(TensorPlace() if isinstance(x, torch.Tensor) else x for x in leaves), spec)

    def call(self, *tensors: torch.Tensor) -> object:
        """The operator's result for other tensors in place of this sample's."""
        return self.call_of(self.operator, tensors)

    def call_of(self, operator: Callable[..., object], tensors: tuple[torch.Tensor, ...]) -> object:
        """The result of another operator, such as a copy of the module, for these tensors."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, TensorPlace) else leaf for leaf in self.leaves]
        args, kwargs = tree_unflatten(leaves, self.spec)
        return operator(*args, **kwargs)

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
        if not self.tensors or not all(map(_is_plain, self.tensors)) or _WITH_UNSET_PIVOTS in self.leaves:
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
    """A sample as a module that takes its tensors. If the sample is of a module, that is its only submodule.

    An operator is called twice, because the second call in a program may be exported otherwise than the first.
    """

    def __init__(self, sample: Sample) -> None:
        super().__init__()
        self.sample = sample
        self.operator = sample.operator
        self._is_of_a_module = isinstance(sample.operator, torch.nn.Module)
        if isinstance(sample.operator, torch.nn.Module):
            self.train(sample.operator.training)

    def forward(self, *tensors: torch.Tensor) -> object:
        first = self.sample.call_of(self.operator, tensors)
        return first if self._is_of_a_module else (first, self.sample.call_of(self.operator, tensors))


class Entry(ABC):
    """An entry of one of torch's databases."""

    @abstractmethod
    def takes(self, dtype: torch.dtype) -> bool: ...

    @abstractmethod
    def samples(self, dtype: torch.dtype) -> Iterator[Sample]:
        """Its samples. Those that are not asked for are not drawn, if torch can leave that out."""


@dataclass(frozen=True, slots=True)
class OperatorEntry(Entry):
    """An entry of `op_db`."""

    info: OpInfo

    def takes(self, dtype: torch.dtype) -> bool:
        return bool(self.info.supports_dtype(dtype, "cpu"))

    def samples(self, dtype: torch.dtype) -> Iterator[Sample]:
        # Not by `sample_inputs`, which searches the whole call stack for a test of torch's own and seeds torch for it.
        for drawn in self.info.sample_inputs_func(self.info, "cpu", dtype, False):
            operator = self.info.op
            if self.info.name in NOT_UNIQUE:
                operator = _Processed(operator, drawn.output_process_fn_grad)
            yield Sample.of(operator, (drawn.input, *drawn.args), dict(drawn.kwargs))


@dataclass(frozen=True, slots=True)
class _Processed:
    """An operator followed by what torch's tests make of its results, so that they are unique."""

    operator: Callable[..., object]
    process: Callable[[object], object]

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.process(self.operator(*args, **kwargs))


@dataclass(frozen=True, slots=True)
class ModuleEntry(Entry):
    """An entry of `module_db`. A sample is a module in evaluation mode, with the weights that it is made with."""

    info: ModuleInfo

    def takes(self, dtype: torch.dtype) -> bool:
        return dtype in self.info.dtypes

    def samples(self, dtype: torch.dtype) -> Iterator[Sample]:
        options = {"device": "cpu", "dtype": dtype, "requires_grad": False, "training": False}
        for drawn in self.info.module_inputs_func(self.info, **options):
            module = self.info.module_cls(*drawn.constructor_input.args, **drawn.constructor_input.kwargs)
            module.to(dtype).eval()
            args, kwargs = tuple(drawn.forward_input.args), dict(drawn.forward_input.kwargs)
            if self.info.is_lazy:
                module(*args, **kwargs)  # The first call makes the weights.
            yield Sample.of(module, args, kwargs)


def find_entry(name: str) -> Entry:
    """The entry of this name: `clamp`, `nn.functional.pad.constant`, `div.floor_rounding`, `nn.Linear`."""
    if name in EXCLUDED:
        raise DeclarationError(f"OpInfo entry {name!r} cannot be a case: {EXCLUDED[name]}. Leave it out.")
    if is_of_module(name):
        if name in (modules := all_modules()):
            return ModuleEntry(modules[name])
        close = ", ".join(difflib.get_close_matches(name, modules, n=3))
        raise DeclarationError(
            f"torch {torch.__version__} has no module {name!r} in its database{f'; it has {close}' if close else ''}."
        )
    entries = all_entries()
    if name not in entries:
        close_ones = difflib.get_close_matches(name, entries, n=3)
        variants = [entry for entry in entries if entry.startswith(f"{name}.")]
        meant = ", ".join(variants or close_ones)
        raise DeclarationError(
            f"torch {torch.__version__} has no OpInfo entry {name!r}"
            + (f"; it has {meant}." if meant else ".")
            + " An entry's name is that of its operator, a dot and its variant, as in div.floor_rounding."
        )
    return OperatorEntry(entries[name])


def is_of_module(entry: str) -> bool:
    """Whether an entry is one of `module_db`, by its name: `nn.Linear`, but not `nn.functional.linear`."""
    return entry.startswith("nn.") and not entry.startswith("nn.functional.")


def sample_seed(run_seed: int, entry: str, draw: int = 0) -> int:
    """The seed of an entry's samples, which torch draws from one random stream."""
    return stable_seed(run_seed, entry, str(draw))


@lru_cache(maxsize=2 * len(DTYPES))
def draw_samples(entry: str, dtype: Dtype, seed: int, number: int | None = None) -> tuple[Sample, ...]:
    """The samples of an entry, or this number of the first ones: some entries have hundreds, which take a second.

    They are cached, because all cells of an entry, which are adjacent, need them.
    """
    found = find_entry(entry)
    with seeded(seed):
        return tuple(itertools.islice(found.samples(getattr(torch, dtype)), number))


def sample_at(entry: str, dtype: Dtype, position: int, seed: int, number: int | None = None) -> Sample | None:
    """The sample of an entry at a position of the survey; None if there is none."""
    for each in (seed, _OF_SURVEY[0]):
        drawn = draw_samples(entry, dtype, each, number)
        # Some entries draw how many samples they have, too.
        if position < len(drawn):
            return drawn[position]
    return None


def usable_samples(entry: str, dtypes: tuple[Dtype, ...] = DTYPES) -> Usable:
    """The positions of an entry's usable samples in each dtype that has any."""
    found = find_entry(entry)
    usable: dict[Dtype, tuple[int, ...]] = {}
    for dtype in dtypes:
        if not found.takes(getattr(torch, dtype)) or dtype in UNDETERMINED.get(entry, ()):
            continue
        try:
            draws = [draw_samples(entry, dtype, seed) for seed in _OF_SURVEY]
        except Exception:  # noqa: BLE001  A draw is torch's own test code: one that fails gives no samples.
            continue
        with seeded(0):
            together = enumerate(zip(*draws, strict=False))
            positions = tuple(place for place, drawn in together if all(sample.is_usable for sample in drawn))
        if positions:
            usable[dtype] = positions
    return usable


@cache
def all_modules() -> Mapping[str, ModuleInfo]:
    """Every entry of `module_db` by its name."""
    with _torch_as_it_was():
        from torch.testing._internal.common_modules import module_db
    return {each.name: each for each in module_db}


@cache
def all_entries() -> Mapping[str, OpInfo]:
    """Every entry of `op_db` by its name."""
    with _torch_as_it_was():
        from torch.testing._internal.common_methods_invocations import op_db
    return {f"{each.name}.{each.variant_test_name}".rstrip("."): each for each in op_db}


@contextmanager
def _torch_as_it_was() -> Iterator[None]:
    """Undoes two effects of importing torch's tests: backend flags become frozen, and calls of scripts are wrapped.

    Torch's compiler is not imported, which takes half of the time: the tests need a list of its constants alone.
    """
    calls = torch._C.ScriptFunction.__call__, torch._C.ScriptMethod.__call__
    # The module is behind a proxy that returns its variables but does not set them.
    variables, flag = torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag"
    allowed = variables[flag]
    constants = {"GPU_TYPES": ["cuda", "mps", "xpu", "mtia"]}
    try:
        with standing_in("torch._inductor", StandIn("torch._inductor.utils", known=constants)):
            yield
    finally:
        torch._C.ScriptFunction.__call__, torch._C.ScriptMethod.__call__ = calls  # type: ignore[method-assign]
        variables[flag] = allowed


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.dtype in _TORCH_DTYPES


def _equal(once: object, again: object) -> bool:
    if isinstance(once, torch.Tensor) and isinstance(again, torch.Tensor):
        return once.shape == again.shape and torch.allclose(once, again, rtol=0, atol=0, equal_nan=True)
    return once == again
