"""The call that is recorded: the program, its arguments, and which parameter each argument belongs to."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import onnx_ir as ir
import torch
from torch.nn.parameter import is_lazy

from onnx_parity.exporter.containers import leaves_of, opened
from onnx_parity.exporter.dtypes import TO_ONNX
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.request.marked_inputs import Held, Layout, OrNone
from onnx_parity.exporter.torch_inside.code_objects import code_of
from onnx_parity.exporter.torch_inside.dynamo import original_of_compiled
from onnx_parity.exporter.torch_inside.imports import attribute_of
from onnx_parity.exporter.torch_inside.torchscript import ScriptFunction, ScriptMethod

__all__ = [
    "Call",
    "by_parameter",
    "checked_program",
    "in_signature_order",
    "own_example",
    "parameter_names",
    "refuse_file_as_example",
    "refuse_unknown_keywords",
    "refuse_unreadable",
    "refuse_unscripted",
    "signature_of",
    "split_args",
    "takes",
]


def split_args(
    args: Any, kwargs: Mapping[str, Any] | None, signature: inspect.Signature | None = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Apply `torch.onnx`'s rule: a dict at the end of args holds keyword arguments, and an empty one is dropped.

    It is an argument itself where the program can only be called so.
    """
    if not isinstance(args, (tuple, list)):
        args = (args,)
    args = tuple(args)
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise ArgumentError(f"kwargs is {kwargs!r}: give a dict of arguments by name, {{'x': tensor}}")
    named = dict(kwargs or {})
    if args and type(args[-1]) is dict and all(isinstance(key, str) for key in args[-1]) and not kwargs:
        keywords = dict(args[-1])
        if signature is None or not _is_argument(keywords, args, signature):
            return args[:-1], keywords
    return args, named


def _is_argument(last: Mapping[str, Any], args: Sequence[Any], signature: inspect.Signature) -> bool:
    """Whether the dict at the end of args is one argument: its keys are no parameters, and no misspelt ones."""
    if takes(signature, args[:-1], last) or not takes(signature, args, {}):
        return False
    import difflib  # It takes a millisecond.

    return not any(difflib.get_close_matches(key, signature.parameters) for key in last)


class Call(msgspec.Struct, frozen=True):
    """A call of a program: its arguments as they were given, and by the names of the parameters they belong to.

    Objects that hold tensors are opened (see `containers`).
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    #: First the positional arguments, then the keyword arguments, each in their order.
    by_parameter: dict[str, Any]

    @classmethod
    def of(cls, program: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None) -> Call:
        """Read the arguments. Refuses those without a parameter of the program, or without a representation in ONNX."""
        signature = signature_of(program)
        positional, named = opened(split_args(args, kwargs, signature))
        refuse_unknown_keywords(args, named, signature)
        arguments = by_parameter(parameter_names(signature), positional, named)
        refuse_unreadable(arguments)
        return cls(positional, named, arguments)

    def with_arguments(self, arguments: Mapping[str, Any]) -> Call:
        """The same call with other arguments, by the same parameters."""
        values = list(arguments.values())
        named = dict(zip(self.kwargs, values[len(self.args) :], strict=True))
        return Call(tuple(values[: len(self.args)]), named, dict(arguments))


#: The text of an argument of another type is shown up to this length.
_LONGEST_SHOWN = 80


def checked_program(model: Any) -> None:
    """Refuse a program that cannot be called, or whose weights have no shapes yet."""
    is_module = isinstance(model, torch.nn.Module)
    if not is_module and isinstance(getattr(model, "model", None), ir.Model):
        raise ArgumentError(
            f"model is of type {type(model).__name__}, which is a model in ONNX already: save() writes it to a file. "
            "To export it in another way, give the PyTorch program that it was made from"
        )
    if not callable(model):
        shown = repr(model)
        given = shown if len(shown) <= _LONGEST_SHOWN else f"of type {type(model).__name__}"
        raise ArgumentError(
            f"model is {given}: give a torch.nn.Module, a function of tensors, or an ExportedProgram{_read_from(model)}"
        )
    if isinstance(model, type) and issubclass(model, torch.nn.Module):
        raise ArgumentError(f"model is the class {model.__name__}: give a module, as {model.__name__}(...) makes one")
    if is_module:
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if is_lazy(tensor):
                raise ArgumentError(
                    f"{name!r} has no shape yet: it belongs to a lazy module, which infers its shape from the first "
                    "input. Call the model with the example once, and load its weights"
                )
            if type(tensor) is attribute_of("torch.distributed.tensor", "DTensor"):
                raise ArgumentError(
                    f"{name!r} is a DTensor, of which each process has a part: export a model with whole tensors, as "
                    "tensor.full_tensor() returns them"
                )


class OwnExample(msgspec.Struct, frozen=True):
    """The arguments of an export that a module itself provides, by the methods of `torch.onnx.ExportableModule`."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] | None
    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    dynamic_shapes: Any


