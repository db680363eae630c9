"""Remembers what operators return: dtype, shape, stride and device of results are a function of those of the arguments.

Asking torch's fake tensors again for each of a network's like layers is most of what recording costs; torch's own cache
spends as much on its keys. Measured on DenseNet-121: 0.16 s of processor time without this, 0.06 s with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["Metadata", "ResultMemo", "describe"]

#: dtype, shape, stride, device.
Metadata = tuple[torch.dtype, torch.Size, tuple[int, ...], torch.device]

_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
#: Programs differ; a process that exports thousands of them starts afresh now and then.
_MOST = 20_000

_results: dict[Any, Metadata | tuple[Metadata, ...]] = {}


def describe(tensor: FakeTensor) -> Metadata:
    return (tensor.dtype, tensor.shape, tensor.stride(), tensor.fake_device)


class ResultMemo:
    """Answers for programs of static sizes. Shared by all of them: the answers hold for any."""

    def __init__(self, fakes: FakeTensorMode, metadata_of: Callable[[torch.Tensor], Metadata]) -> None:
        self._fakes = fakes
        self._metadata_of = metadata_of
        self._default = torch.get_default_dtype()

    def call(self, func: OpOverload, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `func` returns over fake tensors."""
        try:
            key = (func, self._default, self._key(args), self._key(tuple(kwargs.items())) if kwargs else None)
        except _Unknown:
            return self._fakes.dispatch(func, types, args, kwargs)
        known = _results.get(key)
        if known is None:
            result = self._fakes.dispatch(func, types, args, kwargs)
            self._remember(key, args, result)
            return result
        if isinstance(known[0], torch.dtype):
            return self._fake(known)  # type: ignore[arg-type]
        made = [self._fake(metadata) for metadata in known]  # type: ignore[arg-type]
        return made if func._schema.returns[0].type.kind() == "ListType" else tuple(made)

    def _key(self, argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            return self._metadata_of(argument)
        if isinstance(argument, (tuple, list)):
            return tuple([self._key(item) for item in argument])
        if isinstance(argument, _PLAIN):
            # 1, 1.0 and True are one key to a dict, and three arguments to an operator.
            return (argument.__class__, argument) if isinstance(argument, (int, float)) else argument
        raise _Unknown

    def _remember(self, key: Any, args: tuple[Any, ...], result: Any) -> None:
        results = result if isinstance(result, (tuple, list)) else (result,)
        if not results or not all(isinstance(item, FakeTensor) for item in results):
            return
        if any(item is argument for item in results for argument in args):
            return
        if len(_results) >= _MOST:
            _results.clear()
        described = tuple(describe(item) for item in results)
        _results[key] = described if isinstance(result, (tuple, list)) else described[0]

    def _fake(self, metadata: Metadata) -> FakeTensor:
        dtype, shape, stride, device = metadata
        meta = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        return FakeTensor(self._fakes, meta, device)


class _Unknown(Exception):  # noqa: N818  (a signal, not an error)
    """An argument that cannot be part of a key."""
