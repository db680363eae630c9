"""The exporters that are measured, with one interface: this project's, torch.onnx's two, and the floor."""

from __future__ import annotations

import inspect
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

OPSET = 18


class Contender(StrEnum):
    OURS = "exporter"
    TORCHSCRIPT = "torch.onnx dynamo=False"
    DYNAMO = "torch.onnx dynamo=True"
    #: The floor: one recording with fake tensors, and one plain write of the weights. It makes no model.
    FLOOR = "floor"


PEERS = (Contender.TORCHSCRIPT, Contender.DYNAMO)
EXPORTERS = (Contender.OURS, *PEERS)


class Weights(StrEnum):
    """Where the weights are written: into the model's file, or into a file beside it."""

    INLINE = "inline"
    EXTERNAL = "external"


#: torch.onnx's TorchScript exporter writes external files only above 2 GB.
LAYOUTS = {
    Contender.OURS: (Weights.INLINE, Weights.EXTERNAL),
    Contender.TORCHSCRIPT: (Weights.INLINE,),
    Contender.DYNAMO: (Weights.INLINE, Weights.EXTERNAL),
    Contender.FLOOR: (Weights.EXTERNAL,),
}

#: The highest opset that each exporter writes.
HIGHEST_OPSET = {Contender.OURS: 26, Contender.TORCHSCRIPT: 20, Contender.DYNAMO: 26}

#: The default of each exporter, which is timed.
DEFAULT_LAYOUT = {
    Contender.OURS: Weights.INLINE,
    Contender.TORCHSCRIPT: Weights.INLINE,
    Contender.DYNAMO: Weights.EXTERNAL,
    Contender.FLOOR: Weights.EXTERNAL,
}


def export(
    subject: Contender,
    model: nn.Module,
    args: tuple[Tensor, ...],
    path: Path,
    weights: Weights,
    *,
    dynamic: bool = False,
    opset: int = OPSET,
) -> None:
    """Export `model` to `path`, with a dynamic batch if requested. Imports are part of the time of a first export."""
    external = weights is Weights.EXTERNAL
    names = ["x", *(f"x{number}" for number in range(1, len(args)))]
    axes = {name: {0: "batch"} for name in names} if dynamic else None
    match subject:
        case Contender.OURS:
            import onnx_parity

            onnx_parity.export(
                model,
                args,
                path,
                input_names=names,
                opset_version=opset,
                dynamic_axes=axes,
                external_data=external,
            )
        case Contender.TORCHSCRIPT:
            import torch.onnx

            torch.onnx.export(
                model, args, str(path), dynamo=False, input_names=names, opset_version=opset, dynamic_axes=axes
            )
        case Contender.DYNAMO:
            import torch.onnx

            torch.onnx.export(
                model,
                args,
                str(path),
                dynamo=True,
                input_names=names,
                opset_version=opset,
                dynamic_shapes=_dynamic_batch(model, args) if dynamic else None,
                external_data=external,
                verbose=False,
            )
        case Contender.FLOOR:
            record_and_write(model, args, path)


def _dynamic_batch(model: nn.Module, args: tuple[Tensor, ...]) -> tuple[Any, ...]:
    """`dynamic_shapes` as torch.export takes them: those of `*arguments` are a tuple in the tuple."""
    axes = {0: "batch"}
    named = sum(each.kind is not each.VAR_POSITIONAL for each in inspect.signature(model.forward).parameters.values())
    others = (tuple(axes for _ in args[named:]),) if args[named:] else ()
    return (*(axes for _ in args[:named]), *others)


class _Recorder(TorchDispatchMode):
    """Records every operator, and calls it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs, result))
        return result


def record_and_write(model: nn.Module, args: tuple[Tensor, ...], path: Path) -> None:
    """The floor: run the model once with fake tensors, recorded below functionalization, and write its weights."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    mode = FakeTensorMode()
    fake_state = {name: mode.from_tensor(tensor, static_shapes=True) for name, tensor in state.items()}
    fake_args = tuple(mode.from_tensor(tensor, static_shapes=True) for tensor in args)

    def run(state: dict[str, Tensor], args: tuple[Tensor, ...]) -> object:
        return torch.func.functional_call(model, state, args)

    with torch.no_grad(), mode, _Recorder():
        torch.func.functionalize(run, remove="mutations")(fake_state, fake_args)
    with path.open("wb", buffering=0) as file:
        for tensor in state.values():
            file.write(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
