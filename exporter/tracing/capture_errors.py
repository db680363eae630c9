"""Errors and warnings of a recording: the program failed, fixed a dynamic axis, or branched on a dynamic size."""

from __future__ import annotations

import inspect
import linecache
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from onnx_parity.exporter.containers import leaves_of
from onnx_parity.exporter.dispatch.composites import original
from onnx_parity.exporter.errors import (
    CaptureError,
    DynamicAxisError,
    FrozenValueError,
    OnnxExporterWarning,
    ProgramFailedError,
    capture_errors_made,
)
from onnx_parity.exporter.graph.graph import Graph, Origin, Value, operator_name
from onnx_parity.exporter.graph.names_of_axes import in_names_of_axes
from onnx_parity.exporter.graph.origin import last_user_origin
from onnx_parity.exporter.nesting import nested_too_deeply
from onnx_parity.exporter.recording.recorder import Recorder
from onnx_parity.exporter.recording.results import TensorList
from onnx_parity.exporter.recording.values_read import OF_EXPERTS
from onnx_parity.exporter.request.call_arguments import Call, takes
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from onnx_parity.exporter.torch_inside.fake_tensors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from onnx_parity.exporter.torch_inside.frames import (
    is_caught_by_user,
    is_library_file,
    passes_through,
    variables_of_calls,
)
from onnx_parity.exporter.tracing.assumptions import spelled

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.answers import Answer

__all__ = [
    "AxesFixed",
    "OperatorFailedError",
    "changed_numbers",
    "contradicted_by_example",
    "ended_the_process",
    "failed_while_recorded",
    "failed_with",
    "fixed_axes",
    "is_branch",
    "raising_what_was_caught",
    "refuse_ignored_inputs",
    "warn_of_static_axes",
]

#: What Python says of dynamic sizes that it does not take, and what is said instead.
_OF_PYTHON = {
    "unhashable type: non-nested Sym": "uses a dynamic size as a key{}: of a dict, of a set, or of a cache such as "
    "functools.lru_cache\nWhat it finds there belongs to one size. Compute it each time",
    r"numpy\.object_": "makes a tensor of an array of numpy that holds objects, such as a dynamic size{}\n"
    "Compute with tensors instead: torch.arange(n), torch.tensor([n])",
    "'complex' and 'Sym|'Sym.*'complex'": "makes a complex number of a size{}\nUse a tensor: torch.tensor(n) * 1j",
}
#: Errors of torch's that no user can read, from operators that it cannot describe without data.
_NO_KERNEL = "Could not run '"
#: What they say of tensors that are neither dense nor sparse.
_OPAQUE = ("NestedInt", "OpaqueTensorImpl")
#: What is said of tensors that came about in another way than by an operator.
_UNRECORDED = ("a tensor was made without being recorded", "convert all Tensors to FakeTensors first")
_OF_TORCHS_INSIDES = ("INTERNAL ASSERT FAILED", "concrete integers", "non-nested SymInt", _NO_KERNEL)
#: What autograd says where there is nothing to differentiate.
_NOT_DIFFERENTIABLE = (
    "does not require grad and does not have a grad_fn",
    "appears to not have been used in the graph",
)

#: What the line of a loop contains. It may be that of a comprehension.
_LOOP = re.compile(r"\b(for|while|range)\b")
_ADVICE_ON_LOOPS = (
    "\n`for i in range(x.shape[0])`, `for row in x` and a `while` with one condition, or several that `and` joins, "
    "become loops of the model, which run for any size, unless they fill a dict or a set, or look up the number of an "
    "iteration in one; so do the loops of a function with @torch.jit.script. Use lists and tensors, and `if ...: "
    "break` for another condition of a `while`."
)

_ADVICE_ON_BRANCHES = (
    "\nIf the program only branches on whether a size is this number, give an example of another size: the model is "
    "then right for all others."
)


class AxesFixed(Exception):
    """The program fixes axes that were to be dynamic."""

    def __init__(self, fixed: Mapping[str, Answer], axis_names: Mapping[str, str], asked: Sequence[Answer]) -> None:
        super().__init__()
        #: The names of the axes, each with the answer that fixes it.
        self.fixed = fixed
        #: The names of dynamic axes by symbol.
        self.axis_names = axis_names
        symbols = {symbol for known in fixed.values() for symbol in known.expression.free_symbols}
        #: What Python asked about the axes.
        self.branches = [each for each in asked if is_branch(each) and symbols & each.expression.free_symbols]


