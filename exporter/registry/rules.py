"""What is known of operators, as a list of rules: the operator, the aspect of it, the function, and the reason.

A family of operators (`operators/convolution/` and others) makes its rules with decorators, one for each aspect:

    @lowering("aten::elu")                            how the operator is written in ONNX
    @instead_of("aten::chunk", why=...)               what is recorded instead of it
    keep_whole("aten::linear", why=...)               recorded as one operator, where torch would decompose it
    copy_back("tril_", to=DYNAMIC)                    recorded as the operator that does not write, and a copy
    @decomposition_of("aten::mode")                   what is recorded if it has no lowering
    @result_of("aten::linear", why=...)               what its result is, without torch's fake kernel
    @complex_of("aten::mul.Tensor")                   what it does to the parts of complex tensors
    @Jagged.rule("unbind")                            what a function of torch does to nested tensors
    keeps_scale("transpose"), @computes_floats        what functions of torch do to quantized tensors
    @with_symbolic_numbers(torch.narrow)              a function of torch that is given symbolic numbers
    @step_of("aten::copy_")                           what TorchScript's interpreter does
    @with_numbers_as_tensors("leaky_relu")            what it does if a number depends on values

A recording looks rules up in the table of an aspect, which lies where the aspect is used. This list is for people:
`rules_of("aten::narrow")` are all rules of an operator, wherever they stand.

A program needs the rules of few operators, so a file is imported when a rule in it is first asked for (`load`). No file
outside of `operators/` imports one of them, so that what an export has asked for says of which it has run code
(`noting`): the harness runs cells again whose files have changed.
`index.txt` says which file that is: a line for each file and aspect, with the names of its rules. After rules have been
added, moved or removed, `python3 start.py index` writes it again; a test compares it with the rules.
"""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, TypeAlias

import msgspec

from onnx_parity.exporter.torch_inside.frames import line_being_imported

__all__ = [
    "Asked",
    "Aspect",
    "Rule",
    "add",
    "all_rules",
    "load",
    "names_in_index",
    "note",
    "noted",
    "noting",
    "rules_in",
    "rules_of",
]

_REGISTRY = os.path.dirname(__file__)
_EXPORTER = __name__.removesuffix(".registry.rules")


class Aspect(enum.Enum):
    """What a rule says about an operator."""

    LOWERING = "lowered to ONNX"
    INSTEAD = "replaced when the program calls it"
    WHOLE = "kept whole, as one opaque operator, where torch would decompose it"
    DECOMPOSITION = "replaced when it is recorded, if it has no lowering"
    RESULT = "the fake result is computed by this exporter"
    COMPLEX = "computed by the real and imaginary parts of complex tensors"
    NESTED = "computed from the values and offsets of nested tensors"
    QUANTIZED = "computed from the floats and the scale of quantized tensors"
    NUMBERS = "called instead of torch's function if a number is a symbol"
    SCRIPT = "run by the interpreter of TorchScript"


class Rule(msgspec.Struct, frozen=True):
    """One thing that is known of an operator, or of a function of torch."""

    #: `aten::one_hot`, `aten::max.dim`; `torch.zeros` for a function; `prim::If` for a step of a script.
    name: str
    aspect: Aspect
    #: None only if the operator is kept whole.
    function: Callable[..., Any] | None
    why: str = ""
    #: The first opset that a lowering is for.
    since: int = 1
    #: The file that declares the rule, and the line.
    declared: tuple[str, int] = msgspec.field(default_factory=line_being_imported)

    def __str__(self) -> str:
        return f"{self.name}: {self.aspect.value}" + (f": {self.why}" if self.why else "")

    @property
    def place(self) -> str:
        """The file and the line of the rule: `operators/shape/recorded.py:12`."""
        file, line = self.declared
        return f"{file.rpartition('exporter/')[2]}:{line}"


_rules: list[Rule] = []


def add(rule: Rule) -> None:
    """Add a rule to the list."""
    _rules.append(rule)


#: The rules of an aspect for the operator of a name, whether or not there are any; with None, all rules of the aspect.
Asked: TypeAlias = tuple[Aspect, str | None]

_notes: ContextVar[set[Asked] | None] = ContextVar("_notes", default=None)


def load(aspect: Aspect, name: str | None = None) -> None:
    """Import the files that have rules of an aspect: those of an operator, or all.

    Whoever looks a rule up calls this each time, and does not remember what was found without what was asked for.
    """
    note(((aspect, name),))
    _import_files(aspect, name)


def note(asked: Collection[Asked]) -> None:
    """Note what something that is remembered has asked for when it was found."""
    notes = _notes.get()
    if notes is not None:
        notes.update(asked)


def noted() -> frozenset[Asked]:
    """What has been asked for in the innermost context of `noting`."""
    return frozenset(_notes.get() or ())


@contextmanager
def noting() -> Iterator[set[Asked]]:
    """A context in which all is noted that is asked for. It is noted outside of the context, too."""
    asked: set[Asked] = set()
    token = _notes.set(asked)
    try:
        yield asked
    finally:
        _notes.reset(token)
        note(asked)


@functools.cache
def _import_files(aspect: Aspect, name: str | None) -> None:
    """Of two threads, one waits for the imports of the other, because the result is kept only after them."""
    for module in _modules(aspect).get(name, ()) if name else (each for each, _ in _index()[aspect]):
        import_module(f"{_EXPORTER}.{module}")


def names_in_index(aspect: Aspect) -> Collection[str]:
    """The names of all rules of an aspect, whose files need not have been imported."""
    return _modules(aspect).keys()


def rules_in(module: str) -> list[tuple[Aspect, list[str]]]:
    """The names of the rules in a module, `operators.shape.recorded`, by their aspects, as the index has them."""
    return [(aspect, names) for aspect, each in _index().items() for name, names in each if name == module]


@functools.cache
def _modules(aspect: Aspect) -> dict[str, list[str]]:
    """The modules that have rules of an aspect, by the names of these."""
    modules: dict[str, list[str]] = {}
    for module, names in _index()[aspect]:
        for name in names:
            modules.setdefault(name, []).append(module)
    return modules


@functools.cache
def _index() -> dict[Aspect, list[tuple[str, list[str]]]]:
    """For each aspect, the modules that have rules of it, each with their names."""
    found: dict[Aspect, list[tuple[str, list[str]]]] = {aspect: [] for aspect in Aspect}
    with open(os.path.join(_REGISTRY, "index.txt"), encoding="utf-8") as lines:
        for line in lines:
            module, aspect, *names = line.split()
            found[Aspect[aspect]].append((module, names))
    return found


def all_rules() -> Iterator[Rule]:
    """All rules of all operators, also those of files that have come or gone since the index was written."""
    exporter = os.path.dirname(_REGISTRY)
    files = [os.path.join(exporter, *module.split(".")) + ".py" for each in _index().values() for module, _ in each]
    for folder, _, names in os.walk(os.path.join(exporter, "operators")):
        files += [os.path.join(folder, name) for name in names if name.endswith(".py")]
    for file in filter(os.path.exists, dict.fromkeys(files)):
        module = os.path.relpath(file, exporter).removesuffix(".py").replace(os.sep, ".")
        import_module(f"{_EXPORTER}.{module}")
    yield from _rules


def rules_of(name: str) -> list[Rule]:
    """The rules of an operator with all of its overloads, or of one overload: `aten::max`, `aten::max.dim`."""
    return [rule for rule in all_rules() if rule.name == name or rule.name.partition(".")[0] == name]
