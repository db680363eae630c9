"""`InputObserver`: infers the example arguments and the dynamic axes of an export from calls of the module."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch.export.dynamic_shapes import Dim

from onnx_parity.exporter.containers import closed, has_names, opened
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.request.call_arguments import by_parameter, parameter_names, signature_of
from onnx_parity.exporter.torch_inside import pytree

if TYPE_CHECKING:
    from onnx_parity.exporter.program import ONNXProgram

__all__ = ["InputObserver"]

Arguments = tuple[Any, ...] | dict[str, Any] | tuple[tuple[Any, ...], dict[str, Any]] | list[torch.Tensor]


class _Call(msgspec.Struct):
    #: The arguments by parameter; the first `positional` of them were given by position.
    arguments: dict[str, Any]
    positional: int
    outputs: list[torch.Tensor] = []
    seconds: float = 0.0


class InputObserver:
    """Observes calls of a module, and infers from them the arguments and the dynamic axes to export it with.

        observer = InputObserver()
        with observer(model):
            model(first)
            model(second)
        export(model, observer.infer_arguments(), dynamic_shapes=observer.infer_dynamic_shapes())

    An argument that is missing in some calls, such as a language model's cache in its first step, is taken to be empty
    there; `value_if_missing` gives another value for it, by the argument's name.
    """

    def __init__(self, value_if_missing: Mapping[str, Any] | None = None) -> None:
        self._value_if_missing = dict(value_if_missing or {})
        self._parameters: list[str] = []
        self._calls: list[_Call] = []

    @contextmanager
    def __call__(
        self, model: torch.nn.Module, store_n_calls: int = 3, method_name: str = "forward"
    ) -> Iterator[InputObserver]:
        """A context in which the first `store_n_calls` calls of the method are stored, with copies of their tensors."""
        method = getattr(model, method_name, None)
        if not callable(method):
            raise ArgumentError(
                f"{type(model).__qualname__} has no method {method_name!r} to observe: give the name of a method as "
                "method_name"
            )
        self._parameters = parameter_names(signature_of(method))
        last = len(self._calls) + store_n_calls

        @functools.wraps(method)
        def observed(*args: Any, **kwargs: Any) -> Any:
            if len(self._calls) >= last:
                return method(*args, **kwargs)
            given = pytree.tree_map_only(torch.Tensor, _copied, opened(by_parameter(self._parameters, args, kwargs)))
            call = _Call(given, len(args))
            start = time.perf_counter()
            result = method(*args, **kwargs)
            call.seconds = time.perf_counter() - start
            call.outputs = [_copied(leaf) for leaf in _tensors(opened(result))]
            self._calls.append(call)
            return result

        was_own = method_name in vars(model)
        setattr(model, method_name, observed)
        try:
            yield self
        finally:
            delattr(model, method_name)
            if was_own:
                setattr(model, method_name, method)

    def num_obs(self) -> int:
        """The number of stored calls."""
        return len(self._calls)

    def infer_arguments(
        self, index_or_args_or_kwargs: int | None = None, flat: bool = False, as_args_kwargs: bool = False
    ) -> Arguments:
        """The arguments of one call, and those that only other calls have. The default is the call with most tensors.

        The result is a tuple if all were given by position, and a dict if all were given by name; with
        `as_args_kwargs` it is a pair of both, and with `flat` a list of the tensors alone.
        """
        call = self._chosen(index_or_args_or_kwargs)
        arguments = self._completed(call)
        if flat:
            return [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
        return self._as_given(call, arguments, as_args_kwargs)

    def infer_dynamic_shapes(
        self, set_batch_dimension_for: Collection[int | str] | bool | None = None
    ) -> tuple[Any, ...] | dict[str, Any]:
        """The axes whose sizes differ between calls, in the form of `dynamic_shapes`.

        The result is a tuple if all arguments were given by position, and a dict by name otherwise. Sizes that were the
        same in all calls are taken to be static. An exception is the first axis of the arguments in
        `set_batch_dimension_for`, which holds names or positions; True means all arguments.
        """
        call = self._chosen(None)
        asked = set_batch_dimension_for
        shapes = {}
        for place, (name, value) in enumerate(self._completed(call).items()):
            has_batch = asked is True or (isinstance(asked, Collection) and (name in asked or place in asked))
            shapes[name] = self._shapes_of(name, value, has_batch)
        if call.positional == len(shapes):
            return tuple(shapes.values())
        return shapes

    def check_discrepancies(
        self,
        onnx_program: ONNXProgram,
        atol: float = 1e-4,
        rtol: float = 0.1,
        initializer: Callable[..., Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Run an exported program with each stored call, and compare. Returns a row for each call, errors included."""
        if initializer is not None:
            onnx_program.initialize_inference_session(initializer)
        return [
            {"index": index, **self._discrepancy(onnx_program, call, atol, rtol)}
            for index, call in enumerate(self._calls)
        ]

    def _discrepancy(self, program: ONNXProgram, call: _Call, atol: float, rtol: float) -> dict[str, Any]:
        from onnx_parity.exporter.runtime.sessions import errors_of_runtimes
        from onnx_parity.exporter.verification.error_figures import VerificationInfo

        arguments = list(self._completed(call).items())
        leaves = [leaf for _, value in arguments for leaf in pytree.tree_leaves(value)]
        row: dict[str, Any] = {
            "duration_torch": call.seconds,
            "n_inputs": len(program.input_names),
            "n_none": sum(leaf is None for leaf in leaves),
            "n_empty": sum(isinstance(leaf, torch.Tensor) and not leaf.numel() for leaf in leaves),
        }
        start = time.perf_counter()
        positional = [value for _, value in arguments[: call.positional]]
        try:
            result = program(*closed(positional), **closed(dict(arguments[call.positional :])))
        except errors_of_runtimes() as error:
            return {**row, "SUCCESS": False, "error": str(error)}
        row["ort_duration"] = time.perf_counter() - start
        got = _tensors(opened(result))
        if [(each.dtype, each.shape) for each in got] != [(each.dtype, each.shape) for each in call.outputs]:
            return {**row, "SUCCESS": False, "error": "the number, dtypes or shapes of the outputs differ"}
        figures = [VerificationInfo.from_tensors("", want, each) for want, each in zip(call.outputs, got, strict=True)]
        absolute = max((each.max_abs_diff for each in figures), default=0.0)
        relative = max((each.max_rel_diff for each in figures), default=0.0)
        return {**row, "SUCCESS": absolute <= atol and relative <= rtol, "abs": absolute, "rel": relative}

    # --- inferring from all calls ---------------------------------------------------------------------------------

    def _chosen(self, index: object) -> _Call:
        if not self._calls:
            raise ArgumentError("no calls were observed: call the module within `with observer(model):`")
        if index is None:
            return max(self._calls, key=lambda call: len(_tensors(call.arguments)))
        if not isinstance(index, int) or not -len(self._calls) <= index < len(self._calls):
            raise ArgumentError(
                f"{index!r} is not the index of an observed call: give an int below {len(self._calls)}, the number of "
                "observed calls"
            )
        return self._calls[index]

    def _completed(self, call: _Call) -> dict[str, Any]:
        """A call's arguments, and those that only other calls have."""
        arguments = dict(call.arguments)
        for other in self._calls:
            for name, value in other.arguments.items():
                if _tensors(value) and not _tensors(arguments.get(name)):
                    arguments[name] = self._missing(name, value)
        order = {name: place for place, name in enumerate(self._parameters)}
        return dict(sorted(arguments.items(), key=lambda item: order.get(item[0], len(order))))

    def _missing(self, name: str, like: Any) -> Any:
        """The value of an argument in a call that lacks it: tensors whose dynamic axes have the size 0."""
        if name in self._value_if_missing:
            return self._value_if_missing[name]
        dynamic = iter(self._dynamic_axes(name))

        def emptied(tensor: torch.Tensor) -> torch.Tensor:
            axes = next(dynamic)
            if not axes:
                raise ArgumentError(
                    f"the argument {name!r} is missing in some calls, and all its axes have the same sizes in the "
                    f"others, so none can be empty: give InputObserver(value_if_missing={{{name!r}: tensor}})"
                )
            return tensor.new_empty([0 if axis in axes else size for axis, size in enumerate(tensor.shape)])

        return pytree.tree_map_only(torch.Tensor, emptied, like)

    def _dynamic_axes(self, name: str) -> list[set[int]]:
        """For each tensor of an argument, the axes whose sizes differ between calls."""
        seen = [_tensors(call.arguments[name]) for call in self._calls if _tensors(call.arguments.get(name))]
        seen += [_tensors(self._value_if_missing[name])] if name in self._value_if_missing else []
        if len({tuple(tensor.ndim for tensor in tensors) for tensors in seen}) > 1:
            raise ArgumentError(
                f"the number or the ranks of the tensors of {name!r} differ between calls: an input of a model has one "
                "rank, so observe calls that agree"
            )
        return [
            {axis for axis, sizes in enumerate(zip(*(each.shape for each in alike), strict=True)) if len({*sizes}) > 1}
            for alike in zip(*seen, strict=True)
        ]

    def _shapes_of(self, name: str, like: Any, has_batch: bool) -> Any:
        dynamic = iter(self._dynamic_axes(name))

        def axes(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return None
            first = {0} if has_batch and leaf.ndim else set()
            return dict.fromkeys(sorted(next(dynamic) | first), Dim.DYNAMIC)

        if has_names(like):
            # One entry for each tensor of the object.
            return [axes(leaf) for leaf in _tensors(like)]
        return pytree.tree_map(axes, like)

    def _as_given(self, call: _Call, arguments: dict[str, Any], both: bool) -> Arguments:
        values = list(closed(arguments).items())
        positional = tuple(value for _, value in values[: call.positional])
        named = dict(values[call.positional :])
        if both:
            return positional, named
        if positional and named:
            raise ArgumentError(
                "the calls give arguments by position and by name: call infer_arguments(as_args_kwargs=True), and "
                "export with args and kwargs"
            )
        return named if named else positional


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()


def _tensors(value: Any) -> Sequence[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