class OperatorFailedError(CaptureError):
    """torch could not say without data what the result of an operator looks like."""

    def __init__(self, text: str, op: OpOverload, placed: str) -> None:
        super().__init__(text)
        self.op = op
        #: The user's line, as part of a sentence.
        self.placed = placed


def failed_while_recorded(
    error: Exception, axis_names: Mapping[str, str] | None = None, unlike_the_example: Sequence[str] = ()
) -> CaptureError:
    """The error for a program that raised `error` while it was recorded.

    `axis_names` are the names of dynamic axes by symbol. `unlike_the_example` are the symbols of sizes that were
    recorded with another value than in the example, which may be the reason why the program failed.
    """
    placed = last_user_origin(error).placed
    if isinstance(error, RecursionError):
        return nested_too_deeply(placed)
    if isinstance(error, TypeError) and TensorList.__name__ in str(error):
        return CaptureError(f"the program passes a list of unknown length to an operator{placed}. {TensorList.REMEDY}")
    for words, said in _OF_PYTHON.items():
        if isinstance(error, TypeError) and re.search(words, str(error)):
            return ProgramFailedError(f"the program {said.format(placed)}, or leave the axis out of dynamic_axes.")
    if type(error).__name__ == "GuardOnDataDependentSymNode" and _iterates(error):
        return CaptureError(
            f"the program loops in Python over a tensor whose length depends on values{placed}\n"
            "How often the loop runs is not known at export. Loop over the tensor itself with `for`, compute all rows "
            f"at once, or script the function with the loop. {OF_EXPERTS}"
        )
    if type(error).__name__ == "GuardOnDataDependentSymNode":
        return CaptureError(
            f"the program branches on a number that it computed from values{placed}: {error.cond}\n"  # type: ignore[attr-defined]
            "The number depends on the input, so neither branch can be chosen at export. Branch on sizes of inputs, "
            "use torch.where or torch.cond, or state what always holds with torch._check."
        )
    if any(words in str(error) for words in _OPAQUE):
        return CaptureError(
            f"the program uses a nested tensor, or one in a layout of the processor, which ONNX does not have{placed}\n"
            "Use a dense tensor there, padded where the parts have different lengths."
        )
    if any(words in str(error) for words in _UNRECORDED):
        return CaptureError(
            f"the program makes a tensor in a way that cannot be recorded, and computes with it{placed}\n"
            "Tensors of classes of their own (x.as_subclass(T), T(x)) cannot be made within a program: use plain "
            "tensors there, as x.as_subclass(torch.Tensor) returns one, or give such tensors as arguments."
        )
    op = _operator_of(error)
    if op is not None:
        text = (
            f"{operator_name(op)} cannot be exported{placed}: torch has no kernel for it with such tensors\n"
            "Call the program with the same arguments without exporting, and write that line with other operators."
            if _NO_KERNEL in str(error) or isinstance(error, UnsupportedOperatorException)
            else f"{operator_name(op)} cannot be exported{placed}: what its result looks like depends on values, or on "
            "dynamic sizes, in a way that torch does not describe\n"
            "Write that line with other operators; if axes are dynamic, try it with static ones."
        )
        return OperatorFailedError(text, op, placed)
    if any(words in str(error) for words in _NOT_DIFFERENTIABLE):
        return CaptureError(
            f"the program asks for gradients{placed} of something that does not depend on what they are asked for: "
            f"{error}\nCall it without exporting. If it works there, what it asks for is computed from tensors that "
            "are neither inputs nor weights of the module: make them one of these."
        )
    known = axis_names or {}
    # Where in C++ an error was raised says nothing to the program's author.
    text = str(error).partition("\nException raised from")[0]
    named = in_names_of_axes(text, known)
    if known and unlike_the_example:
        names = ", ".join(repr(known[symbol]) for symbol in unlike_the_example)
        return ProgramFailedError(
            f"the program failed while it was recorded{placed}: {type(error).__name__}: {named}\n"
            f"The size of {names} is 0 or 1 in the example. It was recorded as 2, because empty axes and axes of size "
            "1 (which broadcast) behave differently from other sizes. Give an example of another size; if the program "
            "needs this one, leave the axis out of dynamic_axes."
        )
    return ProgramFailedError(
        f"the program failed while it was recorded{placed}: {type(error).__name__}: {named}\n"
        "Call it with the same arguments without exporting. If it fails there too, correct it there first. "
        "If not, it does something that is not possible with fake tensors (numpy, .data_ptr(), a C extension)."
    )


