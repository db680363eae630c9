"""The vocabulary of declaration files whose cases are the models that an installed package lists.

    timm_models = every("timm", _names, _build, extra="zoo", few=("test_vit", "test_convnext"), dynamic=...)

Each name that the package lists is a case, `timm_models[test_vit]`. A model is built when a cell of it runs, and only
then is it known which inputs it has. The default tier runs the few models that are named, at one opset; the full tier
runs all of them, at the opsets in `FULL_OPSETS`. If the package is not installed, or
cannot be imported, there is one case, whose cells are absent.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

from onnx_parity.harness.axes import Device, Dtype, Selection, Tier
from onnx_parity.harness.case import Case, Declaration, DeclarationError, DynamicAxes, Listing, Maker
from onnx_parity.harness.cases.dynamic_axes import named_axes
from onnx_parity.harness.cases.model_weights import build_module, convert, fill
from onnx_parity.harness.cases.program import CannotBuildError, OwnProgram, Program
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.record import Kind

__all__ = ["FULL_OPSETS", "Built", "CannotBuildError", "Source", "every", "fill", "first_that_runs"]

#: The opsets that runtimes ask for, and those at which an operator of many models changes.
FULL_OPSETS = (11, 13, 17, 18, 21, 23, 26)

#: The number of calls whose statistics batch norms have.
_SETTLED_BY = 4

_NOT_INSTALLED = "not installed"


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A model, and the makers of its inputs by their names. `sizes` are the other sizes of its dynamic axes.

    `static` names axes that are dynamic in other models of the package, and that this one fixes, and `dynamic` has the
    axes of this model in place of the package's. `tolerance` replaces the oracle's own, and needs a `because`.
    """

    module: torch.nn.Module
    inputs: Mapping[str, Maker]
    sizes: Mapping[str, tuple[int, ...]]
    static: Collection[str] = ()
    dynamic: DynamicAxes | None = None
    tolerance: float | None = None
    because: str = ""

    def __post_init__(self) -> None:
        if (self.tolerance is None) != (not self.because):
            raise DeclarationError("A model's tolerance= needs a because=, and because= needs a tolerance=.")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Source(Listing):
    """What `every` returns. `dynamic` has the axes of all inputs that any of the models may have."""

    package: str
    extra: str
    few: tuple[str, ...]
    names: Callable[[], Sequence[str]]
    build: Callable[[str], Built]
    #: Why models cannot be built, by their names. All cells of one try the same in vain, for up to minutes.
    refusals: dict[str, str] = field(default_factory=dict)

    def select(self, name: str, selection: Selection) -> Iterator[tuple[Case, tuple[Dtype, ...]]]:
        for model in self._models(selection.tier):
            yield ListedModel(self, name, f"{name}[{model}]", {}, model), selection.dtypes or self.dtypes

    def listed(self) -> Sequence[str]:
        """The names that the package lists. Raises `CannotBuildError` if it cannot be used here, with the reason."""
        if find_spec(self.package) is None:
            raise CannotBuildError(f"{self.package} is not installed: install the extra {self.extra!r}")
        try:
            return self.names()
        except Exception as error:  # Importing a package runs its code, which may raise anything.
            raise CannotBuildError(f"{self.package} cannot be imported here: {error_line(error)}") from error

    def _models(self, tier: Tier) -> Sequence[str]:
        if find_spec(self.package) is None:
            return (_NOT_INSTALLED,)
        if tier is not Tier.FULL:
            return self.few
        try:
            listed = self.listed()
        except CannotBuildError:
            return (_NOT_INSTALLED,)
        if gone := [model for model in self.few if model not in listed]:
            raise DeclarationError(f"{self.place}: {self.package} does not list {', '.join(gone)}. Correct few=.")
        return listed


@dataclass(frozen=True, slots=True)
class ListedProgram(Program):
    """A program whose inputs, and so their dynamic axes, are known once it is built."""

    own: Declaration

    @property
    def declaration(self) -> Declaration:
        return self.own


