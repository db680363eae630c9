"""Programs that `torch.export` has captured, as modules that can be recorded like any other.

An `ExportedProgram` is a graph of ATen operators whose weights, mutations and nested arguments were taken out. Here
they are put back: weights under their own names, writes in place, arguments and results in their structure.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.utils import _pytree as pytree

from onnx_parity.exporter.capture.graph.graph import Varying
from onnx_parity.exporter.capture.record.results import spelled_structure
from onnx_parity.exporter.errors import ArgumentError, CaptureError
from onnx_parity.exporter.request.dynamic_axes import Axes, Named

__all__ = ["ExportedModule"]

_WEIGHTS = frozenset({InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR})
_WRITES = frozenset({OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION})


class ExportedModule(nn.Module):
    """An `ExportedProgram` that can be called, in whichever mode it was exported."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        _refuse_transforms(program)
        # Set past nn.Module, which would take the graph for a part of the program, with parameters of its own.
        self.__dict__["_program"] = program
        for spec in program.graph_signature.input_specs:
            if spec.kind in _WEIGHTS:
                assert spec.target is not None
                _put(self, spec.target, _tensor_of(program, spec.target))
            elif spec.kind is not InputKind.USER_INPUT:
                raise CaptureError(
                    f"the exported program holds a {spec.kind.name.lower()}, {spec.target or spec.arg.name!r}, which "
                    "ONNX has no form for: write it with tensors"
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
            "an ExportedProgram has lists of the length that it was exported with, and no argument that may be None: "
            "for a ListOf or an OrNone export torch.jit.script(model)"
        )

    def example(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that it was exported with."""
        if self.program.example_inputs is None:
            raise ArgumentError("the exported program does not hold its example inputs: give them as args and kwargs")
        args, kwargs = self.program.example_inputs
        return tuple(args), dict(kwargs)

    def axes(self, inputs: Mapping[str, torch.Tensor]) -> Axes:
        """The sizes that may vary, as they were exported; `inputs` are its tensors by name."""
        found: dict[int, Named] = {}
        ranges: dict[str, tuple[Any, Any]] = {}
        names: dict[str, str] = {}
        fakes = []
        for name, value in self._user_inputs().items():
            if isinstance(value, Varying):
                raise ArgumentError(
                    f"the exported program takes the number {name!r} as an input that varies, and it would be built "
                    "in: export the program with a tensor of one number instead"
                )
            if isinstance(value, torch.Tensor):
                fakes.append(value)
        if len(fakes) != len(inputs):
            raise ArgumentError(f"the program was exported for {len(fakes)} tensors, and got {len(inputs)}")
        for position, (fake, name) in enumerate(zip(fakes, inputs, strict=True)):
            for axis, size in enumerate(fake.shape):
                if isinstance(size, torch.SymInt):
                    expression = size.node.expr
                    called = names.setdefault(str(expression), f"{name}_dim_{axis}")
                    found.setdefault(position, {})[axis] = called
                    bounds = self.program.range_constraints.get(expression)
                    if bounds is not None:
                        ranges[called] = (bounds.lower, bounds.upper)
        return Axes(inputs=found, ranges=ranges)

    def _user_inputs(self) -> dict[str, Any]:
        """What stands for each argument in the graph: fake tensors, and whatever else was given."""
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
                f"name, and got {spelled_structure(given)}"
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
    """torch.export keeps `torch.vmap` and its like as steps that enter and leave it, which torch cannot run either."""
    for node in program.graph.nodes:
        name = getattr(node.target, "__name__", "")
        if name.endswith("_increment_nesting") or name == "_unwrap_for_grad":
            raise CaptureError(
                f"the exported program holds a transform of torch.func ({name}), which torch.export leaves half done: "
                "export the module itself instead of the ExportedProgram"
            )


def _tensor_of(program: ExportedProgram, name: str) -> torch.Tensor:
    tensor = program.state_dict[name] if name in program.state_dict else program.constants[name]
    assert isinstance(tensor, torch.Tensor)
    return tensor


def _put(root: nn.Module, path: str, tensor: torch.Tensor) -> None:
    """Give a tensor the place `0.weight` in a module, which has such parts afterwards if it had not before.

    Past the checks of nn.Module: a program may call its parts what this class calls its methods.
    """
    *parts, name = path.split(".")
    for part in parts:
        root = root._modules.setdefault(part, nn.Module())  # type: ignore[assignment]
    if isinstance(tensor, nn.Parameter):
        root._parameters[name] = tensor
    else:
        root._buffers[name] = tensor


def _find(root: nn.Module, path: str) -> torch.Tensor:
    *parts, name = path.split(".")
    for part in parts:
        root = root._modules[part]  # type: ignore[assignment]
    tensor = root._parameters[name] if name in root._parameters else root._buffers[name]
    assert tensor is not None
    return tensor


class _Steps(fx.Interpreter):
    """Runs a graph of `torch.export` node by node. `origin.py` reads from its frames which line a node came from."""

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        attribute = super().get_attr(target, args, kwargs)
        return _branch(attribute) if isinstance(attribute, fx.GraphModule) else attribute

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        instead = _INSTEAD.get(getattr(target, "__name__", ""))
        if instead is not None:
            return instead(*args, **kwargs)
        return super().call_function(target, args, kwargs)


def _branch(graph: fx.GraphModule) -> Callable[..., Any]:
    """A part of a program that an operator takes as an argument: a way of `torch.cond`, what runs under `no_grad`."""

    def run(*args: Any) -> Any:
        return _Steps(graph).run(*args, enable_io_processing=False)

    return run


def _with_grad(enabled: bool, part: Callable[..., Any], *args: Any) -> Any:
    """Whether gradients are on changes no value."""
    return part(*args)


def _with_autocast(
    device: str, dtype: torch.dtype, enabled: bool, cached: bool, part: Callable[..., Any], *args: Any
) -> Any:
    with torch.autocast(device, dtype, enabled):
        return part(*args)


def _promise(condition: Any, message: str = "") -> None:
    """What was checked at run time is known here: `torch._check(n > 0)`."""
    if isinstance(condition, torch.SymBool):
        torch._check(condition)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """A check that a model has nobody to report to."""


_INSTEAD: dict[str, Callable[..., Any]] = {
    "wrap_with_set_grad_enabled": _with_grad,
    "wrap_with_autocast": _with_autocast,
    "_assert_scalar.default": _promise,
    "_assert_async.default": _nothing,
    "_assert_async.msg": _nothing,
    "_functional_assert_async.msg": _nothing,
    "_assert_tensor_metadata.default": _nothing,
    "sym_constrain_range.default": _nothing,
    "sym_constrain_range_for_size.default": _nothing,
}
