"""Probes of what torch does to programs before any exporter sees them: fake tensors, and decompositions."""

from __future__ import annotations

from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.search.probed_program import ProbedProgram
from onnx_parity.harness.search.probes import Failure, Fault, Point, RefusedHere

#: torch's decompositions are compared with its kernels to these, by dtype. Halves are rounded at every step.
_TOLERANCES = {torch.float32: 1e-3, torch.float64: 1e-8}


def fake_tensors(subject: ProbedProgram, point: Point) -> Failure | None:
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
            detail = f"output {number}: {_describe(other)} of fake tensors, {_describe(one)} of real ones"
            return Failure("torch: fake tensors", Fault.WRONG, detail, subject.example)
    return None


def _same_strides(one: torch.Tensor, other: torch.Tensor) -> bool:
    pairs = zip(one.shape, one.stride(), other.stride(), strict=True)
    return all(a == b for size, a, b in pairs if size > 1)


def _describe(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)} and strides {tensor.stride()}"


def decompositions(subject: ProbedProgram, point: Point) -> Failure | None:
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
        return f"{_describe(decomposed)} if decomposed, {_describe(kernel)} of the kernel"
    if kernel.dtype in (torch.float16, torch.bfloat16):
        return ""
    tolerance = _TOLERANCES.get(kernel.dtype, 0.0)
    if torch.allclose(kernel, decomposed, rtol=tolerance, atol=tolerance, equal_nan=True):
        return ""
    place = (
        (~torch.isclose(kernel, decomposed, rtol=tolerance, atol=tolerance, equal_nan=True)).flatten().int().argmax()
    )
    return f"{decomposed.flatten()[place].item()} if decomposed, {kernel.flatten()[place].item()} of the kernel"
