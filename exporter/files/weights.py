"""The weights of an exported program: where their values lie, and how others are put in their place."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir
import torch

from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.files.lazy_tensors import WeightTensor

__all__ = ["Weights"]


@dataclass(frozen=True, slots=True)
class Weights:
    """By the names that the program has for them."""

    #: What initializers are made of, as they stand or reworked.
    sources: Mapping[str, WeightTensor] = field(default_factory=dict)
    #: Those whose values a lowering has looked at.
    built_in: frozenset[str] = frozenset()
    #: Those that are inputs of the model (`export_params=False`), by input name: their values in the program.
    as_inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def of(
        cls, became: Mapping[str, ir.Value], built_in: frozenset[str], as_inputs: Mapping[str, torch.Tensor]
    ) -> Weights:
        tensors = {name: value.const_value for name, value in became.items()}
        sources = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, WeightTensor)}
        return cls(sources, built_in, as_inputs)

    def apply(self, state_dict: Mapping[str, torch.Tensor], program: object = None) -> None:
        """Put other values in the place of weights. What was made of them (a fused kernel) is made anew on writing."""
        if not isinstance(state_dict, Mapping):
            raise ArgumentError(
                f"state_dict is {state_dict!r}: give a dict of tensors by the names of weights, model.state_dict()"
            )
        sources = {**_under_other_names(program, self.sources), **self.sources}
        for name, tensor in state_dict.items():
            source = sources.get(name)
            if source is None:
                warnings.warn(
                    f"the model has no weight {name!r}: it is left out. Its weights are "
                    f"{', '.join(self.sources) or 'none'}",
                    stacklevel=3,
                )
                continue
            if not isinstance(tensor, torch.Tensor):
                raise ArgumentError(f"the weight {name!r} is given as {tensor!r}: give a tensor")
            held = source.raw
            if tensor.dtype is not held.dtype or tensor.shape != held.shape:
                raise ArgumentError(
                    f"the weight {name!r} is {held.dtype}{list(held.shape)} in the model, and "
                    f"{tensor.dtype}{list(tensor.shape)} was given"
                )
            if name in self.built_in and not torch.equal(held, tensor):
                raise ArgumentError(
                    f"the weight {name!r} cannot be replaced, because the model depends on its value in other ways "
                    "than by computing with it: put the new value into the module and export again"
                )
        for name, tensor in state_dict.items():
            if name in sources:
                sources[name].hold(tensor)


def _under_other_names(program: object, sources: Mapping[str, WeightTensor]) -> dict[str, WeightTensor]:
    """Weights that the program has under several names are one in the model, under the first."""
    if not isinstance(program, torch.nn.Module):
        return {}
    first: dict[int, WeightTensor] = {}
    others: dict[str, WeightTensor] = {}
    for name, tensor in program.state_dict(keep_vars=True).items():
        if name in sources:
            first[id(tensor)] = sources[name]
        elif id(tensor) in first:
            others[name] = first[id(tensor)]
    return others
