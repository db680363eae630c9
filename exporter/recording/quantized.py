"""Quantized tensors of a program, recorded as the floats that they stand for.

torch has no fake tensors that are quantized. While a program is recorded, each quantized tensor is a `Quantized`: the
float tensor that `dequantize` would return, and its scale and zero point. What torch computes with integers is computed
with these floats, and rounded to the scale of the result. Runtimes find the same in the model as torch.onnx writes: a
DequantizeLinear before each operator, and a QuantizeLinear behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from msgspec.structs import replace

from onnx_parity.exporter.containers import Opened, Whole, opened_quantized
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.own_operators import define, run_by
from onnx_parity.exporter.recording.evaluate import outside_of_recording
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller

__all__ = ["Quantized", "call_quantized", "quantized"]

asks_for_its_caller(__file__)

_RANGES = {torch.quint8: (0, 255), torch.qint8: (-128, 127)}
_INTEGERS = {torch.quint8: torch.uint8, torch.qint8: torch.int8}
#: What moves, selects or keeps elements.
_KEEPING = frozenset(
    {
        "transpose", "permute", "reshape", "view", "flatten", "squeeze", "unsqueeze", "expand", "expand_as", "select",
        "narrow", "clone", "contiguous", "detach", "t", "movedim", "flip", "repeat", "unflatten", "channel_shuffle",
        "pixel_shuffle", "relu", "relu_", "relu6", "max_pool1d", "max_pool2d", "max_pool3d", "dropout", "dropout1d",
        "dropout2d", "dropout3d", "amax", "amin", "chunk", "split", "unbind", "slice", "max_pool2d_with_indices",
        "as_strided",
    }
)  # fmt: skip
#: What has the scale of its argument, and is rounded to it.
_ROUNDING = frozenset(
    {
        "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
        "interpolate", "upsample", "mean", "leaky_relu", "hardtanh", "clamp", "threshold", "pad",
        "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bilinear2d", "constant_pad_nd",
    }
)  # fmt: skip
#: What has a scale of its own, with the zero points of unsigned and of signed integers.
_OF_OWN_SCALE = {
    "sigmoid": (1 / 256, 0, -128),
    "hardsigmoid": (1 / 256, 0, -128),
    "tanh": (2 / 256, 128, 0),
}
_OF_SHAPES = frozenset({"size", "dim", "numel", "nelement", "stride", "__len__", "ndimension", "is_contiguous"})


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
        value = _dequantize(ints, scale.to(torch.float32), zero_point.to(ints.dtype), 0)
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
            return lambda *args, **kwargs: _called(attribute, name, (self, *args), kwargs)
        return getattr(self.value, name)

    def __getitem__(self, items: Any) -> Quantized:
        return self._with(self.value[items])

    def __len__(self) -> int:
        return len(self.value)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        parts = str(func).split(".")
        name = parts[1] if parts[0] == "quantized" else func.__name__
        return call_quantized(func, parts[0], name, args, kwargs or {})

    def _with(self, value: torch.Tensor) -> Quantized:
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
    return _quantized_operator(name, args, kwargs) if namespace == "quantized" else _called(func, name, args, kwargs)


def _called(func: Callable[..., Any], name: str, args: Any, kwargs: Any) -> Any:
    """A function of torch that is given quantized tensors."""
    first = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
    if name in ("dequantize", "int_repr", "q_scale", "q_zero_point"):
        return getattr(first, name)()
    floats = [_float(argument) for argument in args]
    if name in _OF_SHAPES:
        return func(*floats, **kwargs)
    if name in ("cat", "concat"):
        return quantized(func(*floats, **kwargs), first.scale, first.zero_point, first.dtype)
    if name == "as_strided" and not (first.is_new and first.value.is_contiguous()):
        raise refused_here(
            "the program gives a quantized tensor to as_strided whose order in memory is not known: quantize a "
            "contiguous tensor and give that, or use slices, unfold or expand"
        )
    if name in _KEEPING:
        result = func(*floats, **kwargs)
        if isinstance(result, torch.Tensor):
            return first._with(result)
        return type(result)(map(first._with, result))
    if name in _ROUNDING:
        return quantized(func(*floats, **kwargs), first.scale, first.zero_point, first.dtype)
    if name in _OF_OWN_SCALE:
        scale, of_unsigned, of_signed = _OF_OWN_SCALE[name]
        zero_point = of_unsigned if first.dtype is torch.quint8 else of_signed
        return quantized(func(*floats, **kwargs), scale, zero_point, first.dtype)
    raise _refused(name)


def _float(argument: Any) -> Any:
    if isinstance(argument, Quantized):
        return argument.value
    return type(argument)(map(_float, argument)) if isinstance(argument, (list, tuple)) else argument


def _refused(name: str) -> Exception:
    return refused_here(
        f"the program gives a quantized tensor to {name}, which the exporter does not have for quantized tensors: "
        "dequantize it before, and quantize the result"
    )


# --- torch.ops.quantized ----------------------------------------------------------------------------------------------


def _of_integers(shapes: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.empty_like(shapes, dtype=scale.dtype)


def _computed(ints: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int) -> torch.Tensor:
    along = [-1 if other == axis else 1 for other in range(ints.ndim)] if scale.ndim else []
    return scale.reshape(along) * (ints.to(scale.dtype) - zero_point.to(scale.dtype).reshape(along))


_dequantize = define("dequantize(Tensor ints, Tensor scale, Tensor zero_point, int axis) -> Tensor", _of_integers)
run_by(_dequantize, _computed)


def _of_results(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x, dtype=zero_point.dtype)


def _integers(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
    bounds = torch.iinfo(zero_point.dtype)
    return ((x / scale).round() + zero_point).clamp(bounds.min, bounds.max).to(zero_point.dtype)


_quantize = define("quantize(Tensor x, Tensor scale, Tensor zero_point) -> Tensor", _of_results)
run_by(_quantize, _integers)


def _weights(packed: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The weight, as a tensor of floats made of integers of the program, and the bias."""
    with outside_of_recording():
        weight, bias = packed.unpack()
        ints = weight.int_repr()
        if weight.qscheme() in (torch.per_channel_affine, torch.per_channel_affine_float_qparams):
            axis = weight.q_per_channel_axis()
            scale = weight.q_per_channel_scales().to(torch.float32)
            zero_point = weight.q_per_channel_zero_points().to(ints.dtype)
        else:
            axis, scale = 0, torch.tensor(weight.q_scale())
            zero_point = torch.tensor(weight.q_zero_point(), dtype=ints.dtype)
    return _dequantize(ints, scale, zero_point, axis), bias