def failed_with(error: ProgramFailedError, call: Call, signature: inspect.Signature | None) -> ProgramFailedError:
    """The error for a program that failed in a call, which says so if its arguments may be the reason."""
    given = call.by_parameter
    arrays = [name for name, each in given.items() if any(isinstance(leaf, np.ndarray) for leaf in leaves_of(each))]
    if arrays:
        advice = (
            f"The argument {arrays[0]!r} is a numpy array, and operators of PyTorch take tensors: give "
            f"torch.from_numpy({arrays[0]}) as the example."
        )
    elif (
        isinstance(error.__cause__, TypeError)
        and signature is not None
        and not takes(signature, call.args, call.kwargs)
    ):
        advice = (
            f"Its parameters are {', '.join(signature.parameters) or 'none'}: give all positional arguments as one "
            "tuple, args=(x, y), and those by keyword as kwargs={'z': z}."
        )
    else:
        return error
    return ProgramFailedError(f"{str(error).partition(chr(10))[0]}\n{advice}")


def _iterates(error: Exception) -> bool:
    """Whether an error was raised where a program took a tensor apart to loop over it."""
    from onnx_parity.exporter.sizes.looped import Parts

    return passes_through(Parts.as_in_example, error)


def _operator_of(error: Exception) -> OpOverload | None:
    """The operator whose result torch could not describe without data; None for any other error."""
    if isinstance(error, (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)):
        return original(error.func)
    if not any(words in str(error) for words in _OF_TORCHS_INSIDES):
        return None
    operator: OpOverload | None = None
    for variables in variables_of_calls(Recorder.__torch_dispatch__, error):
        func = variables.get("func")  # The variables of an attempt that was given up are cleared.
        operator = original(func) if func is not None else operator
    return operator


def ended_the_process(error: SystemExit) -> CaptureError:
    """The error for a program that called `sys.exit` while it was recorded."""
    return CaptureError(
        f"the program ended the process{last_user_origin(error).placed} while it was recorded: SystemExit: "
        f"{error.code}. Raise another error instead, or return"
    )


def refuse_ignored_inputs(graph: Graph, looked_at: Mapping[Value, Origin]) -> None:
    """Refuse a program that looked at the values of an input, decided by them, and does not use the input otherwise."""
    used = {id(value) for node in graph.live_nodes() for value in node.inputs()}
    used.update(id(output) for output in graph.outputs)
    used.update(id(each.value) for each in graph.symbol_sources.values() if each.axis is None)
    ignored = [each for each in graph.inputs if each.value in looked_at and id(each.value) not in used]
    if not ignored:
        return
    several = len(ignored) > 1
    lines = "\n".join(f"  - {each.name!r}{looked_at[each.value].placed}" for each in ignored)
    raise FrozenValueError(
        f"the program looks at the values of {len(ignored)} input{'s' if several else ''} to decide what to do, and "
        f"the results depend on {'them' if several else 'it'} in no other way. The exported model would do what was "
        f"decided for the example, whatever is given there:\n{lines}\n"
        "Decide with tensors instead (torch.where, torch.cond), or script the function that decides; if the example's "
        "decision is the right one for all that the model will be given, export with allow_ignored_inputs=True."
    )


def refuse_fixed_numbers(numbers: Sequence[Value], looked_at: Mapping[Value, Origin]) -> None:
    """Refuse a program that needs the value of a number that is to be an input of the model."""
    fixed = [value for value in numbers if value in looked_at]
    if not fixed:
        return
    lines = "\n".join(f"  - {value.name!r}{looked_at[value].placed}" for value in fixed)
    raise FrozenValueError(
        f"the program needs the value of {len(fixed)} number{'s' if len(fixed) > 1 else ''} that AnyNumber makes an "
        f"input of the model:\n{lines}\n"
        "Script the function that decides by it, or export without this AnyNumber, one model for each number."
    )


def changed_numbers(places: Sequence[str]) -> CaptureError:
    """The error for numbers that a program counts in an object which it is given and gives back."""
    lines = "\n".join(f"  - {place}" for place in places)
    return CaptureError(
        f"the program changes {len(places)} number{'s' if len(places) > 1 else ''} in an object that it is given and "
        "gives back. The exported model would have the example's as constants, and so be wrong for every further call "
        f"with what it gave back:\n{lines}\n"
        "Keep them in tensors. If the object is a cache that keeps the last tokens and counts all of them, name the "
        "axis of what it keeps by the sizes of the mask and of the new tokens, as in 'min(all - sequence, 7)' for a "
        "sliding window of 8. If nothing depends on these numbers, export with allow_ignored_inputs=True."
    )


