"""What is recorded for normalizations: most are kept whole; some decompositions of torch compute something else."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.registry.in_place import DYNAMIC, copy_back
from onnx_parity.exporter.registry.recorded import decomposition_of, instead_of, keep_whole
from onnx_parity.exporter.sizes.layouts import suggested_format

_aten = torch.ops.aten

copy_back("renorm_", to=DYNAMIC)
keep_whole("aten::rms_norm", why="torch decomposes it into elementary operators; ONNX has RMSNormalization")
keep_whole(
    "aten::batch_norm",
    "aten::instance_norm",
    why="torch chooses a kernel for the device; ONNX has BatchNormalization and InstanceNormalization",
)


@instead_of(
    "aten::batch_norm", why="in training it writes to its running statistics, which its schema does not declare"
)
def batch_norm(*args: Any) -> Any:
    input, weight, bias, mean, variance, training, momentum, epsilon, *_ = args
    if input.dim() == 1:
        return input.clone()  # torch accepts a single axis only if it is empty; its fake kernels do not accept it.
    if not (input.is_contiguous() or _has_channels_last(input)):
        laid = input.contiguous(memory_format=suggested_format(input))  # As the result is.
        return _aten.batch_norm.default(laid, *args[1:])
    if not training:
        return NotImplemented
    if mean is None:
        return _aten._native_batch_norm_legit.no_stats(input, weight, bias, True, momentum, epsilon)[0]
    return _aten._native_batch_norm_legit.default(input, weight, bias, mean, variance, True, momentum, epsilon)[0]


def _has_channels_last(images: torch.Tensor) -> bool:
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
    return images.dim() in layouts and images.is_contiguous(memory_format=layouts[images.dim()])


@instead_of(
    "aten::native_batch_norm",
    why="in training it writes to its running statistics, which its schema does not declare",
)
def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not training or running_mean is None or running_var is None:
        return NotImplemented
    return _aten._native_batch_norm_legit.default(input, weight, bias, running_mean, running_var, True, momentum, eps)


@instead_of(
    "aten::instance_norm", why="with running statistics it is a batch norm of another shape, which is kept whole"
)
def instance_norm(*args: Any) -> Any:
    return NotImplemented if args[3] is None else _aten.instance_norm.default.decompose(*args)


_OTHER_DTYPE = "torch's fake kernel gives the statistics of halves another dtype than the kernel"


@instead_of("aten::_native_batch_norm_legit.no_stats", why=_OTHER_DTYPE)
def batch_norm_without_statistics(
    input: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    op = _aten._native_batch_norm_legit.no_stats
    return _batch_norm_of_halves(op, input, [weight, bias], [], momentum, eps) if training else NotImplemented


@instead_of("aten::_native_batch_norm_legit", why=_OTHER_DTYPE)
def batch_norm_with_statistics(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float,
    eps: float,
) -> Any:  # fmt: skip
    statistics = [running_mean, running_var]
    if not training:  # Which writes to nothing.
        no_training = _aten._native_batch_norm_legit_no_training.default
        return no_training(input, weight, bias, *statistics, momentum, eps)
    op = _aten._native_batch_norm_legit_functional.default
    results = _batch_norm_of_halves(op, input, [weight, bias], statistics, momentum, eps)
    if results is NotImplemented:
        return NotImplemented
    for before, after in zip(statistics, results[3:], strict=True):
        before.copy_(after)
    return results[:3]


def _batch_norm_of_halves(op: Any, input: Any, parameters: list[Any], statistics: list[Any], *options: float) -> Any:
    """Computed in float32. The statistics of the batch get the dtype of the parameters."""
    given = next((each.dtype for each in (*parameters, *statistics) if each is not None), input.dtype)
    if given is torch.float32 or input.dtype not in (torch.float16, torch.bfloat16):
        return NotImplemented
    wide = [None if each is None else each.float() for each in (input, *parameters, *statistics)]
    return tuple(result.to(given) for result in op(*wide, True, *options))


# --- if it has no lowering --------------------------------------------------------------------------------------------


@decomposition_of(
    "aten::_weight_norm_interface",
    why="for a weight of one axis torch's own takes the norm over that axis, and the kernel over none",
)
def weight_norm_interface(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    others = [axis for axis in range(v.ndim) if axis != dim]
    dtype = torch.float32 if g.dtype is torch.bfloat16 else None
    norm = v.norm(2, others, keepdim=True, dtype=dtype) if others else v.abs().to(dtype or v.dtype)
    return v * (g / norm.to(g.dtype)), norm


@decomposition_of("aten::_batch_norm_with_update_functional", why="it is the batch norm of training")
def batch_norm_with_update(
    input: torch.Tensor, weight: Any, bias: Any, running_mean: torch.Tensor, running_var: torch.Tensor,
    momentum: float, eps: float,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    arguments = (input, weight, bias, running_mean, running_var, True, momentum, eps)
    output, mean, rstd, new_mean, new_var = torch.ops.aten._native_batch_norm_legit_functional.default(*arguments)
    reserve = torch.empty(0, dtype=torch.uint8, device=input.device)
    return output, mean, rstd, reserve, new_mean, new_var
