"""Numbers of scripts: Python numbers if they are known, symbols of sizes, and tensors of one element if they depend on
values.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx_parity.exporter.expressions.conditions import And, Not, Or
from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import Leaf

__all__ = ["NUMERIC", "compute", "convert", "is_known"]


def _gamma(x: torch.Tensor) -> torch.Tensor:
    """The gamma function from the logarithm of its absolute value. Its sign below 0 changes at every integer."""
    odd = torch.remainder(torch.floor(x), 2) != 0
    return torch.where((x < 0) & odd, -torch.exp(torch.lgamma(x)), torch.exp(torch.lgamma(x)))


#: Each operation for Python numbers (None: TorchScript's own is called), and for tensors of one element.
_FUNCTIONS: dict[str, tuple[Callable[..., Any] | None, Callable[..., torch.Tensor]]] = {
    "add": (operator.add, torch.add),
    "sub": (operator.sub, torch.sub),
    "mul": (operator.mul, torch.mul),
    "div": (operator.truediv, torch.true_divide),
    "floordiv": (operator.floordiv, torch.floor_divide),
    "remainder": (operator.mod, torch.remainder),
    "pow": (operator.pow, torch.pow),
    "neg": (operator.neg, torch.neg),
    "abs": (abs, torch.abs),
    "lt": (operator.lt, torch.lt),
    "le": (operator.le, torch.le),
    "gt": (operator.gt, torch.gt),
    "ge": (operator.ge, torch.ge),
    "eq": (operator.eq, torch.eq),
    "ne": (operator.ne, torch.ne),
    "__and__": (operator.and_, torch.bitwise_and),
    "__or__": (operator.or_, torch.bitwise_or),
    "__xor__": (operator.xor, torch.bitwise_xor),
    "__not__": (operator.not_, torch.logical_not),
    "__lshift__": (operator.lshift, torch.bitwise_left_shift),
    "__rshift__": (operator.rshift, torch.bitwise_right_shift),
    "max": (max, torch.maximum),
    "min": (min, torch.minimum),
    "sqrt": (math.sqrt, torch.sqrt),
    "exp": (math.exp, torch.exp),
    "log": (math.log, torch.log),
    "sin": (math.sin, torch.sin),
    "cos": (math.cos, torch.cos),
    "tan": (math.tan, torch.tan),
    "atan": (math.atan, torch.atan),
    "tanh": (math.tanh, torch.tanh),
    "ceil": (math.ceil, torch.ceil),
    "floor": (math.floor, torch.floor),
    "round": (round, torch.round),
    "asin": (math.asin, torch.asin),
    "acos": (math.acos, torch.acos),
    "atan2": (math.atan2, torch.atan2),
    "sinh": (math.sinh, torch.sinh),
    "cosh": (math.cosh, torch.cosh),
    "asinh": (math.asinh, torch.asinh),
    "acosh": (math.acosh, torch.acosh),
    "atanh": (math.atanh, torch.atanh),
    "log10": (math.log10, torch.log10),
    "log1p": (math.log1p, torch.log1p),
    "expm1": (math.expm1, torch.expm1),
    "fabs": (math.fabs, torch.abs),
    "copysign": (math.copysign, torch.copysign),
    "fmod": (math.fmod, torch.fmod),
    "degrees": (math.degrees, torch.rad2deg),
    "radians": (math.radians, torch.deg2rad),
    "isnan": (math.isnan, torch.isnan),
    "isinf": (math.isinf, torch.isinf),
    "isfinite": (math.isfinite, torch.isfinite),
    "erf": (math.erf, torch.erf),
    "erfc": (math.erfc, torch.erfc),
    "lgamma": (math.lgamma, torch.lgamma),
    "gamma": (math.gamma, _gamma),
    "ldexp": (math.ldexp, lambda x, exponent: x * torch.pow(2.0, exponent)),
    "gcd": (math.gcd, torch.gcd),
}
_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
#: Operations that may be applied to conditions on sizes.
_OF_CONDITIONS: dict[str, Callable[..., Any]] = {
    "__and__": And.of,
    "__or__": Or.of,
    "__not__": Not.of,
}
#: Operations that may be applied to symbols of sizes.
_OVER_SIZES = frozenset({"add", "sub", "mul", "floordiv", "remainder", "neg"})
NUMERIC = frozenset(f"{room}::{name}" for room in ("aten", "prim", "math") for name in _FUNCTIONS)
#: Operations whose arguments Python converts to floats.
_OF_FLOATS = frozenset({"isnan", "isinf", "isfinite"})
_DTYPES = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}


def is_known(value: Leaf) -> bool:
    return not isinstance(value, (torch.Tensor, torch.SymInt))


def compute(blocks: Blocks, name: str, arguments: Sequence[Leaf], returns: str) -> Leaf:
    """Compute one operation on numbers."""
    in_python, over_tensors = _FUNCTIONS[name]
    if all(map(is_known, arguments)):
        if name == "div" and arguments[1] == 0:
            raise blocks.error("the script divides by zero")
        return in_python(*arguments) if in_python is not None else getattr(torch.ops.aten, name)(*arguments)
    if name in ("__and__", "__or__") and any(isinstance(argument, bool) for argument in arguments):
        decided, other = arguments if isinstance(arguments[0], bool) else arguments[::-1]
        return other if decided is (name == "__and__") else decided
    if not any(isinstance(argument, torch.Tensor) for argument in arguments):
        if name in _OVER_SIZES and not any(isinstance(argument, float) for argument in arguments):
            assert in_python is not None
            return in_python(*arguments)
        if name in _COMPARISONS and not any(isinstance(argument, float) for argument in arguments):
            assert in_python is not None
            return blocks.truth(in_python(*arguments))
    if name in _OF_CONDITIONS:
        conditions = [blocks.of_sizes(argument) for argument in arguments]
        if None not in conditions:
            return blocks.over_sizes(_OF_CONDITIONS[name](*conditions))
    tensors = [blocks.give(blocks.tensor(a)) if not isinstance(a, torch.Tensor) else a for a in arguments]
    floating = (
        name in _OF_FLOATS
        or returns == "float"
        or name == "div"
        or any(tensor.is_floating_point() for tensor in tensors)
    )
    if floating:
        tensors = [tensor.to(torch.float64) for tensor in tensors]
    if name in _COMPARISONS and all(tensor.dtype is torch.bool for tensor in tensors):
        tensors = [tensor.to(torch.int64) for tensor in tensors]
    return convert(over_tensors(*tensors), returns)


def convert(tensor: torch.Tensor, returns: str) -> torch.Tensor:
    """A number in the dtype that represents its TorchScript type, and in the CPU's memory, as every number is."""
    dtype = _DTYPES.get(returns)
    tensor = tensor if tensor.device.type == "cpu" else tensor.cpu()
    return tensor if dtype is None or tensor.dtype is dtype else tensor.to(dtype)