def _linear(x: torch.Tensor, packed: Any) -> torch.Tensor:
    return F.linear(x, *_weights(packed))


def _convolution(x: torch.Tensor, packed: Any) -> torch.Tensor:
    weight, bias = _weights(packed)
    with outside_of_recording():
        stride, padding, dilation = packed.stride(), packed.padding(), packed.dilation()
        extra, groups, transposed = packed.output_padding(), packed.groups(), bool(packed.transpose())
    # A convolution in one dimension is packed as one in two.
    axes = x.ndim - 2
    stride, padding, dilation, extra = (list(each)[-axes:] for each in (stride, padding, dilation, extra))
    if weight.ndim > x.ndim:
        weight = weight.squeeze(2)
    made: torch.Tensor = torch.convolution(x, weight, bias, stride, padding, dilation, transposed, extra, groups)
    return made


def _batch_norm(x: torch.Tensor, weight: Any, bias: Any, mean: Any, variance: Any, epsilon: float) -> torch.Tensor:
    return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, epsilon)


def _cat(tensors: list[torch.Tensor], dim: int = 0) -> torch.Tensor:
    return torch.cat(tensors, dim)


#: What each operator computes in floats, without its last arguments, which are the scale and the zero point.
_OPERATORS: dict[str, Callable[..., torch.Tensor]] = {
    "linear": _linear,
    **{f"conv{axes}d": _convolution for axes in (1, 2, 3)},
    **{f"conv_transpose{axes}d": _convolution for axes in (1, 2, 3)},
    **{f"batch_norm{axes}": _batch_norm for axes in ("", "1d", "2d", "3d")},
    "add": torch.add,
    "mul": torch.mul,
    "hardswish": F.hardswish,
    "layer_norm": F.layer_norm,
    "group_norm": F.group_norm,
    "instance_norm": lambda x, weight, bias, epsilon: F.instance_norm(x, None, None, weight, bias, True, 0.0, epsilon),
    "softmax": F.softmax,
    "sigmoid": torch.sigmoid,
    "matmul": torch.matmul,
    "prelu": F.prelu,
}


def _quantized_operator(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Quantized:
    """An operator of `torch.ops.quantized`."""
    first = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
    values = [_float(argument) for argument in args]
    if name == "relu6":
        return quantized(F.relu6(first.value), first.scale, first.zero_point, first.dtype)
    if name == "cat":
        # Its axis is before the scale, and either may be named.
        tensors, *rest = values
        names = dict(zip(("dim", "scale", "zero_point"), rest, strict=False)) | kwargs
        return quantized(_cat(tensors, names.get("dim", 0)), *_scale_of(first, names), first.dtype)
    if name in ("leaky_relu", "elu", "celu"):
        return _with_slope(name, first, values[1:])
    named = {key: value for key, value in kwargs.items() if "scale" not in key and "zero_point" not in key}
    count = 2 - (len(kwargs) - len(named))
    operation = _OPERATORS.get(name.removesuffix("_relu"))
    if operation is None or len(values) < count:
        raise _refused(f"torch.ops.quantized.{name}")
    scale, zero_point = (*values[len(values) - count :], *(kwargs[key] for key in kwargs if key not in named))
    made = operation(*values[: len(values) - count], **named)
    return quantized(F.relu(made) if name.endswith("_relu") else made, scale, zero_point, first.dtype)


def _scale_of(first: Quantized, names: dict[str, Any]) -> tuple[Any, Any]:
    scale, zero_point = names.get("scale"), names.get("zero_point")
    return first.scale if scale is None else scale, first.zero_point if zero_point is None else zero_point


def _with_slope(name: str, first: Quantized, rest: list[Any]) -> Quantized:
    """Activations whose slopes are after or before the scale."""
    if name == "leaky_relu":
        slope, _, scale, zero_point = rest
        return quantized(F.leaky_relu(first.value, slope), scale, zero_point, first.dtype)
    scale, zero_point, *alpha = rest
    return quantized(getattr(F, name)(first.value, *alpha[:1]), scale, zero_point, first.dtype)
