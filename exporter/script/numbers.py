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

__all__ = ["DTYPES", "NUMERIC", "compute", "convert", "depends_on_values"]


def _gamma(x: torch.Tensor) -> torch.Tensor:
    """The gamma function from the logarithm of its absolute value. Its sign below 0 changes at every integer."""
    odd = torch.remainder(torch.floor(x), 2) != 0
    return torch.where((x < 0) & odd, -torch.exp(torch.lgamma(x)), torch.exp(torch.lgamma(x)))


#: Each operation for Python numbers, and for tensors of one element.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., torch.Tensor]]] = {
    **{
        name: (getattr(operator, name), getattr(torch, name))
        for name in ("add", "sub", "mul", "neg", "lt", "le", "gt", "ge", "eq", "ne")
    },
    **{
        name: (getattr(math, name), getattr(torch, name))
        for name in (
            "sqrt", "exp", "log", "sin", "cos", "tan", "atan", "tanh", "ceil", "floor", "asin", "acos", "atan2", "sinh",
            "cosh", "asinh", "acosh", "atanh", "log10", "log1p", "expm1", "copysign", "fmod", "isnan", "isinf",
            "isfinite", "erf", "erfc", "lgamma", "gcd",
        )
    },
    "div": (operator.truediv, torch.true_divide),
    "floordiv": (operator.floordiv, torch.floor_divide),
    "remainder": (operator.mod, torch.remainder),
    "pow": (operator.pow, torch.pow),
    "abs": (abs, torch.abs),
    "__and__": (operator.and_, torch.bitwise_and),
    "__or__": (operator.or_, torch.bitwise_or),
    "__xor__": (operator.xor, torch.bitwise_xor),
    "__not__": (operator.not_, torch.logical_not),
    "__lshift__": (operator.lshift, torch.bitwise_left_shift),
    "__rshift__": (operator.rshift, torch.bitwise_right_shift),
    "max": (max, torch.maximum),
    "min": (min, torch.minimum),
    "round": (round, torch.round),
    "fabs": (math.fabs, torch.abs),
    "degrees": (math.degrees, torch.rad2deg),
    "radians": (math.radians, torch.deg2rad),
    "gamma": (math.gamma, _gamma),
    "ldexp": (math.ldexp, lambda x, exponent: x * torch.pow(2.0, exponent)),
}  # fmt: skip
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
#: By the names of TorchScript's types, the dtypes of tensors of one number.
DTYPES = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}


def depends_on_values(number: Any) -> bool:
    """Whether a number is only known at run time: it is in a tensor, or is a symbol of sizes."""
    return isinstance(number, (torch.Tensor, torch.SymInt))


def compute(blocks: Blocks, name: str, arguments: Sequence[Leaf], returns: str) -> Leaf:
    """Compute one operation on numbers."""
    in_python, over_tensors = _FUNCTIONS[name]
    if not any(map(depends_on_values, arguments)):
        if name == "div" and arguments[1] == 0:
            raise blocks.error("the script divides by zero")
        return in_python(*arguments)
    if name in ("__and__", "__or__") and any(isinstance(argument, bool) for argument in arguments):
        decided, other = arguments if isinstance(arguments[0], bool) else arguments[::-1]
        return other if decided is (name == "__and__") else decided
    if not any(isinstance(argument, torch.Tensor) for argument in arguments):
        if name in _OVER_SIZES and not any(isinstance(argument, float) for argument in arguments):
            return in_python(*arguments)
        if name in _COMPARISONS and not any(isinstance(argument, float) for argument in arguments):
            return blocks.truth(in_python(*arguments))
    if name in _OF_CONDITIONS:
        conditions = [blocks.of_sizes(argument) for argument in arguments]
        if None not in conditions:
            return blocks.over_sizes(_OF_CONDITIONS[name](*conditions))
    tensors = [*map(blocks.as_tensor, arguments)]
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
    dtype = DTYPES.get(returns)
    tensor = tensor if tensor.device.type == "cpu" else tensor.cpu()
    return tensor if dtype is None or tensor.dtype is dtype else tensor.to(dtype)
