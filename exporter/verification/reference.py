"""What the program gives in torch, and how far from that a runtime may be."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnx_parity.exporter.arrays import Array, Float64Array, to_array
from onnx_parity.exporter.capture.record.module_state import attribute_at, compiled_attributes
from onnx_parity.exporter.capture.record.results import Kind, Returned
from onnx_parity.exporter.errors import VerificationError
from onnx_parity.exporter.source import Source
from onnx_parity.exporter.torch_onnx.legacy_arguments import set_training
from onnx_parity.exporter.verification.float64 import in_dtype, weights_in
from onnx_parity.exporter.verification.oracle import Expected, expect
from onnx_parity.exporter.verification.trials import Trial

__all__ = ["as_judged", "expectation", "item_by_item", "outputs_of"]

#: In what has no more nodes than this, an element's own sensitivity tells what error it may have; in larger programs
#: thousands of roundings add up, and torch's own error over the output tells.
SMALL = 20
_MOVES = 4
_LISTS = (Kind.LIST, Kind.NUMBERS)
#: A program that cannot be computed in float64 raises one of these.
_NO_FLOAT64 = (RuntimeError, TypeError, ValueError, VerificationError)


def outputs_of(source: Source, returned: Returned, trial: Trial) -> list[torch.Tensor]:
    """The tensors that the program returns, as the model's outputs come: numbers as tensors, lists item by item, and
    nothing for None.
    """
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), (trial.args, dict(trial.kwargs)))
    with torch.no_grad(), set_training(source.program, source.training), _state_kept(source.program):
        result = source.program(*args, **kwargs)
        written = _written(source, returned, (args, kwargs))
    leaves = _leaves(result, returned)
    if len(leaves) != len(returned.kinds):
        raise VerificationError(
            f"for {trial.what} the program returns {len(leaves)} things, and {len(returned.kinds)} when it was "
            "exported: what it returns must not depend on its inputs"
        )
    tensors = []
    for leaf, kind, plain in zip(leaves, returned.kinds, returned.plain, strict=True):
        if kind is Kind.TENSOR:
            tensors.append(leaf.detach())
        elif kind is Kind.NUMBER:
            tensors.append(_of_number(leaf))
        elif kind is Kind.OPTIONAL:
            tensors.extend([] if leaf is None else [leaf.detach()])
        elif kind in _LISTS:
            tensors.extend(_of_number(item) if kind is Kind.NUMBERS else item.detach() for item in leaf)
        elif leaf != plain:
            raise VerificationError(
                f"for {trial.what} the program returns {leaf!r} where it returned {plain!r} when it was exported, and "
                "the model has that built in: return it as a tensor"
            )
    return [*tensors, *written]


def item_by_item(outputs: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors that a model returned: those of its sequences, none of an optional that has none."""
    every = [item for output in outputs for item in (output if isinstance(output, list) else [output])]
    return [item for item in every if item is not None]


def _leaves(result: Any, returned: Returned) -> list[Any]:
    """What stands in the places where something stood at the export; of another structure, whatever there is."""
    if any(kind in _LISTS for kind in returned.kinds):
        with suppress(ValueError):
            return returned.spec.flatten_up_to(result)
    return pytree.tree_leaves(result)


def _of_number(number: Any) -> torch.Tensor:
    return torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else None)


def _written(
    source: Source, returned: Returned, arguments: tuple[Sequence[Any], Mapping[str, Any]]
) -> list[torch.Tensor]:
    """What the program has written, where the model gives that."""
    inputs = source.inputs(*arguments)
    values = []
    for end in returned.written:
        if end.place is not None:
            written = inputs[end.place]
            assert isinstance(written, torch.Tensor), "what is written to is a tensor"
            values.append(written)
        else:
            assert isinstance(source.program, torch.nn.Module)
            value = attribute_at(source.program, end.name)
            values.append(value.detach().clone() if isinstance(value, torch.Tensor) else _of_number(value))
    return values


