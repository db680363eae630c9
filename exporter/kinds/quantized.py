"""Quantized tensors of a program, recorded as the floats that they stand for, and the registry of rules for them.

torch has no fake tensors that are quantized. While a program is recorded, each quantized tensor is a `Quantized`: the
float tensor that `dequantize` would return, and its scale and zero point. What torch computes with integers is computed
with these floats, and rounded to the scale of the result. Runtimes find the same in the model as torch.onnx writes: a
DequantizeLinear before each operator, and a QuantizeLinear behind it.

    keeps_scale("transpose", "flip")                  functions of torch that move, select or keep elements
    rounds_to_scale("mean")                           others whose result has the scale of their argument
    has_own_scale("tanh", 2 / 256, 128, 0)            others whose result has always the same scale
    @computes_floats("linear", "matmul")              operators of `torch.ops.quantized`, which are given the scale
    @quantized_rule("cat")                            all others
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import torch
import torch.nn.functional as F
from msgspec.structs import replace

from onnx_parity.exporter.containers import Opened, Whole, opened_quantized
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.own_operators import define, run_by
from onnx_parity.exporter.registry.rules import Aspect, Rule, add, load
from onnx_parity.exporter.torch_inside.code_objects import first_line
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller

__all__ = [
    "Quantized",
    "call_quantized",
    "computes_floats",
    "dequantize",
    "has_own_scale",
    "keeps_scale",
    "quantized",
    "quantized_rule",
    "returns_no_tensor",
    "rounds_to_scale",
]

asks_for_its_caller(__file__)

_RANGES = {torch.quint8: (0, 255), torch.qint8: (-128, 127)}
_INTEGERS = {torch.quint8: torch.uint8, torch.qint8: torch.int8}
#: What a `Quantized` answers itself.
_OWN = frozenset({"dequantize", "int_repr", "q_scale", "q_zero_point"})

#: A rule is called with torch's function, the first quantized tensor, and the arguments, with floats in the place of
#: quantized tensors.
QuantizedRule = Callable[[Callable[..., Any], "Quantized", list[Any], dict[str, Any]], Any]
_Rule = TypeVar("_Rule", bound=QuantizedRule)
_Floats = TypeVar("_Floats", bound=Callable[..., torch.Tensor])
#: By the names of functions of torch, and of operators such as `quantized::cat`.
_rules: dict[str, QuantizedRule] = {}
#: What operators of `torch.ops.quantized` compute in floats, without their last arguments: the scale and zero point.
_floats: dict[str, Callable[..., torch.Tensor]] = {}


class Quantized(Whole, msgspec.Struct, frozen=True, eq=False):
    """A quantized tensor of the program."""

    value: torch.Tensor
    #: An input of the model brings its own: a float64 and an int64 without axes.
    scale: float | torch.Tensor
    zero_point: int | torch.Tensor
    quantized_dtype: torch.dtype
    #: Whether it is an input or a result of `quantize_per_tensor`, which is contiguous if its argument is.
    is_new: bool = False

    is_quantized = True

    @property
    def dtype(self) -> torch.dtype:
        return self.quantized_dtype

    @classmethod
    def of_input(cls, ints: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> Quantized:
        """The input of the model that has these parts."""
        value = dequantize(ints, scale.to(torch.float32), zero_point.to(ints.dtype), 0)
        dtype = next(dtype for dtype, of_ints in _INTEGERS.items() if of_ints is ints.dtype)
        return cls(value, scale, zero_point, dtype, is_new=True)

    def taken_apart(self) -> Opened:
        """The parts that are outputs of the model."""
        return opened_quantized(self.int_repr(), *self._grid(torch.float64, torch.int64))

    def _grid(self, of_scale: torch.dtype, of_zero_point: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """The scale and the zero point as tensors."""
        return torch.as_tensor(self.scale, dtype=of_scale), torch.as_tensor(self.zero_point, dtype=of_zero_point)

    def q_scale(self) -> Any:
        return _number(self.scale)

    def q_zero_point(self) -> Any:
        return _number(self.zero_point)

    def int_repr(self) -> torch.Tensor:
        ints: torch.Tensor = _quantize(self.value, *self._grid(torch.float32, _INTEGERS[self.quantized_dtype]))
        return ints

    def dequantize(self) -> torch.Tensor:
        return self.value

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(torch.Tensor, name)
        if callable(attribute):
            return lambda *args, **kwargs: call_quantized(attribute, "torch", name, (self, *args), kwargs)
        return getattr(self.value, name)

    def __getitem__(self, items: Any) -> Quantized:
        return self.with_value(self.value[items])

    def __len__(self) -> int:
        return len(self.value)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        parts = str(func).split(".")
        name = parts[1] if parts[0] == "quantized" else func.__name__
        return call_quantized(func, parts[0], name, args, kwargs or {})

    def with_value(self, value: torch.Tensor) -> Quantized:
        return Quantized(value, self.scale, self.zero_point, self.quantized_dtype)


def quantized(x: torch.Tensor, scale: Any, zero_point: Any, dtype: torch.dtype) -> Quantized:
    """`torch.quantize_per_tensor`."""
    if dtype not in _RANGES:
        raise refused_here(
            f"the program quantizes a tensor to {dtype}, for which ONNX's QuantizeLinear has no integers: use "
            "torch.quint8 or torch.qint8"
        )
    if isinstance(scale, torch.Tensor) or isinstance(zero_point, torch.Tensor):
        grid = torch.as_tensor(scale, dtype=torch.float32), torch.as_tensor(zero_point, dtype=torch.int32)
        rounded = torch.fake_quantize_per_tensor_affine(x, *grid, *_RANGES[dtype])
    else:
        scale, zero_point = float(scale), int(zero_point)
        rounded = torch.fake_quantize_per_tensor_affine(x, scale, zero_point, *_RANGES[dtype])
    return Quantized(rounded, scale, zero_point, dtype)


def _number(held: Any) -> Any:
    return held.item() if isinstance(held, torch.Tensor) else held


def call_quantized(func: Callable[..., Any], namespace: str, name: str, args: Any, kwargs: Any) -> Any:
    """An operator that is given or returns quantized tensors."""
    if name == "quantize_per_tensor":
        return replace(quantized(*args, **kwargs), is_new=True)
    first = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
    if name in _OWN:
        return getattr(first, name)()
    load(Aspect.QUANTIZED)
    floats = [_float(argument) for argument in args]
    is_operator = namespace == "quantized"
    rule = _rules.get(f"quantized::{name}" if is_operator else name)
    if rule is not None:
        return rule(func, first, floats, kwargs)
    if is_operator:
        return _call_operator(name, first, floats, kwargs)
    raise _refused(name)


def _call_operator(name: str, first: Quantized, values: list[Any], kwargs: dict[str, Any]) -> Quantized:
    """An operator of `torch.ops.quantized`."""
    named = {key: value for key, value in kwargs.items() if "scale" not in key and "zero_point" not in key}
    count = 2 - (len(kwargs) - len(named))
    compute = _floats.get(name.removesuffix("_relu"))
    if compute is None or len(values) < count:
        raise _refused(f"torch.ops.quantized.{name}")
    scale, zero_point = (*values[len(values) - count :], *(kwargs[key] for key in kwargs if key not in named))
    made = compute(*values[: len(values) - count], **named)
    return quantized(F.relu(made) if name.endswith("_relu") else made, scale, zero_point, first.dtype)


def _float(argument: Any) -> Any:
    if isinstance(argument, Quantized):
        return argument.value
    return type(argument)(map(_float, argument)) if isinstance(argument, (list, tuple)) else argument


def _refused(name: str) -> Exception:
    return refused_here(
        f"the program gives a quantized tensor to {name}, which the exporter does not have for quantized tensors: "
        "dequantize it before, and quantize the result"
    )


# --- rules ------------------------------------------------------------------------------------------------------------


def quantized_rule(*names: str) -> Callable[[_Rule], _Rule]:
    """Register the rule of functions of torch, or of operators such as `quantized::cat`."""

    def register(rule: _Rule) -> _Rule:
        asks_for_its_caller(first_line(rule)[0])
        for name in names:
            assert name not in _rules, f"{name} has two rules"
            _rules[name] = rule
            add(Rule(name if "::" in name else f"torch.Tensor.{name}", Aspect.QUANTIZED, rule))
        return rule

    return register


def computes_floats(*names: str) -> Callable[[_Floats], _Floats]:
    """Let the function compute the floats of operators of `torch.ops.quantized`, and of those with a relu behind."""

    def register(function: _Floats) -> _Floats:
        for name in names:
            _floats[name] = function
            add(Rule(f"quantized::{name}", Aspect.QUANTIZED, function))
        return function

    return register


def keeps_scale(*names: str) -> None:
    """Register functions that move, select or keep elements."""

    def rule(func: Callable[..., Any], first: Quantized, floats: list[Any], kwargs: dict[str, Any]) -> Any:
        result = func(*floats, **kwargs)
        if isinstance(result, torch.Tensor):
            return first.with_value(result)
        return type(result)(map(first.with_value, result))

    quantized_rule(*names)(rule)


def rounds_to_scale(*names: str) -> None:
    """Register functions whose result has the scale of their argument, and is rounded to it."""

    def rule(func: Callable[..., Any], first: Quantized, floats: list[Any], kwargs: dict[str, Any]) -> Quantized:
        return quantized(func(*floats, **kwargs), first.scale, first.zero_point, first.dtype)

    quantized_rule(*names)(rule)


def has_own_scale(name: str, scale: float, of_unsigned: int, of_signed: int) -> None:
    """Register a function whose result has always this scale, and the zero point of its kind of integers."""

    def rule(func: Callable[..., Any], first: Quantized, floats: list[Any], kwargs: dict[str, Any]) -> Quantized:
        zero_point = of_unsigned if first.dtype is torch.quint8 else of_signed
        return quantized(func(*floats, **kwargs), scale, zero_point, first.dtype)

    quantized_rule(name)(rule)


def returns_no_tensor(*names: str) -> None:
    """Register functions that say something about the floats, such as their shape."""
    quantized_rule(*names)(lambda func, first, floats, kwargs: func(*floats, **kwargs))


# --- conversions between floats and integers --------------------------------------------------------------------------


def _of_integers(shapes: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.empty_like(shapes, dtype=scale.dtype)


def _computed(ints: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int) -> torch.Tensor:
    along = [-1 if other == axis else 1 for other in range(ints.ndim)] if scale.ndim else []
    return scale.reshape(along) * (ints.to(scale.dtype) - zero_point.to(scale.dtype).reshape(along))


dequantize = define("dequantize(Tensor ints, Tensor scale, Tensor zero_point, int axis) -> Tensor", _of_integers)
run_by(dequantize, _computed)


def _of_results(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x, dtype=zero_point.dtype)


def _integers(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
    bounds = torch.iinfo(zero_point.dtype)
    return ((x / scale).round() + zero_point).clamp(bounds.min, bounds.max).to(zero_point.dtype)


_quantize = define("quantize(Tensor x, Tensor scale, Tensor zero_point) -> Tensor", _of_results)
run_by(_quantize, _integers)