@contextmanager
def raising_what_was_caught() -> Iterator[None]:
    """Within, a program is recorded. What that cannot go on with is no error of the program's, which it may catch."""
    with capture_errors_made() as made:
        try:
            yield
        finally:
            for each in filter(is_caught_by_user, made):
                raise each


def contradicted_by_example(branches: Sequence[Answer], axis_names: Mapping[str, str]) -> DynamicAxisError:
    """The error for branches that the program takes for the sizes of the example, and not for others."""
    lines = "\n".join(
        f"  -{known.origin.placed}: {spelled(known.expression, axis_names)} is {not known.answer} in the example, and "
        f"{known.answer} for other sizes"
        for known in branches
    )
    return DynamicAxisError(
        f"the program does something else for the sizes of the example, 0 or 1, than for others:\n{lines}\n"
        "Give an example of another size, for which a model can be right; or leave the axes out of dynamic_axes."
    )


def fixed_axes(fixed: Mapping[str, Answer], axis_names: Mapping[str, str]) -> DynamicAxisError:
    """The error for dynamic axes that the program needs to have one size; `fixed` maps each to the answer."""
    loops = {name: known for name, known in fixed.items() if _loops(known)}
    if loops.keys() == fixed.keys():
        one = len(loops) == 1
        places = "\n".join(f"  - over {name!r}{known.origin.placed}" for name, known in loops.items())
        where = "in your own code " if _is_of_library(fixed) else ""
        return DynamicAxisError(
            f"{len(loops)} loop{'' if one else 's'} over a dynamic axis cannot become {'one' if one else 'such'} "
            f"of the model as {'it is' if one else 'they are'} written:\n"
            f"{places}\nWrite {'it' if one else 'them'} {where}in another way, or leave the axes out of dynamic_axes."
            f"{_ADVICE_ON_LOOPS}"
        )
    return DynamicAxisError(
        f"{len(fixed)} dynamic ax{'es are' if len(fixed) > 1 else 'is is'} fixed by the program:\n"
        f"{_needs(fixed, axis_names)}\n"
        f"{_way_out(fixed).capitalize()}, or leave the axes out of dynamic_axes."
        f"{_ADVICE_ON_BRANCHES if any(map(_branches, fixed.values())) else ''}"
        f"{_ADVICE_ON_LOOPS if loops else ''}"
    )


def _is_of_library(fixed: Mapping[str, Answer]) -> bool:
    return any(is_library_file(known.origin.file) for known in fixed.values())


def _way_out(fixed: Mapping[str, Answer]) -> str:
    """What to do about lines that fix axes. Those of installed libraries are not the user's to write."""
    if _is_of_library(fixed):
        return "write what the library does there in your own code, for any size"
    return "write those lines for any size (x.shape[i] instead of a number)"


def is_branch(known: Answer) -> bool:
    """Whether the program asked a question, and needed no number."""
    from onnx_parity.exporter.expressions.expression import Condition

    return known.by_user and isinstance(known.expression, Condition)


def _branches(known: Answer) -> bool:
    """Whether the program asked whether a size is one number, which it is in the example."""
    # Programs with static sizes do not need it.
    from onnx_parity.exporter.expressions.conditions import Equal, Unequal

    asks = isinstance(known.expression, Equal | Unequal)
    return known.by_user and asks and any(side.is_Integer for side in known.expression.args)


def _loops(known: Answer) -> bool:
    """Whether the line that asked for a size seems to be that of a loop."""
    line = linecache.getline(known.origin.file, known.origin.line)
    return _LOOP.search(line.partition("#")[0]) is not None


def warn_of_static_axes(fixed: Mapping[str, Answer], axis_names: Mapping[str, str]) -> None:
    """Warn of axes that were to be dynamic and are static, because the program fails with other sizes."""
    first = next(iter(fixed.values())).origin
    text = (
        f"{len(fixed)} dynamic ax{'es are' if len(fixed) > 1 else 'is is'} static in the model, because the program "
        f"fails with every other size that was tried:\n{_needs(fixed, axis_names)}\n"
        f"Leave the axes out of dynamic_axes; or {_way_out(fixed)}."
    )
    warnings.warn_explicit(text, OnnxExporterWarning, first.file or "<unknown>", first.line)


def _needs(fixed: Mapping[str, Answer], axis_names: Mapping[str, str]) -> str:
    return "\n".join(
        f"  - {name!r}{known.origin.placed}: the program needs {spelled(known.expression, axis_names)} to be "
        f"{known.answer}"
        for name, known in fixed.items()
    )
