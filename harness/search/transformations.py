"""Probes of what is done to models, and of what torch does to programs before any exporter sees them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import onnx
import onnx.parser
import onnx.printer
import onnx.shape_inference
import onnx.version_converter
import torch
from torch._decomp import core_aten_decompositions
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from onnx_parity.harness.one_line import error_line, one_line
from onnx_parity.harness.search.probes import Failure, Fault, Point, RefusedHere, run_model, valid_model
from onnx_parity.harness.search.trial import Subject

#: torch's decompositions are compared with its kernels to these, by dtype. Halves are rounded at every step.
_TOLERANCES = {torch.float32: 1e-3, torch.float64: 1e-8}


def shape_inference(subject: Subject, point: Point) -> Failure | None:
    """onnx infers no other shape or dtype of an output than it has."""
    culprit = "onnx.shape_inference"
    model = onnx.ModelProto()
    model.CopyFrom(valid_model(subject, point))
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # noqa: BLE001
        return Failure(culprit, Fault.ERROR, error_line(error), subject.example)
    assert subject.example is not None
    for output, expected in zip(inferred.graph.output, subject.example.expected, strict=True):
        tensor = output.type.tensor_type
        if not tensor.HasField("shape"):
            continue
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        shape = expected.value.shape
        if len(sizes) != len(shape) or any(a not in (None, b) for a, b in zip(sizes, shape, strict=True)):
            return Failure(culprit, Fault.WRONG, f"inferred {sizes}, but the shape is {list(shape)}", subject.example)
    return None


def version_converter(subject: Subject, point: Point) -> Failure | None:
    """A model that onnx has converted to another opset computes the same."""
    model = valid_model(subject, point)
    target = {18: 21, 21: 18, 9: 13, 13: 16, 16: 19}.get(point.opset, 18)
    try:
        converted = onnx.version_converter.convert_version(model, target)
    except Exception as error:
        text = one_line(str(error))
        if "adapter" in text.lower() or "not supported" in text.lower() or "Unsupported" in text:
            raise RefusedHere(text) from error
        return Failure(
            "onnx.version_converter", Fault.ERROR, f"{point.opset} to {target}: {error_line(error)}", subject.example
        )
    assert subject.example is not None
    return run_model(converted, subject.example, "onnx.version_converter")


def text(subject: Subject, point: Point) -> Failure | None:
    """A model that onnx has printed as text and read again computes the same."""
    model = valid_model(subject, point)
    printed = onnx.printer.to_text(model)
    try:
        parsed = onnx.parser.parse_model(printed)
    except Exception as error:  # noqa: BLE001
        return Failure("onnx.parser", Fault.ERROR, error_line(error), subject.example)
    assert subject.example is not None
    return run_model(parsed, subject.example, "onnx.parser")


def onnxscript_optimizer(subject: Subject, point: Point) -> Failure | None:
    """A model that onnxscript has optimised computes the same."""
    if find_spec("onnxscript") is None:
        raise RefusedHere("onnxscript is not installed")
    from onnxscript import optimizer

    model = onnx.ModelProto()
    model.CopyFrom(valid_model(subject, point))
    try:
        optimised: Any = optimizer.optimize(model)
    except Exception as error:  # noqa: BLE001
        return Failure("onnxscript.optimizer", Fault.ERROR, error_line(error), subject.example)
    assert subject.example is not None
    return run_model(optimised, subject.example, "onnxscript.optimizer")


def fake_tensors(subject: Subject, point: Point) -> Failure | None:
    """torch's fake tensors have the shapes, dtypes and strides of real ones."""
    assert subject.example is not None
    inputs = subject.example.inputs
    real = subject.run(inputs)  # type: ignore[arg-type]
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fake = tree_leaves(
                subject.module(*(mode.from_tensor(each) for each in inputs if isinstance(each, torch.Tensor)))
            )
    except Exception as error:
        if type(error).__name__ in ("DataDependentOutputException", "DynamicOutputShapeException"):
            raise RefusedHere(error_line(error)) from error
        return Failure("torch: fake tensors", Fault.ERROR, error_line(error), subject.example)
    for number, (one, other) in enumerate(zip(real, fake, strict=True)):
        if (one.dtype, one.shape) != (other.dtype, other.shape) or (one.numel() > 0 and not _same_strides(one, other)):
            detail = f"output {number}: {_told(other)} of fake tensors, {_told(one)} of real ones"
            return Failure("torch: fake tensors", Fault.WRONG, detail, subject.example)
    return None


def _same_strides(one: torch.Tensor, other: torch.Tensor) -> bool:
    pairs = zip(one.shape, one.stride(), other.stride(), strict=True)
    return all(a == b for size, a, b in pairs if size > 1)


def _told(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)} and strides {tensor.stride()}"


def decompositions(subject: Subject, point: Point) -> Failure | None:
    """torch's decompositions of operators return what its kernels return."""
    assert subject.example is not None
    compared = _Decomposed()
    with compared:
        subject.run(subject.example.inputs)  # type: ignore[arg-type]
    return (
        Failure("torch: decompositions", Fault.WRONG, compared.different, subject.example)
        if compared.different
        else None
    )


class _Decomposed(TorchDispatchMode):
    """Runs each operator as it is and as torch decomposes it, and keeps the first difference."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.different = ""
        self._table = core_aten_decompositions()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not isinstance(func, OpOverload):
            return result
        schema = func._schema
        if (
            self.different
            or func not in self._table
            or schema.is_mutable
            or torch.Tag.nondeterministic_seeded in func.tags
        ):
            return result
        try:
            decomposed = self._table[func](*args, **kwargs)
        except Exception as error:  # noqa: BLE001  A decomposition may raise anything.
            if not isinstance(error, NotImplementedError):
                self.different = f"{func}: {error_line(error)}"
            return result
        if decomposed is NotImplemented:
            return result
        for number, (one, other) in enumerate(zip(tree_leaves(result), tree_leaves(decomposed), strict=False)):
            if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and (how := _differs(one, other)):
                self.different = f"{func}, result {number}: {how}"
        return result


def _differs(kernel: torch.Tensor, decomposed: torch.Tensor) -> str:
    if (kernel.dtype, kernel.shape) != (decomposed.dtype, decomposed.shape):
        return f"{_told(decomposed)} if decomposed, {_told(kernel)} of the kernel"
    if kernel.dtype in (torch.float16, torch.bfloat16):
        return ""
    tolerance = _TOLERANCES.get(kernel.dtype, 0.0)
    if torch.allclose(kernel, decomposed, rtol=tolerance, atol=tolerance, equal_nan=True):
        return ""
    place = (
        (~torch.isclose(kernel, decomposed, rtol=tolerance, atol=tolerance, equal_nan=True)).flatten().int().argmax()
    )
    return f"{decomposed.flatten()[place].item()} if decomposed, {kernel.flatten()[place].item()} of the kernel"
