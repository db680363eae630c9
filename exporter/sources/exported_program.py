"""Programs that `torch.export` has captured, as modules that can be recorded like any other.

In an `ExportedProgram`, weights, writes in place and nested arguments are separate from the graph of ATen operators.
Here they are combined again: weights get their names, writes are made in place, and arguments and results get their
structure. The graph is run node by node under the recorder, which reads source lines and module paths from the nodes
and not from the stack.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from onnx_parity.exporter.errors import ArgumentError, CaptureError
from onnx_parity.exporter.graph.graph import Varying
from onnx_parity.exporter.recording.results import spelled_structure
from onnx_parity.exporter.request.dynamic_axes import Axes, Named
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.torch_inside.sym_nodes import assume
from onnx_parity.exporter.torch_inside.tensors import buffers_of, modules_of, parameters_of

__all__ = ["ExportedModule"]

_WEIGHTS = frozenset({InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR})
_WRITES = frozenset({OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION})


class ExportedModule(nn.Module):
    """An `ExportedProgram` that can be called, in the mode in which it was exported."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        _refuse_transforms(program)
        # Not set as an attribute, because nn.Module would register the graph as a submodule with parameters.
        self.__dict__["_program"] = program
        for spec in program.graph_signature.input_specs:
            if spec.kind in _WEIGHTS:
                assert spec.target is not None
                _put(self, spec.target, _tensor_of(program, spec.target))
            elif spec.kind is not InputKind.USER_INPUT:
                raise CaptureError(
                    f"the exported program holds a {spec.kind.name.lower()}, {spec.target or spec.arg.name!r}, which "
                    "ONNX cannot represent: write the program with tensors"
                )

    @property
    def program(self) -> ExportedProgram:
        program: ExportedProgram = self.__dict__["_program"]
        return program

    @property
    def __signature__(self) -> inspect.Signature:
        """The parameters that it was exported with."""
        by_position, by_keyword = self.program.call_spec.in_spec.children()
        call = self.program.module_call_graph[0].signature
        names = (call.forward_arg_names if call is not None else None) or []
        count = by_position.num_children
        names = [*names[:count], *(f"input_{number}" for number in range(len(names[:count]), count))]
        kind = inspect.Parameter
        return inspect.Signature(
            [
                *(kind(name, kind.POSITIONAL_OR_KEYWORD) for name in names),
                *(kind(name, kind.KEYWORD_ONLY) for name in by_keyword.context or ()),
            ]
        )

    def refuse_marked_inputs(self) -> None:
        raise ArgumentError(
            "the lists of an ExportedProgram have a fixed length, and its arguments cannot be None: to use a ListOf or "
            "an OrNone, export torch.jit.script(model)"
        )

    def example(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that it was exported with."""
        if self.program.example_inputs is None:
            raise ArgumentError("the exported program has no example inputs: give them as args and kwargs")
        args, kwargs = self.program.example_inputs
        return tuple(args), dict(kwargs)

    def axes(self, inputs: Mapping[str, torch.Tensor]) -> Axes:
        """The dynamic axes that it was exported with. `inputs` are its input tensors by name."""
        found: dict[int, Named] = {}
        ranges: dict[str, tuple[Any, Any]] = {}
        names: dict[str, str] = {}
        fakes = []
        for name, value in self._user_inputs().items():
            if isinstance(value, Varying):
                raise ArgumentError(
                    f"the exported program has the number {name!r} as a dynamic input, but in a model it would become "
                    "a constant: export the program with a tensor of one number instead"
                )
            if isinstance(value, torch.Tensor):
                fakes.append(value)
        if len(fakes) != len(inputs):
            raise ArgumentError(
                f"the exported program takes {len(fakes)} tensor{'s' * (len(fakes) != 1)}, but got {len(inputs)}: pass "
                "all of them"
            )
        for position, (fake, name) in enumerate(zip(fakes, inputs, strict=True)):
            for axis, size in enumerate(fake.shape):
                if isinstance(size, torch.SymInt):
                    expression = size.node.expr
                    called = names.setdefault(str(expression), f"{name}_dim_{axis}")
                    found.setdefault(position, {})[axis] = called
                    bounds = self.program.range_constraints.get(expression)
                    if bounds is not None:
                        ranges[called] = (bounds.lower, bounds.upper)
        return Axes(inputs=found, ranges=ranges, are_torchs=True)

    def _user_inputs(self) -> dict[str, Any]:
        """The values of the arguments in the graph, by their names there: fake tensors, and other values."""
        specs = self.program.graph_signature.input_specs
        placeholders = self.program.graph.find_nodes(op="placeholder")
        return {
            spec.arg.name: node.meta.get("val")
            for node, spec in zip(placeholders, specs, strict=True)
            if spec.kind is InputKind.USER_INPUT
        }

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        program = self.program
        spec = program.call_spec.in_spec
        ordered = {name: kwargs[name] for name in spec.child(1).context or ()}
        leaves, given = pytree.tree_flatten((args, ordered))
        if given != spec:
            raise ArgumentError(
                f"the program was exported for arguments of the structure {spelled_structure(spec)}, positional and by "
                f"name, but got {spelled_structure(given)}: give the same structure"
            )
        given_leaves = iter(leaves)
        values = {
            item.arg.name: next(given_leaves) if item.kind is InputKind.USER_INPUT else _find(self, item.target or "")
            for item in program.graph_signature.input_specs
        }
        results = _Steps(program.graph_module).run(*values.values(), enable_io_processing=False)
        outputs = []
        for item, result in zip(program.graph_signature.output_specs, results, strict=True):
            if item.kind in _WRITES:
                written = values[item.target] if item.target in values else _find(self, item.target or "")
                written.copy_(result)
            elif item.kind is OutputKind.USER_OUTPUT:
                outputs.append(item.arg.value if isinstance(item.arg, ConstantArgument) else result)
        return pytree.tree_unflatten(outputs, program.call_spec.out_spec)


def _refuse_transforms(program: ExportedProgram) -> None:
    """Refuse `torch.vmap` and similar transforms. torch.export records nodes that enter and leave such a transform,
    which torch itself cannot run."""
    for node in program.graph.nodes:
        name = getattr(node.target, "__name__", "")
        if name.endswith("_increment_nesting") or name == "_unwrap_for_grad":
            raise CaptureError(
                f"the exported program contains a transform of torch.func ({name}), which torch.export records "
                "incompletely: export the module itself instead of the ExportedProgram"
            )


def _tensor_of(program: ExportedProgram, name: str) -> torch.Tensor:
    tensor = program.state_dict[name] if name in program.state_dict else program.constants[name]
    assert isinstance(tensor, torch.Tensor)
    return tensor


def _put(root: nn.Module, path: str, tensor: torch.Tensor) -> None:
    """Register a tensor under a path such as `0.weight`, and create the submodules of the path if needed.

    The checks of nn.Module are bypassed, because names in the program may be those of methods of this class.
    """
    *parts, name = path.split(".")
    for part in parts:
        root = modules_of(root).setdefault(part, nn.Module())  # type: ignore[assignment]
    if isinstance(tensor, nn.Parameter):
        parameters_of(root)[name] = tensor
    else:
        buffers_of(root)[name] = tensor


def _find(root: nn.Module, path: str) -> torch.Tensor:
    *parts, name = path.split(".")
    for part in parts:
        root = modules_of(root)[part]  # type: ignore[assignment]
    tensor = parameters_of(root).get(name, buffers_of(root).get(name))
    assert tensor is not None
    return tensor


class _Steps(fx.Interpreter):
    """Runs a graph of `torch.export` node by node. `origin.py` reads source lines from the frames of this class."""

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        attribute = super().get_attr(target, args, kwargs)
        return _branch(attribute) if isinstance(attribute, fx.GraphModule) else attribute

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        instead = _INSTEAD.get(getattr(target, "__name__", ""))
        if instead is not None:
            return instead(*args, **kwargs)
        return super().call_function(target, args, kwargs)


def _branch(graph: fx.GraphModule) -> Callable[..., Any]:
    """A function that runs a subgraph, such as a branch of `torch.cond` or the body of a `no_grad`."""

    def run(*args: Any) -> Any:
        return _Steps(graph).run(*args, enable_io_processing=False)

    return run


def _with_grad(enabled: bool, part: Callable[..., Any], *args: Any) -> Any:
    """Run the body as it is, because enabling or disabling gradients does not change values."""
    return part(*args)


def _with_autocast(
    device: str, dtype: torch.dtype, enabled: bool, cached: bool, part: Callable[..., Any], *args: Any
) -> Any:
    with torch.autocast(device, dtype, enabled):
        return part(*args)


def _assume(condition: Any, message: str = "") -> None:
    """Assume a condition that the exported program checks at run time, such as `torch._check(n > 0)`."""
    if isinstance(condition, torch.SymBool):
        assume(condition)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Ignore a run-time check, which an ONNX model cannot express."""


_INSTEAD: dict[str, Callable[..., Any]] = {
    "wrap_with_set_grad_enabled": _with_grad,
    "wrap_with_autocast": _with_autocast,
    "_assert_scalar.default": _assume,
    "_assert_async.default": _nothing,
    "_assert_async.msg": _nothing,
    "_functional_assert_async.msg": _nothing,
    "_assert_tensor_metadata.default": _nothing,
    "sym_constrain_range.default": _nothing,
    "sym_constrain_range_for_size.default": _nothing,
}