def own_example(model: Any) -> OwnExample | None:
    """The example that a module provides; None if it provides none."""
    if not callable(getattr(model, "example_arguments", None)):
        return None
    args, kwargs = model.example_arguments()
    asked = (getattr(model, name, None) for name in ("input_names", "output_names", "dynamic_shapes"))
    input_names, output_names, dynamic_shapes = (each() if callable(each) else None for each in asked)
    # The last dict of `args` is taken for keyword arguments. An empty one after it keeps it positional.
    return OwnExample(args if kwargs else (*args, {}), kwargs, input_names, output_names, dynamic_shapes)


def refuse_unknown_keywords(args: Any, kwargs: Mapping[str, Any], signature: inspect.Signature | None) -> None:
    """Refuse keyword arguments without a parameter. Often they are a dict at the end of args, meant as one argument."""
    unknown = [] if signature is None else [name for name in kwargs if name not in signature.parameters]
    if signature is None or not unknown:
        return
    has_dict = isinstance(args, (tuple, list)) and bool(args) and isinstance(args[-1], dict)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    if takes_any and not (has_dict and args[-1].keys() == kwargs.keys() and not takes(signature, args[:-1], kwargs)):
        return
    hint = (
        " A dict at the end of args is taken as keyword arguments: if the program has a dict as an argument, put "
        "an empty one after it, args=(..., {...}, {})."
        if has_dict
        else ""
    )
    raise ArgumentError(
        f"the program has no parameter {unknown[0]!r}: its parameters are "
        f"{', '.join(signature.parameters) or 'none'}.{hint}"
    )


