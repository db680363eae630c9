"""Takes one time in this process, and prints the processor seconds. `python -m benchmarks.first_exports` runs it by its
path, with the clone that is measured on `PYTHONPATH`, and so nothing here is of another module of the benchmarks.
"""

from __future__ import annotations

import io
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

OPSET, SECOND_OPSET = 18, 13


def _seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def _network() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from torch import nn

    torch.set_num_threads(1)
    layers = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    return nn.Sequential(*layers).eval(), (torch.rand(2, 3, 16, 16),)


def _import_torch() -> float:
    return _seconds(lambda: __import__("torch"))


def _import_package() -> float:
    return _seconds(lambda: __import__("onnx_parity"))


def _import_exporter() -> float:
    _import_torch()
    return _seconds(lambda: __import__("onnx_parity.exporter"))


def _record_with_torch() -> float:
    """What torch itself needs to record a program without computing it: the floor of a first export."""
    model, args = _network()

    def record() -> None:
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode

        mode = FakeTensorMode()
        state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        fakes = {name: mode.from_tensor(tensor, static_shapes=True) for name, tensor in state.items()}
        inputs = tuple(mode.from_tensor(each, static_shapes=True) for each in args)
        with torch.no_grad(), mode:
            torch.func.functionalize(lambda *given: torch.func.functional_call(model, *given))(fakes, inputs)

    return _seconds(record)


def _first_export(axes: dict[str, dict[int, str]] | None) -> float:
    model, args = _network()

    def export() -> None:
        import onnx_parity

        onnx_parity.export(model, args, io.BytesIO(), input_names=["x"], dynamic_axes=axes, opset_version=OPSET)

    return _seconds(export)


def _second_opset() -> float:
    """A capture that was exported at one opset is exported at another, after another program has been at both."""
    import torch

    import onnx_parity

    other = onnx_parity.capture_program(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    for opset in (OPSET, SECOND_OPSET):
        other.lower(opset_version=opset).serialize()
    model, args = _network()
    capture = onnx_parity.capture_program(model, args)
    capture.lower(opset_version=OPSET).serialize()
    return _seconds(lambda: capture.lower(opset_version=SECOND_OPSET).serialize())


TAKEN: dict[str, Callable[[], float]] = {
    "import torch": _import_torch,
    "import onnx_parity": _import_package,
    "import onnx_parity.exporter, after torch": _import_exporter,
    "torch's first recording": _record_with_torch,
    "first export": lambda: _first_export(None),
    "first export, dynamic": lambda: _first_export({"x": {0: "batch"}}),
    "a capture at a second opset": _second_opset,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(TAKEN[sys.argv[1]]())
