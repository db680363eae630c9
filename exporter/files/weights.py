"""The weights of an exported program, and their replacement by other values (`apply_weights`).

Everything that is folded or fused from a weight reads the value of its `WeightTensor` when the model is written.
Therefore values can be replaced after the export, except if a lowering has read the value.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

import msgspec
import onnx_ir as ir
import torch

from onnx_parity.exporter.arrays import in_pairs
from onnx_parity.exporter.errors import ArgumentError, OnnxExporterWarning
from onnx_parity.exporter.files.lazy_tensors import WeightTensor

__all__ = ["Weights"]


class Weights(msgspec.Struct, frozen=True):
    """The weights of a model by their names in the program."""

    #: The tensors of the initializers, or from which initializers are computed.
    sources: Mapping[str, WeightTensor] = {}
    #: Weights whose values a lowering has read.
    built_in: frozenset[str] = frozenset()
    #: The values in the program of weights that are inputs of the model (`export_params=False`), by input name.
    as_inputs: Mapping[str, torch.Tensor] = {}

    @classmethod
    def of(
        cls, became: Mapping[str, ir.Value], built_in: frozenset[str], as_inputs: Mapping[str, torch.Tensor]
    ) -> Weights:
        tensors = {name: value.const_value for name, value in became.items()}
        sources = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, WeightTensor)}
        return cls(sources, built_in, as_inputs)

    def apply(self, state_dict: Mapping[str, torch.Tensor], program: object = None) -> None:
        """Replace the values of weights. Tensors that are computed from them are computed again when written."""
        if not isinstance(state_dict, Mapping):
            raise ArgumentError(
                f"state_dict is {state_dict!r}: give a dict of tensors by the names of weights, model.state_dict()"
            )
        sources = {**_under_other_names(program, self.sources), **self.sources}
        for name, tensor in state_dict.items():
            source = sources.get(name)
            if source is None:
                warnings.warn(
                    f"the model has no weight {name!r}, which is ignored: its weights are "
                    f"{', '.join(self.sources) or 'none'}",
                    OnnxExporterWarning,
                    stacklevel=3,
                )
                continue
            if not isinstance(tensor, torch.Tensor):
                raise ArgumentError(f"the weight {name!r} is given as {tensor!r}: give a tensor")
            tensor, current = in_pairs(tensor), source.raw
            if tensor.dtype is not current.dtype or tensor.shape != current.shape:
                raise ArgumentError(
                    f"the weight {name!r} is {current.dtype}{list(current.shape)} in the model, but "
                    f"{tensor.dtype}{list(tensor.shape)} was given: give one of the same dtype and shape"
                )
            if name in self.built_in and not torch.equal(current, tensor):
                raise ArgumentError(
                    f"the weight {name!r} cannot be replaced, because its value was read during the export and is "
                    "built into the model: set the new value in the module and export again"
                )
            if source.stays_finite and not _is_moderate(tensor):
                raise ArgumentError(
                    f"the weight {name!r} is given with numbers that are infinite, NaN or nearly the largest of its "
                    "dtype. It is a part of a mask of attention, and the model was made for a finite one: set the new "
                    "value in the module and export again"
                )
        for name, tensor in state_dict.items():
            if name in sources:
                sources[name].hold(in_pairs(tensor))


def _is_moderate(tensor: torch.Tensor) -> bool:
    """Whether sums with other masks cannot exceed the numbers of the dtype."""
    limit = torch.finfo(tensor.dtype).max / 4 if tensor.dtype.is_floating_point else math.inf
    return bool((tensor.detach().abs() < limit).all())


def _under_other_names(program: object, sources: Mapping[str, WeightTensor]) -> dict[str, WeightTensor]:
    """Weights by their further names. If the program has several names for a weight, the model has only the first."""
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
