"""`ONNXProgram`, the result of an export: a model that can be printed, saved, run and verified."""

from __future__ import annotations

import inspect
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import onnx_ir as ir
import torch

from onnx_parity.exporter.containers import closed
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.files import write
from onnx_parity.exporter.files.external_data import ExternalData
from onnx_parity.exporter.files.lazy_tensors import literals_on_the_cpu
from onnx_parity.exporter.files.weights import Weights
from onnx_parity.exporter.graph.assumptions import METADATA, Assumption, as_json
from onnx_parity.exporter.recording.results import Kind, Returned
from onnx_parity.exporter.request.call_arguments import signature_of
from onnx_parity.exporter.request.checks import check_switches
from onnx_parity.exporter.request.marked_inputs import Given
from onnx_parity.exporter.request.names import checked_names
from onnx_parity.exporter.rewrites.order import MayCompute, optimize
from onnx_parity.exporter.rewrites.remove_unused import remove_unused
from onnx_parity.exporter.rewrites.unique_names import give_unique_names
from onnx_parity.exporter.rewrites.weights_as_inputs import presented, unlisted
from onnx_parity.exporter.runtime.sessions import Initializer, ReferenceSession, RuntimeSession, plain_session
from onnx_parity.exporter.source import Source
from onnx_parity.exporter.torch_inside import pytree

if TYPE_CHECKING:
    import onnx

__all__ = ["ONNXProgram"]


