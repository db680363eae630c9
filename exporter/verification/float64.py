"""Runs a program in another floating dtype than its own. Errors are measured from its results in float64.

The same program is run, and a dispatch mode passes float64 to its operators. Nothing here has an effect on other
threads: `torch.set_default_dtype`, for example, would change the dtypes of their tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import msgspec
import numpy as np
import torch

from onnx_parity.exporter.arrays import in_width
from onnx_parity.exporter.recording.random_numbers import fills
from onnx_parity.exporter.torch_inside.dispatcher import (
    HigherOrderOperator,
    OpOverload,
    kernels_that_conjugate,
    schema_of,
)
from onnx_parity.exporter.torch_inside.dynamo import uncompiled
from onnx_parity.exporter.torch_inside.modes import TorchDispatchMode, Uncompiled
from onnx_parity.exporter.torch_inside.pytree import tree_leaves, tree_map, tree_map_only
from onnx_parity.exporter.verification.oracle import least_tolerance
from onnx_parity.exporter.verification.positions import Moves

__all__ = ["Inexact", "in_dtype"]

_OF_BAGS = frozenset({torch.ops.aten._embedding_bag.default, torch.ops.aten._embedding_bag_forward_only.default})
#: The place of `include_last_offset` among the arguments after their indices and offsets.
_LAST_OFFSET = 4


#: Operators that only move, choose or round elements, beside views.
_EXACT = frozenset(
    f"aten::{name}"
    for name in (
        "_to_copy", "_unsafe_view", "abs", "amax", "amin", "cat", "ceil", "clamp", "clamp_max", "clamp_min", "clone",
        "constant_pad_nd", "copy", "embedding", "fill", "flip", "floor", "gather", "index", "index_copy", "index_put",
        "index_select", "lift_fresh", "masked_fill", "masked_scatter", "masked_select", "max", "maximum", "min",
        "minimum", "nan_to_num", "neg", "permute_copy", "relu", "repeat", "roll", "round", "scatter", "select_scatter",
        "sign", "slice_scatter", "sort", "stack", "take", "topk", "tril", "triu", "trunc", "where",
    )
)  # fmt: skip


class Inexact(msgspec.Struct, frozen=True):
    """Makes the result of each operator as wrong as it may be in a dtype, with signs that follow from the seed."""

    dtype: np.dtype[Any]
    seed: int

    def spoil(self, func: OpOverload, arguments: Sequence[Any], result: Any) -> None:
        schema = schema_of(func)
        is_view = not schema.is_mutable and any(each.alias_info is not None for each in schema.returns)
        if is_view or schema.name.removesuffix("_") in _EXACT or not _has_floats(arguments):
            return
        for each in result if isinstance(result, list | tuple) else (result,):
            if isinstance(each, torch.Tensor) and each.dtype is torch.float64 and each.layout is torch.strided:
                signs = np.random.default_rng(self.seed).choice((-1.0, 1.0), tuple(each.shape))
                wrong = signs * least_tolerance(each.detach().cpu().numpy(), self.dtype)
                each.add_(torch.from_numpy(np.asarray(wrong)).to(each.device))


@contextmanager
def in_dtype(dtype: torch.dtype, moves: Moves | None = None, inexact: Inexact | None = None) -> Iterator[None]:
    """A context in which everything is computed in this dtype. Raises TypeError if a write in place would be lost.

    `moves` change the positions at which images are interpolated.
    """
    with uncompiled(), _InDtype(dtype, moves, inexact):
        yield


class _InDtype(Uncompiled, TorchDispatchMode):
    """Computes in one floating dtype, also where the program names another dtype or has constants of another dtype."""

    supports_higher_order_operators = True

    def __init__(self, dtype: torch.dtype, moves: Moves | None = None, inexact: Inexact | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._dtype = dtype
        self._moves = moves
        self._inexact = inexact
        default = torch.get_default_dtype()
        #: For the default dtypes, which programs get if they name none, the dtypes to use instead.
        self._instead = {default: dtype, default.to_complex(): dtype.to_complex()} if default is not dtype else {}

    def __torch_dispatch__(
        self,
        func: OpOverload | HigherOrderOperator,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func in _OF_BAGS and self._dtype is torch.float64:
            _refuse_indices_without_bag(args, kwargs)
        if isinstance(func, HigherOrderOperator):
            return func(*tree_map(self._converted_with_bodies, args), **tree_map(self._converted, dict(kwargs)))
        if _is_mutable(func):
            self._refuse_lost_write(func, args, kwargs)
        if _is_random(func) and (_draws_alike(func) or not _has_floats(args)):
            return self._drawn(func, args, kwargs)
        if self._moves is not None:
            args, kwargs = self._moves.arguments(func, args, kwargs)
        arguments = [self._all_converted(argument) for argument in args]
        options = {name: self._all_converted(value) for name, value in kwargs.items()}
        with kernels_that_conjugate() if any(map(_is_complex, arguments)) else nullcontext():
            result = func(*arguments, **options)
        if self._inexact is not None:
            self._inexact.spoil(func, arguments, result)
        if not isinstance(result, torch.Tensor) or result.dtype not in self._instead or _has_floats(arguments):
            return result
        if _may_name_a_dtype(func) and options.get("dtype") is None:
            return func(*arguments, **{**options, "dtype": self._instead[result.dtype]})
        # The operator has promoted integers to the default dtype.
        return func(*tree_map_only(torch.Tensor, self._promoted, arguments), **options)

    def _drawn(self, func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Random numbers. In this dtype torch draws other ones than in the program's, which seems to be the default."""

        def original(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(torch.get_default_dtype()) if tensor.dtype is self._dtype else tensor

        drawn = func(*tree_map_only(torch.Tensor, original, args), **kwargs)
        if not schema_of(func).is_mutable:
            return self._converted(drawn)
        written = args[0]
        assert isinstance(written, torch.Tensor)
        return written.copy_(drawn)

    def _promoted(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if tensor.is_quantized else tensor.to(self._dtype)

    def _converted_with_bodies(self, value: object) -> object:
        """An argument of a control-flow operator. Its bodies are also run in the dtype."""
        if not callable(value) or isinstance(value, torch.Tensor):
            return self._converted(value)

        def body(*args: object) -> object:
            with self:
                return value(*args)

        return body

    def _refuse_lost_write(self, func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Refuse a write to a tensor that had to be converted: it would change the copy and not the tensor."""
        for place, argument in enumerate(schema_of(func).arguments):
            if argument.is_write:
                written = args[place] if place < len(args) else kwargs.get(argument.name)
                tensors = written if isinstance(written, list | tuple) else [written]
                if any(self._converted(tensor) is not tensor for tensor in tensors):
                    raise TypeError(f"{func} writes to a tensor that is not {self._dtype}")

    def _all_converted(self, argument: object) -> object:
        """An argument of an operator, which is a plain value or a list of them."""
        if isinstance(argument, list | tuple):
            return [self._converted(each) for each in argument]
        return self._converted(argument)

    def _converted(self, value: object) -> object:
        if isinstance(value, torch.Tensor):
            if value.dtype is self._dtype:
                return value
            return in_width(value, self._dtype)
        if isinstance(value, torch.dtype) and value.is_complex:
            return self._dtype.to_complex()
        return self._dtype if isinstance(value, torch.dtype) and value.is_floating_point else value


def _refuse_indices_without_bag(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """In float64, torch 2.13 writes beyond a tensor if there are indices, and no bag for them.

    Like a write that would be lost, it is a TypeError: the program cannot be run in this dtype.
    """
    _, indices, offsets, *arguments = args
    of_last = arguments[_LAST_OFFSET] if len(arguments) > _LAST_OFFSET else kwargs.get("include_last_offset", False)
    if offsets.numel() == int(of_last) and indices.numel():
        raise TypeError("there is no bag for the indices")


def _draws_alike(func: OpOverload) -> bool:
    """Whether an operator draws the same numbers for floats that are rounded, but not for those of another dtype."""
    return fills(func) or schema_of(func).name in ("aten::bernoulli", "aten::multinomial")


@cache
def _is_mutable(func: OpOverload) -> bool:
    return schema_of(func).is_mutable


@cache
def _is_random(func: OpOverload) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


@cache
def _may_name_a_dtype(func: OpOverload) -> bool:
    """Whether the operator creates tensors of the default dtype if no dtype is given: `zeros` does, `randint` not."""
    return any(each.name == "dtype" and each.default_value is None for each in schema_of(func).arguments)


def _is_complex(argument: object) -> bool:
    return isinstance(argument, torch.Tensor) and argument.is_complex()


def _has_floats(arguments: Sequence[Any]) -> bool:
    leaves = (leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor))
    return any(tensor.is_floating_point() or tensor.is_complex() for tensor in leaves)