@dataclass(frozen=True, slots=True, eq=False)
class ListedModel(Case, OwnProgram):
    """One model that a package lists, by its name there."""

    model: str

    def build(self, dtype: Dtype, device: Device, run_seed: int) -> Program:
        source = self.declaration
        assert isinstance(source, Source)
        if self.model == _NOT_INSTALLED:
            source.listed()
        if self.model in source.refusals:
            raise CannotBuildError(source.refusals[self.model])
        made: list[Built] = []

        def module_of_it() -> torch.nn.Module:
            try:
                made.append(source.build(self.model))
            except CannotBuildError as error:
                source.refusals[self.model] = str(error)
                raise
            return made[0].module

        module = build_module(module_of_it, {}, stable_seed(run_seed, self.label, "weights"))
        (built,) = made
        makers = built.inputs.values()
        _settle(module, [[maker.make(seed, Dtype.FLOAT32) for maker in makers] for seed in range(_SETTLED_BY)])
        if dtype.is_floating:
            convert(module, getattr(torch, dtype))
        module.eval().to(device)
        axes_by_name = source.dynamic if built.dynamic is None else built.dynamic
        dynamic = {name: axes for name, axes in axes_by_name.items() if name in built.inputs}
        if built.static:
            dynamic = {
                name: {axis: each for axis, each in named_axes(axes).items() if each not in built.static}
                for name, axes in dynamic.items()
            }
        tolerance = {} if built.tolerance is None else dict.fromkeys(Dtype, built.tolerance)
        own = replace(source, dynamic=dynamic, sizes=built.sizes, tolerance=tolerance, because=built.because)
        weights = sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))
        return ListedProgram(self, dtype, device, run_seed, module, built.inputs, weights, own)


def every(
    package: str,
    names: Callable[[], Sequence[str]],
    build: Callable[[str], Built],
    *,
    extra: str,
    few: Sequence[str] = (),
    dynamic: DynamicAxes,
) -> Source:
    """Declare a case for each of `names()`, which is only called if the package is installed."""
    # The caller's frame is the declaration, as it is for `op` and `model`.
    frame = sys._getframe(1)
    return Source(
        program=build,
        kind=Kind.MODEL,
        dtypes=(Dtype.FLOAT32,),
        dynamic=dynamic,
        full_opsets=FULL_OPSETS,
        file=Path(frame.f_code.co_filename),
        line=frame.f_lineno,
        package=package,
        extra=extra,
        few=tuple(few),
        names=names,
        build=build,
    )


@torch.no_grad()
def _settle(module: torch.nn.Module, calls: Sequence[Sequence[torch.Tensor]]) -> None:
    """Let batch norms have the statistics of these calls' inputs.

    With others, and with those of one call where an axis is down to few elements, activations grow from block to block
    in some networks, such as EfficientNets, until torch's own results in float32 have no correct digit. So they do
    where channels that hardly vary are divided by their own deviation: none has less than the mean variance here.
    """
    kinds = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
    norms = [each for each in module.modules() if isinstance(each, kinds) and each.track_running_stats]
    momenta = [norm.momentum for norm in norms]
    module.eval()
    hooks = [norm.register_forward_pre_hook(_train_on_several) for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # The statistics become the means over all calls.
    for inputs in calls if norms else ():
        module(*inputs)
    for hook in hooks:
        hook.remove()
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()
        assert norm.running_var is not None
        norm.running_var.clamp_(min=norm.running_var.mean())


def _train_on_several(norm: torch.nn.Module, inputs: tuple[torch.Tensor]) -> None:
    """Let a norm only learn from inputs that have several values for a channel. The others have no variance."""
    norm.train(inputs[0].numel() > inputs[0].shape[1])


@torch.no_grad()
def first_that_runs(
    candidates: Iterable[tuple[torch.nn.Module, Mapping[str, Maker]]],
) -> tuple[torch.nn.Module, Mapping[str, Maker]]:
    """The first of several modules, with their inputs, that PyTorch runs. It has to run the same way each time."""
    failures = []
    for module, makers in candidates:
        module.eval()
        inputs = [maker.make(0, Dtype.FLOAT32) for maker in makers.values()]
        try:
            first, second = (pytree.tree_leaves(module(*inputs)) for _ in range(2))
        except Exception as error:  # noqa: BLE001  It is another library's code, which may raise anything.
            failures.append(f"{', '.join(makers)}: {error_line(error)}")
            continue
        if not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(first, second, strict=True)):
            raise CannotBuildError("it gives other results each time")
        return module, makers
    raise CannotBuildError(f"PyTorch does not run it with inputs made up for it: {'; '.join(failures)}")