class ONNXProgram:
    """An exported program. `model` is its `onnx_ir.Model`; call it to run it in onnxruntime.

    Its weights and buffers are those of the exported module, and are not copied: what writes to them, such as training,
    changes the model too, until it is saved or called.
    """

    def __init__(
        self,
        model: ir.Model,
        returned: Returned,
        opset_version: int,
        source: Source,
        weights: Weights,
        may_compute: MayCompute,
        assumptions: Sequence[Assumption] = (),
    ) -> None:
        self.model = model
        self.opset_version = opset_version
        #: The program and its example arguments, and the structure of the program's results.
        self.source = source
        self.returned = returned
        self._weights = weights
        self._may_compute = may_compute
        self._session: RuntimeSession | None = None
        self._assume(assumptions)

    def _assume(self, assumptions: Sequence[Assumption]) -> None:
        self._assumptions = tuple(assumptions)
        if assumptions:
            self.model.metadata_props[METADATA] = as_json(assumptions)

    # --- properties -----------------------------------------------------------------------------------------------

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as a protobuf message that contains the weights."""
        import onnx

        return onnx.load_model_from_string(self.serialize())

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The conditions under which the model computes what the program does; none if it does so for all inputs.

        `str` of one has the condition, the program's line, and what the program does otherwise. Calls of the program
        are checked against them.
        """
        return self._assumptions

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the program's inputs. Weights that are inputs too are in `weight_names`."""
        return tuple(value.name or "" for value in self._actual_inputs())

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(value.name or "" for value in self.model.graph.outputs)

    @property
    def weight_names(self) -> tuple[str, ...]:
        """The names of weights that are inputs of the model (`export_params=False`), in the order of the state dict.

        Tied weights are one input, under the first of their names.
        """
        return tuple(self._weights.as_inputs)

    def __repr__(self) -> str:
        count = len(self.model.graph)
        nodes = f"{count} node{'s' * (count != 1)}"
        size = write.size_of_weights(self.model)
        ends = f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}"
        return f"ONNXProgram(opset {self.opset_version}: {ends}; {nodes}, {size:,} bytes of weights)"

    def __str__(self) -> str:
        """The printed graph, as `verbose=True` shows it."""
        from onnx_parity.exporter.print_graph import Scopes, printed

        return printed(self.model, Scopes.of(self.source.program))

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from onnx_parity.exporter.print_graph import Scopes, html_summary

        return html_summary(self.model, self._actual_inputs(), self._assumptions, Scopes.of(self.source.program))

    def show(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Open a page of the model in the browser, and return its path, which is printed where there is no browser.

        The page is written to `path`, or else into a temporary folder. It has the inputs and outputs, the conditions
        under which the model is right, the graph, in which every name leads to the line that computes it, and the sizes
        of the weights.
        """
        import webbrowser

        from onnx_parity.exporter.print_graph import Scopes, write_page

        scopes = Scopes.of(self.source.program)
        target = None if path is None else Path(path)
        page = write_page(self.model, self._actual_inputs(), self._assumptions, scopes, target)
        if not webbrowser.open(page.as_uri()):
            print(page)
        return page

    # --- writing --------------------------------------------------------------------------------------------------

    def serialize(self) -> bytes:
        """The model as bytes that contain the weights."""
        return write.serialize(self.model)

    def save(
        self,
        destination: str | os.PathLike[str] | BinaryIO,
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | ExternalData | None = None,
    ) -> None:
        """Write the model to a path or to an open binary file.

        `external_data=True` writes the weights to `<path>.data`. By default this happens only if they do not fit into
        one protobuf file (2 GiB). An `ExternalData` selects shards, or weights that are stored in safetensors files.
        Files are first written under another name and then renamed, so the path and the files of the weights contain
        either the whole new model or their old contents. Without `include_initializers` the weights are left out. They
        can be attached later, or, with `keep_initializers_as_inputs`, passed when the model runs.
        """
        check_switches(
            include_initializers=include_initializers,
            keep_initializers_as_inputs=keep_initializers_as_inputs,
            external_data=external_data is not None and (isinstance(external_data, ExternalData) or external_data),
        )
        with presented(self.model, with_values=include_initializers, as_inputs=keep_initializers_as_inputs):
            if isinstance(destination, (str, os.PathLike)):
                write.write_file(self.model, destination, external_data)
            elif external_data:
                raise ArgumentError(
                    "external_data=True writes the weights beside the model, which needs a path: give `f` as a path"
                )
            elif not hasattr(destination, "write") or isinstance(destination, io.TextIOBase):
                raise ArgumentError(
                    f"`f` is {destination!r}: give a path, or a file opened for writing bytes (open(..., 'wb'))"
                )
            else:
                write.write_to(self.model, destination)

    # --- changing -------------------------------------------------------------------------------------------------

    def optimize(self) -> None:
        """Rewrite the model as an export with `optimize=True` does, which then gives the same model.

        Nodes that depend on weights alone are computed, batch norms and others are fused, and operators that move
        elements are merged. If the weights are inputs, or modules are functions, nothing is rewritten.
        """
        with literals_on_the_cpu(), unlisted(self.model):
            optimize(self.model, self.opset_version, self._may_compute)
            remove_unused(self.model)
            give_unique_names(self.model)
        self.release()

    def apply_weights(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        """Replace the values of weights, by the names that the module has for them.

        Values that the export has computed from them, such as a convolution's kernel with a batch norm folded in, are
        computed again. A warning lists the names that the model does not have.
        """
        self._weights.apply(state_dict, self.source.program)
        self.release()

    def rename_axes(self, rename_mapping: Mapping[str, str] | Mapping[str | ir.SymbolicDim, str]) -> None:
        """Rename dynamic axes: `program.rename_axes({"batch": "N"})`."""
        from onnx_parity.exporter.rewrites.rename_axes import rename_axes

        rename_axes(self.model, rename_mapping)
        names = {str(getattr(axis, "value", axis)): name for axis, name in rename_mapping.items()}
        self._assume([each.renamed(names) for each in self._assumptions])
        self.release()

    # --- running --------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model in onnxruntime. Arguments and results have the structure of the program's.

        Raises `AssumptionError` if one of the `assumptions` does not hold for the arguments.
        """
        return self._restored(self.runtime_session().run(self._checked_feeds(args, kwargs)))

    def call_reference(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model in onnx.reference, which is slow and supports every opset."""
        return self._restored(ReferenceSession(self.model).run(self._checked_feeds(args, kwargs)))

    def compute_values(
        self, value_names: Sequence[str], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Compute values inside the model for some arguments. Their names are those in the printed graph."""
        value_names = checked_names("value_names", value_names)
        if not value_names:
            return ()
        known = {value.name: value for value in (*self.model.graph.inputs, *self.model.graph.initializers.values())}
        known |= {output.name: output for node in self.model.graph for output in node.outputs}
        for name in value_names:
            if name not in known:
                raise ArgumentError(f"the model has no value {name!r}: print(program) shows the values that it has")
        feeds = self.feeds(args if isinstance(args, list | tuple) else (args,), dict(kwargs or {}))
        with self._returning([known[name] for name in value_names]):
            return tuple(RuntimeSession(self.model).run(feeds))

    def initialize_inference_session(self, initializer: Initializer = plain_session) -> None:
        """Create the onnxruntime session that calls use. `initializer` creates it from a model as bytes, or from a path
        if the model is too large for that. Pass a function of your own for other providers or custom operators."""
        if not callable(initializer):
            raise ArgumentError(
                f"initializer is {initializer!r}: give a function that creates an onnxruntime.InferenceSession from a "
                "model's bytes or path"
            )
        if initializer is plain_session and self._calls_torch():
            from onnx_parity.exporter.fallback.onnxruntime_session import torch_session

            initializer = torch_session
        self._session = RuntimeSession(self.model, initializer)

    def runtime_session(self) -> RuntimeSession:
        """The session that calls use. It is created if there is none."""
        if self._session is None:
            self.initialize_inference_session()
        assert self._session is not None
        return self._session

    def release(self) -> None:
        """Release the onnxruntime session. The next call creates a new one."""
        self._session = None

    def verify(self) -> None:
        """Raise `VerificationError` unless the model is valid and computes in onnxruntime what the program computes.

        They are compared for the example inputs, for other numbers, and for other sizes of every dynamic axis, also 0,
        unless the program itself refuses them. The number of outputs, dtypes and shapes must be equal, and values may
        differ from the program's in float64 by as much as the program's own results may.
        """
        # Imported here, because most programs are exported without it, and the import takes 7 ms.
        from onnx_parity.exporter.verification.verify import verify

        verify(self)

    def _calls_torch(self) -> bool:
        from onnx_parity.exporter.fallback.encoding import ATEN_DOMAIN

        return ATEN_DOMAIN in self.model.graph.opset_imports

    @cached_property
    def _signature(self) -> inspect.Signature | None:
        return signature_of(self.source.program)

    def feeds(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Given]:
        """The values of the model's inputs: the inputs among the arguments, and the weights that are inputs."""
        from onnx_parity.exporter.runtime.bind_call import feeds_of

        source = self.source
        feeds = feeds_of(self._signature, source.held_arguments, self._actual_inputs(), args, kwargs)
        return {**feeds, **self._weights.as_inputs}

    def _checked_feeds(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Given]:
        """The values of the model's inputs, for which the assumptions hold."""
        feeds = self.feeds(args, kwargs)
        if self._assumptions and self.source.recorded is not None:
            from onnx_parity.exporter.runtime.check_assumptions import check_assumptions

            check_assumptions(self._assumptions, self._actual_inputs(), feeds, self.source.recorded)
        return feeds

    def broken_assumption(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Assumption | None:
        """An assumption that does not hold for these arguments; None if all do, or if nothing is known of them."""
        if not self._assumptions or self.source.recorded is None:
            return None
        from onnx_parity.exporter.runtime.check_assumptions import broken_assumption

        return broken_assumption(
            self._assumptions, self._actual_inputs(), self.feeds(args, kwargs), self.source.recorded
        )

    def _restored(self, results: Sequence[torch.Tensor]) -> Any:
        """The results in the program's structure; with `return_written` a pair of that and the written values."""
        remaining = iter(results[: self.returned.outputs])
        leaves: list[Any] = []
        for kind, plain in zip(self.returned.kinds, self.returned.plain, strict=True):
            if kind is Kind.PLAIN:
                leaves.append(plain)
            else:
                value: Any = next(remaining)
                if kind is Kind.NUMBERS:
                    value = [item.item() for item in value]
                elif kind is Kind.TUPLE:
                    value = tuple(value)
                elif kind is Kind.COMPLEX:
                    # The strides of an empty array may be any.
                    value = torch.view_as_complex(
                        value if value.numel() else torch.empty(value.shape, dtype=value.dtype)
                    )
                leaves.append(value.item() if kind is Kind.NUMBER else value)
        result = closed(pytree.tree_unflatten(leaves, self.returned.spec))
        if not self.returned.written:
            return result
        return result, dict(zip((end.name for end in self.returned.written), remaining, strict=True))

    @contextmanager
    def _returning(self, values: Sequence[ir.Value]) -> Iterator[None]:
        """A context in which the model returns these values instead of its outputs."""
        graph = self.model.graph
        outputs = list(graph.outputs)
        graph.outputs.clear()
        graph.outputs.extend(values)
        try:
            yield
        finally:
            graph.outputs.clear()
            graph.outputs.extend(outputs)

    def _actual_inputs(self) -> list[ir.Value]:
        """The inputs without weights. (IR version 3 requires every weight to be listed as an input too.)"""
        weights = self.model.graph.initializers.keys() | self._weights.as_inputs.keys()
        return [value for value in self.model.graph.inputs if value.name not in weights]
