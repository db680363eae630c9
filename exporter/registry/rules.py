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
`rules_of("aten::narrow")` are all rules of an operator, wherever they stand. Families that few programs need are
imported when a rule of their aspect is first asked for: `when_needed` registers what imports them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from onnx_parity.exporter.torch_inside.code_objects import first_line, is_defined_in
from onnx_parity.exporter.torch_inside.frames import line_being_imported

__all__ = ["Aspect", "Rule", "add", "all_rules", "load", "rules_of", "when_needed"]


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
    #: The file that declares the rule, and the line, if the function is not defined there.
    declared: tuple[str, int] | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.aspect.value}" + (f": {self.why}" if self.why else "")

    @property
    def place(self) -> str:
        """The file and the line of the rule: `operators/shape/recorded.py:12`."""
        file, line = self.declared or first_line(self.function)
        return f"{file.rpartition('exporter/')[2]}:{line}"


_rules: list[Rule] = []
_importers: dict[Aspect, list[Callable[[], None]]] = {}


def add(rule: Rule) -> None:
    """Add a rule to the list."""
    # A function that several families share is not the place of a rule, but the line that names it.
    if not is_defined_in(rule.function, "onnx_parity.exporter.operators"):
        rule = replace(rule, declared=line_being_imported())
    _rules.append(rule)


def when_needed(*aspects: Aspect) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a function that imports families whose rules of these aspects few programs need."""

    def register(importer: Callable[[], None]) -> Callable[[], None]:
        for aspect in aspects:
            _importers.setdefault(aspect, []).append(importer)
        return importer

    return register


def load(aspect: Aspect) -> None:
    """Import all families that have rules of an aspect.

    An import that has been made costs little, and is made again each time: a thread has to wait for one of another.
    """
    for importer in _importers.get(aspect, ()):
        importer()


def all_rules() -> Iterator[Rule]:
    """All rules of all operators."""
    for aspect in Aspect:
        load(aspect)
    yield from _rules


def rules_of(name: str) -> list[Rule]:
    """The rules of an operator with all of its overloads, or of one overload: `aten::max`, `aten::max.dim`."""
    return [rule for rule in all_rules() if rule.name == name or rule.name.partition(".")[0] == name]
