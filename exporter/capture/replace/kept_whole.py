"""Composite operators that are kept whole, because ONNX has an operator for them or a better decomposition."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.attention import SDPBackend

from onnx_parity.exporter.capture.graph.graph import same_size
from onnx_parity.exporter.capture.replace.registry import instead_of, keep_whole, result_of_whole

_aten = torch.ops.aten

_RECURRENT = (
    _aten.lstm.input,
    _aten.lstm.data,
    _aten.gru.input,
    _aten.gru.data,
    _aten.rnn_tanh.input,
    _aten.rnn_tanh.data,
    _aten.rnn_relu.input,
    _aten.rnn_relu.data,
)

keep_whole(
    _aten.linear.default,
    _aten.matmul.default,
    _aten.bilinear.default,
    why="torch decomposes products into transpositions, reshapes and addmm or bmm; ONNX has MatMul and Gemm",
)
keep_whole(*_RECURRENT, why="torch records each step of the sequence; ONNX has LSTM, GRU and RNN")
keep_whole(
    _aten.scaled_dot_product_attention.default,
    why="torch chooses a kernel for the device, but the definition of attention does not depend on the device",
)
keep_whole(
    _aten.max_pool1d.default,
    _aten.avg_pool1d.default,
    why="torch pools in two dimensions, between two reshapes; ONNX pools in one dimension",
)
keep_whole(_aten._pad_circular.default, why="torch copies each part into new memory; ONNX has Pad and Concat")
keep_whole(_aten._pad_packed_sequence.default, why="torch reads the number of sequences at each step as plain ints")
keep_whole(_aten.rms_norm.default, why="torch decomposes it into elementary operators; ONNX has RMSNormalization")
keep_whole(
    _aten.batch_norm.default,
    _aten.instance_norm.default,
    why="torch chooses a kernel for the device; ONNX has BatchNormalization and InstanceNormalization",
)


def _has_channels_last(images: torch.Tensor) -> bool:
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
    return images.dim() in layouts and images.is_contiguous(memory_format=layouts[images.dim()])


@instead_of(
    _aten.batch_norm.default, why="in training it writes to its running statistics, which its schema does not declare"
)
def _batch_norm(*args: Any) -> Any:
    input, weight, bias, mean, variance, training, momentum, epsilon, *_ = args
    if input.dim() == 1:
        return input.clone()  # torch accepts a single axis only if it is empty; its fake kernels do not accept it.
    if not (input.is_contiguous() or _has_channels_last(input)):
        return _aten.batch_norm.default(input.contiguous(), *args[1:])  # The result is contiguous, whatever the input.
    if not training:
        return NotImplemented
    if mean is None:
        return _aten._native_batch_norm_legit.no_stats(input, weight, bias, True, momentum, epsilon)[0]
    return _aten._native_batch_norm_legit.default(input, weight, bias, mean, variance, True, momentum, epsilon)[0]


@instead_of(
    _aten.native_batch_norm.default,
    why="in training it writes to its running statistics, which its schema does not declare",
)
def _native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not training or running_mean is None or running_var is None:
        return NotImplemented
    return _aten._native_batch_norm_legit.default(input, weight, bias, running_mean, running_var, True, momentum, eps)


@instead_of(
    _aten.instance_norm.default, why="with running statistics it is a batch norm of another shape, which is kept whole"
)
def _instance_norm(*args: Any) -> Any:
    return NotImplemented if args[3] is None else _aten.instance_norm.default.decompose(*args)


@instead_of(_aten.dropout.default, why="torch's decomposition copies what is not dropped, and its kernel does not")
def _dropout(input: torch.Tensor, p: float, train: bool) -> Any:
    return NotImplemented if train and p != 0 else input  # Later writes to one of them are seen in the other.


@instead_of(_aten._convolution.default, _aten._convolution.deprecated, why="a convolution with options of the backend")
def _convolution(*args: Any) -> Any:
    return _aten.convolution.default(*args[:9])


# --- the shapes of their results --------------------------------------------------------------------------------------


@result_of_whole(*_RECURRENT, why="torch computes the sequence step by step, which would fix its length")
def _recurrent_result(input: torch.Tensor, *args: Any) -> tuple[torch.Tensor, ...]:
    packed = isinstance(args[2], (list, tuple))
    hx, bidirectional = (args[1], args[7]) if packed else (args[0], args[6])
    states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
    features = states[0].shape[-1] * (2 if bidirectional else 1)
    output = input.new_empty((*input.shape[:-1], features))
    return (output, *(state.new_empty(state.shape) for state in states))


@result_of_whole(_aten.linear.default, why="torch's fake kernel imports sympy, 0.3 s of a process's first export")
def _linear_result(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
    plain = weight.dim() == 2 and input.dim() > 0 and input.dtype == weight.dtype
    if plain and (bias is None or bias.shape == weight.shape[:1]) and same_size(input.shape[-1], weight.shape[1]):
        return torch.empty((*input.shape[:-1], weight.shape[0]), dtype=input.dtype, device=input.device)
    return NotImplemented  # torch refuses arguments that do not fit.


@result_of_whole(
    _aten.scaled_dot_product_attention.default,
    why="torch's fake kernel imports sympy, 0.3 s of a process's first export",
)
def _attention_result(query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """The result on a CPU, for tensors without data: its strides are those of the kernel that torch chooses."""
    tensors = (query, *args, *kwargs.values())
    if any(isinstance(each, FakeTensor) for each in tensors):
        return NotImplemented

    def allocated(argument: Any) -> Any:
        if not isinstance(argument, torch.Tensor):
            return argument
        # Nothing reads or writes its memory, so the system does not provide any.
        return torch.empty_strided(argument.shape, argument.stride(), dtype=argument.dtype)

    with torch._C._PreserveDispatchKeyGuard():
        torch._C._set_meta_in_tls_dispatch_include(False)  # Otherwise every kernel is that of tensors without data.
        like, *arguments = map(allocated, (query, *args))
        chosen = torch._fused_sdp_choice(like, *arguments, **{name: allocated(each) for name, each in kwargs.items()})
        strides = torch.empty_like(like).stride()
    if chosen != SDPBackend.FLASH_ATTENTION.value:
        return NotImplemented
    return torch.empty_strided(query.shape, strides, dtype=query.dtype, device=query.device)


@result_of_whole(_aten.bilinear.default, why="torch's own fails in an assertion where sizes are symbols")
def _bilinear_result(input1: torch.Tensor, input2: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> Any:
    if input1.dtype != weight.dtype or not same_size(input1.shape[-1], weight.shape[1]):
        return NotImplemented  # torch refuses arguments that do not fit.
    return input1.new_empty((*input1.shape[:-1], weight.shape[0]))


_FIXES_THE_LENGTH = "torch's fake kernel reads the length as a plain int; that of two-dimensional pooling does not"


@result_of_whole(_aten.max_pool1d.default, why=_FIXES_THE_LENGTH)
def _max_pool1d_result(
    x: torch.Tensor, kernel: list[int], stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> torch.Tensor:
    args = ([1, *kernel], [1, *(stride or kernel)], [0, *_listed(padding)], [1, *_listed(dilation)], ceil)
    pooled: torch.Tensor = _aten.max_pool2d_with_indices(x.unsqueeze(-2), *args)[0]
    return pooled.new_empty(pooled.squeeze(-2).shape)


@result_of_whole(_aten.avg_pool1d.default, why=_FIXES_THE_LENGTH)
def _avg_pool1d_result(
    x: torch.Tensor, kernel: list[int], stride: Any = (), padding: Any = 0, ceil: bool = False, counts: bool = True
) -> torch.Tensor:
    args = ([1, *kernel], [1, *(stride or kernel)], [0, *_listed(padding)], ceil, counts)
    pooled: torch.Tensor = _aten.avg_pool2d(x.unsqueeze(-2), *args)
    return pooled.squeeze(-2)


def _listed(numbers: Any) -> list[int]:
    return list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]
