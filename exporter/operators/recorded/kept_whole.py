"""Composite operators that are kept whole, because ONNX has an operator for them or a better decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.attention import SDPBackend

from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.operators.recorded.view_sizes import is_surely_contiguous
from onnx_parity.exporter.registry.recorded import instead_of, keep_whole, result_of_whole
from onnx_parity.exporter.torch_inside.outside_of_modes import outside_of_modes

_aten = torch.ops.aten
_CPU = torch.device("cpu")

_RECURRENT = (
    "aten::lstm.input",
    "aten::lstm.data",
    "aten::gru.input",
    "aten::gru.data",
    "aten::rnn_tanh.input",
    "aten::rnn_tanh.data",
    "aten::rnn_relu.input",
    "aten::rnn_relu.data",
)

keep_whole(
    "aten::linear",
    "aten::matmul",
    "aten::bilinear",
    why="torch decomposes products into transpositions, reshapes and addmm or bmm; ONNX has MatMul and Gemm",
)
keep_whole(*_RECURRENT, why="torch records each step of the sequence; ONNX has LSTM, GRU and RNN")
keep_whole(
    "aten::scaled_dot_product_attention",
    why="torch chooses a kernel for the device, but the definition of attention does not depend on the device",
)
keep_whole(
    "aten::max_pool1d",
    "aten::avg_pool1d",
    why="torch pools in two dimensions, between two reshapes; ONNX pools in one dimension",
)
keep_whole("aten::_pad_circular", why="torch copies each part into new memory; ONNX has Pad and Concat")
keep_whole("aten::_pad_packed_sequence", why="torch reads the number of sequences at each step as plain ints")
keep_whole("aten::rms_norm", why="torch decomposes it into elementary operators; ONNX has RMSNormalization")
keep_whole(
    "aten::batch_norm",
    "aten::instance_norm",
    why="torch chooses a kernel for the device; ONNX has BatchNormalization and InstanceNormalization",
)


def _has_channels_last(images: torch.Tensor) -> bool:
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
    return images.dim() in layouts and images.is_contiguous(memory_format=layouts[images.dim()])


@instead_of(
    "aten::batch_norm", why="in training it writes to its running statistics, which its schema does not declare"
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
    "aten::native_batch_norm",
    why="in training it writes to its running statistics, which its schema does not declare",
)
def _native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not training or running_mean is None or running_var is None:
        return NotImplemented
    return _aten._native_batch_norm_legit.default(input, weight, bias, running_mean, running_var, True, momentum, eps)


@instead_of(
    "aten::instance_norm", why="with running statistics it is a batch norm of another shape, which is kept whole"
)
def _instance_norm(*args: Any) -> Any:
    return NotImplemented if args[3] is None else _aten.instance_norm.default.decompose(*args)


@instead_of("aten::dropout", why="torch's decomposition copies what is not dropped, and its kernel does not")
def _dropout(input: torch.Tensor, p: float, train: bool) -> Any:
    return NotImplemented if train and p != 0 else input  # Later writes to one of them are seen in the other.


@instead_of("aten::_convolution", "aten::_convolution.deprecated", why="a convolution with options of the backend")
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


@result_of_whole("aten::linear", why="torch's fake kernel imports sympy, 0.3 s of a process's first export")
def _linear_result(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
    plain = weight.dim() == 2 and input.dim() > 0 and input.dtype == weight.dtype
    if plain and (bias is None or bias.shape == weight.shape[:1]) and same_size(input.shape[-1], weight.shape[1]):
        return torch.empty((*input.shape[:-1], weight.shape[0]), dtype=input.dtype, device=input.device)
    return NotImplemented  # torch refuses arguments that do not fit.


@result_of_whole(
    "aten::scaled_dot_product_attention",
    why=(
        "torch's fake kernel imports sympy, 0.3 s of a process's first export, and asks many questions about dynamic "
        "sizes, 5 to 50 ms"
    ),
)
def _attention_result(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """The result on a CPU: its strides are those of the kernel that torch chooses.

    With dynamic sizes, only for tensors that are known to fit because their sizes are the same expressions.
    """
    if not isinstance(query, FakeTensor):
        strides = _strides_of_flash_attention(query, key, value, *args, **kwargs)
        return NotImplemented if strides is None else query.new_empty_strided(query.shape, strides)
    batch = _batch(query, key, value)
    if batch is None or query.fake_device != _CPU or not _fit(query, key, value, batch, *args, **kwargs):
        return NotImplemented  # torch asks its questions about the sizes, or refuses them.
    if _strides_of_flash_attention(query, key, value, *args, **kwargs) is None:
        return torch.empty((*batch, query.shape[-2], value.shape[-1]), dtype=query.dtype)
    if is_surely_contiguous(query) or is_surely_contiguous(query.transpose(1, 2)):
        return torch.empty_strided(query.shape, query.stride(), dtype=query.dtype)
    return NotImplemented


def _strides_of_flash_attention(query: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[int, ...] | None:
    """The strides of the result in the example; None if torch does not choose flash attention on a CPU."""
    with torch._C._PreserveDispatchKeyGuard(), outside_of_modes():
        torch._C._set_meta_in_tls_dispatch_include(False)  # Otherwise every kernel is that of tensors without data.
        like, *arguments = map(_allocated, (query, *args))
        chosen = torch._fused_sdp_choice(like, *arguments, **{name: _allocated(each) for name, each in kwargs.items()})
        return torch.empty_like(like).stride() if chosen == SDPBackend.FLASH_ATTENTION.value else None


def _allocated(argument: Any) -> Any:
    if not isinstance(argument, torch.Tensor):
        return argument
    sizes, strides = (tuple(map(_in_example, numbers)) for numbers in (argument.shape, argument.stride()))
    # Nothing reads or writes its memory, so the system does not provide any.
    return torch.empty_strided(sizes, strides, dtype=argument.dtype)


def _in_example(size: Size) -> int:
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size


def _fit(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    batch: Sequence[Size],
    mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> bool:
    """Whether the sizes are known to fit together."""
    tensors = [query, key, value, *([] if mask is None else [mask])]
    sizes = [size for each in tensors for size in each.shape]
    if dropout or options.keys() - {"scale"} or (is_causal and mask is not None):
        return False
    if not all(isinstance(size, int) or size.node.has_hint() for size in sizes):
        return False
    if not query.dtype == key.dtype == value.dtype or len(batch) != 2:
        return False
    if not same_size(query.shape[-1], key.shape[-1]) or not same_size(key.shape[-2], value.shape[-2]):
        return False
    if mask is None:
        return True
    scores = [*batch, query.shape[-2], key.shape[-2]]
    aligned = zip(reversed(mask.shape), reversed(scores), strict=False)
    is_mask = mask.dtype in (torch.bool, query.dtype) and 2 <= mask.ndim <= len(scores)
    return is_mask and all(same_size(own, 1) or same_size(own, size) for own, size in aligned)


def _batch(*tensors: torch.Tensor) -> list[Size] | None:
    """The axes before the last two to which the tensors are broadcast; None if that is not known."""
    if len({tensor.ndim for tensor in tensors}) > 1:
        return None
    batch: list[Size] = []
    for sizes in zip(*(tensor.shape[:-2] for tensor in tensors), strict=True):
        others = [size for size in sizes if not same_size(size, 1)] or [1]
        if not all(same_size(size, others[0]) for size in others):
            return None
        batch.append(others[0])
    return batch


@result_of_whole("aten::bilinear", why="torch's own fails in an assertion where sizes are symbols")
def _bilinear_result(input1: torch.Tensor, input2: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> Any:
    if input1.dtype != weight.dtype or not same_size(input1.shape[-1], weight.shape[1]):
        return NotImplemented  # torch refuses arguments that do not fit.
    return input1.new_empty((*input1.shape[:-1], weight.shape[0]))


_FIXES_THE_LENGTH = "torch's fake kernel reads the length as a plain int; that of two-dimensional pooling does not"


@result_of_whole("aten::max_pool1d", why=_FIXES_THE_LENGTH)
def _max_pool1d_result(
    x: torch.Tensor, kernel: list[int], stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> torch.Tensor:
    args = ([1, *kernel], [1, *(stride or kernel)], [0, *_listed(padding)], [1, *_listed(dilation)], ceil)
    pooled: torch.Tensor = _aten.max_pool2d_with_indices(x.unsqueeze(-2), *args)[0]
    return pooled.new_empty(pooled.squeeze(-2).shape)


@result_of_whole("aten::avg_pool1d", why=_FIXES_THE_LENGTH)
def _avg_pool1d_result(
    x: torch.Tensor, kernel: list[int], stride: Any = (), padding: Any = 0, ceil: bool = False, counts: bool = True
) -> torch.Tensor:
    args = ([1, *kernel], [1, *(stride or kernel)], [0, *_listed(padding)], ceil, counts)
    pooled: torch.Tensor = _aten.avg_pool2d(x.unsqueeze(-2), *args)
    return pooled.squeeze(-2)


def _listed(numbers: Any) -> list[int]:
    return list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]