def takes(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a function can be called so."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def refuse_unreadable(arguments: Mapping[str, Any]) -> None:
    """Refuse tensors that ONNX cannot represent."""
    for name, argument in arguments.items():
        for leaf in leaves_of(argument):
            if isinstance(leaf, torch.Tensor):
                if leaf.is_quantized:
                    raise ArgumentError(
                        f"the argument {name!r} is quantized to {leaf.dtype} by {leaf.qscheme()}: only tensors of "
                        "torch.quint8 and torch.qint8 with one scale can be inputs, so dequantize it before"
                    )
                if leaf.is_nested:
                    raise ArgumentError(
                        f"the argument {name!r} is a nested tensor: give its values and its offsets, and call "
                        "torch.nested.nested_tensor_from_jagged inside the program"
                    )
                if leaf.layout is not torch.strided:
                    raise ArgumentError(
                        f"the argument {name!r} is a {leaf.layout} tensor: give a dense one and convert it inside the "
                        "program"
                    )
                if leaf.dtype not in TO_ONNX:
                    raise ArgumentError(
                        f"the argument {name!r} is of {leaf.dtype}, which has no ONNX type here: "
                        "give another dtype and convert it inside the program"
                    )


def refuse_unscripted(program: Callable[..., Any], layout: Layout) -> None:
    """Refuse an `OrNone` for a program that is not a script, because its `is None` is only evaluated once."""
    if isinstance(program, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return
    if any(isinstance(leaf, Held) and isinstance(leaf.mark, OrNone) for leaf in layout.leaves):
        raise ArgumentError(
            "an OrNone needs a script, because Python evaluates `is None` only once, while the program is recorded: "
            "export torch.jit.script(model)"
        )


def signature_of(program: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a program; None if it cannot be determined, such as for functions that are written in C."""
    own = getattr(program, "__signature__", None)
    if isinstance(own, inspect.Signature):
        return own
    program = _called_by(program)
    # A scripted module whose forward is overloaded, such as nn.LSTM, has no attribute `forward`.
    called = getattr(program, "forward", None) if isinstance(program, torch.nn.Module) else program
    if isinstance(called, (ScriptFunction, ScriptMethod)):
        return _script_signature(called)
    try:
        return None if called is None else _kept_signature(called)
    except (TypeError, ValueError):
        return None


def _called_by(program: Callable[..., Any]) -> Callable[..., Any]:
    """The module that gets the arguments of a wrapper whose own forward has no names for them."""
    while True:
        inner = program.module if isinstance(program, torch.nn.DataParallel) else original_of_compiled(program)
        if inner is None:
            return program
        program = inner


#: The signatures of Python functions and their bound methods, which take long to make, with what they were made of.
_signatures: WeakKeyDictionary[FunctionType, tuple[tuple[Any, ...], inspect.Signature]] = WeakKeyDictionary()


def _kept_signature(called: Callable[..., Any]) -> inspect.Signature:
    function = called.__func__ if isinstance(called, MethodType) else called
    # The attributes of a function may give it another signature, and its defaults by keyword can be replaced in place.
    if not isinstance(function, FunctionType) or function.__dict__ or function.__kwdefaults__:
        return inspect.signature(called)
    made_of = (type(called), code_of(function), function.__defaults__)
    kept, signature = _signatures.get(function, ((), None))
    if signature is None or any(then is not now for then, now in zip(kept, made_of, strict=True)):
        signature = inspect.signature(called)
        _signatures[function] = made_of, signature
    return signature


def _script_signature(
    compiled: ScriptFunction[..., Any] | ScriptMethod[..., Any],
) -> inspect.Signature:
    schema: Any = compiled.schema
    parameters = schema.arguments[1 if isinstance(compiled, ScriptMethod) else 0 :]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [
            inspect.Parameter(
                each.name, kind, default=each.default_value if each.has_default_value() else inspect.Parameter.empty
            )
            for each in parameters
        ]
    )


def parameter_names(signature: inspect.Signature | None) -> list[str]:
    """The names of the positional parameters; an empty list if the signature is unknown."""
    parameters = signature.parameters.values() if signature is not None else ()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _read_from(model: Any) -> str:
    """How a program is read from a file that was given in its place; empty if no such file was given."""
    reads = {".pt2": "torch.export.load", ".pt": "torch.jit.load", ".pth": "torch.load", ".ts": "torch.jit.load"}
    if not isinstance(model, (str, os.PathLike)):
        return ""
    read = reads.get(os.path.splitext(str(model))[1])
    return f", as {read}({str(model)!r}) may return one" if read else ""


def refuse_file_as_example(model: Any, args: Any) -> None:
    """Refuse the name of a file where the example arguments are expected."""
    if isinstance(args, os.PathLike) or (isinstance(args, str) and args.endswith((".onnx", ".onnxtext", ".json"))):
        has_own = isinstance(model, torch.export.ExportedProgram)
        how = f"export(program, f={str(args)!r})" if has_own else f"export(model, (x,), {str(args)!r})"
        example = "an ExportedProgram has its example" if has_own else "give the example arguments before it"
        raise ArgumentError(f"args is {str(args)!r}, which is the name of a file: {example}, {how}")


def in_signature_order(signature: inspect.Signature | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by parameter in the order of the signature. Those of `*args` stand where it does, others come last."""
    parameters = list(signature.parameters.values()) if signature is not None else []
    order = {parameter.name: place for place, parameter in enumerate(parameters)}
    rest = next((order[each.name] for each in parameters if each.kind is each.VAR_POSITIONAL), len(order))
    return dict(sorted(arguments.items(), key=lambda item: order.get(item[0], rest)))


def by_parameter(parameters: Sequence[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the names of their parameters; those of `*args` are called `input_3`, `input_4` and so on."""
    names = [*parameters[: len(args)], *(f"input_{number}" for number in range(len(parameters), len(args)))]
    twice = [name for name in names if name in kwargs]
    if twice:
        raise ArgumentError(
            f"the program gets {twice[0]!r} twice, by position and by name: give it in args or in kwargs"
        )
    return {**dict(zip(names, args, strict=True)), **kwargs}