def expectation(source: Source, returned: Returned, trial: Trial, nodes: int) -> list[Expected]:
    """What the model should give."""
    values = [as_judged(tensor) for tensor in outputs_of(source, returned, trial)]
    exact = _in_float64(source, returned, trial)
    moved = [_in_float64(source, returned, _moved(trial, turn)) for turn in range(_MOVES)] if nodes <= SMALL else []
    inputs = [tensor.dtype for tensor in trial.tensors() if tensor.is_floating_point()]
    by = max((torch.finfo(dtype).eps for dtype in inputs), default=0.0)
    return [
        expect(
            value,
            _at(exact, number),
            [other for outcome in moved if by and (other := _at(outcome, number)) is not None],
            moved_by=by,
        )
        for number, value in enumerate(values)
    ]


def as_judged(tensor: torch.Tensor) -> Array:
    """The oracle knows no complex numbers: they are pairs."""
    return to_array(torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor)


def _at(outputs: Sequence[Float64Array] | None, number: int) -> Float64Array | None:
    return outputs[number] if outputs is not None and number < len(outputs) else None


def _in_float64(source: Source, returned: Returned, trial: Trial) -> list[Float64Array] | None:
    """None where the program cannot be computed in float64: then a tolerance of the dtype's is used."""

    def double(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().double() if tensor.is_floating_point() else tensor

    args, kwargs = pytree.tree_map_only(torch.Tensor, double, (trial.args, dict(trial.kwargs)))
    doubled = Trial(trial.what, args, kwargs)
    with suppress(*_NO_FLOAT64), in_dtype(torch.float64):
        return _as_float64(outputs_of(source, returned, doubled))
    module = source.program
    if isinstance(module, torch.nn.Module) and not isinstance(module, torch.jit.ScriptModule):
        with suppress(*_NO_FLOAT64), weights_in(module, torch.float64), in_dtype(torch.float64):
            return _as_float64(outputs_of(source, returned, doubled))
    return None


def _as_float64(outputs: Sequence[torch.Tensor]) -> list[Float64Array]:
    return [as_judged(output).astype("float64") for output in outputs]


def _moved(trial: Trial, turn: int) -> Trial:
    """The inputs in float64, each number moved by one unit in the last place of its dtype, up or down."""
    generator = torch.Generator().manual_seed(turn)

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        signs = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.float64).mul_(2).sub_(1)
        return tensor.detach().double() * (1 + torch.finfo(tensor.dtype).eps * signs.to(tensor.device))

    args, kwargs = pytree.tree_map_only(torch.Tensor, moved, (trial.args, dict(trial.kwargs)))
    return Trial(trial.what, args, kwargs)


@contextmanager
def _state_kept(program: object) -> Iterator[None]:
    """A program may write to buffers (a batch norm in training does) and attributes: here it finds them as before."""
    every = list(program.modules()) if isinstance(program, torch.nn.Module) else []
    modules = [module for module in every if not isinstance(module, torch.jit.ScriptModule)]
    compiled = [(module, compiled_attributes(module)) for module in every if isinstance(module, torch.jit.ScriptModule)]
    attributes = [(module, module.__dict__.copy(), module._buffers.copy()) for module in modules]
    tensors = [(tensor, copy.deepcopy(tensor.detach())) for module in every for tensor in _own_tensors(module)]
    try:
        yield
    finally:
        for module, own, buffers in attributes:
            module.__dict__.clear()
            module.__dict__.update(own)
            module._buffers.clear()
            module._buffers.update(buffers)
        for script, values in compiled:
            for name, value in values.items():
                script._c.setattr(name, value)
        for tensor, value in tensors:
            tensor.data.copy_(value)


def _own_tensors(module: torch.nn.Module) -> list[torch.Tensor]:
    """The tensors of a module that are no parameters."""
    compiled = compiled_attributes(module) if isinstance(module, torch.jit.ScriptModule) else {}
    held = (*module.buffers(recurse=False), *vars(module).values(), *compiled.values())
    return [item for item in held if isinstance(item, torch.Tensor)]
