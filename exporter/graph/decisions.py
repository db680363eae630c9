"""What may have to be decided before a program can be recorded, and the exception with which a recording asks for it.

A program is first recorded without any of these decisions, in the cheapest way. What cannot go on without one raises
`Reconsider` with the decision, at the place that needs it, and the program is recorded again with it
(`tracing/trace.py`):

    raise Reconsider(Decision.VIEWS_OF_INPUTS)
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from onnx_parity.exporter.errors import CaptureError

__all__ = ["ENDS", "INSTEAD", "OF_DYNAMIC_AXES", "Decision", "Decisions", "Reconsider"]


class Decision(enum.Enum):
    """A way to record a program that costs time, or that gives a less general model, and is taken when it is needed."""

    #: Sizes, and numbers that are read from tensors, are symbols. It takes the import of what computes with them.
    SYMBOLS = enum.auto()
    #: Tensors that belong to the program, and are neither weights nor inputs, are wrapped like inputs, so that the
    #: program may write to copies of them.
    WRAP_OWN_TENSORS = enum.auto()
    #: The program gets views of its inputs, which it may give the memory of other tensors with `set_`.
    VIEWS_OF_INPUTS = enum.auto()
    #: Parts of a tensor with dynamic sizes are selected one by one, where the program calls `unbind`.
    SELECT_PARTS = enum.auto()
    #: Autograd sees the operators of the program, so that it may ask for gradients.
    GRADIENTS = enum.auto()
    #: Sizes computed from others are 0 or 1 where the example makes them so (see `Symbols`).
    SPECIAL_SIZES_OF_EXAMPLE = enum.auto()
    #: Whether `squeeze` drops an axis is decided by the example, and not left open.
    RANKS_OF_EXAMPLE = enum.auto()
    #: `chunk` makes as many parts as in the example where their number depends on sizes.
    PARTS_OF_EXAMPLE = enum.auto()
    #: Results lie in memory as torch's own kernels lay them, which are called with zeros.
    LAYOUTS_OF_KERNELS = enum.auto()
    #: Tensors that the program has written to lie in memory as they did before (see `WrittenLayouts`).
    LAYOUTS_OF_WRITTEN = enum.auto()
    #: Functions are followed that called `int`, `float` or `len` with a dynamic size, and all of their modules.
    FOLLOW_FUNCTIONS = enum.auto()
    #: Python's `int`, `float` and `len` give the example's numbers (see `sizes/python_functions.py`).
    PLAIN_NUMBERS = enum.auto()
    #: The first iteration of a loop over a dynamic size is recorded by itself, and there has to be one.
    FIRST_ITERATIONS = enum.auto()
    #: So is the last one, and there have to be as many.
    LAST_ITERATIONS = enum.auto()
    #: The code of some functions is written down so that loops end at their heads, and what follows has paths.
    PATHS = enum.auto()
    #: Comprehensions are written down as functions that are called with what they go over.
    OWN_COMPREHENSIONS = enum.auto()
    #: Paths did not help: no code is written down with them.
    AS_WRITTEN = enum.auto()
    #: A loop that ends by the value of a tensor is one of the model, instead of as many iterations as in the example.
    LOOPS_BY_VALUES = enum.auto()
    #: A list that `tolist` makes of as many whole numbers as a dynamic size says is one of the model.
    LISTS_OF_NUMBERS = enum.auto()
    #: Such a list has as many numbers as in the example, which is assumed.
    COUNTS_OF_EXAMPLE = enum.auto()
    #: `torch.vmap` over a dynamic axis is a loop over it, and not torch's rule of each operator for one more axis.
    VMAP_AS_LOOP = enum.auto()
    #: Numbers that are read from tensors are those of the example inputs, and become constants, with a warning.
    NUMBERS_OF_EXAMPLE = enum.auto()


Decisions = frozenset[Decision]
#: What is decided where iterations at the ends of a loop cannot be recorded like the others.
ENDS = Decision.FIRST_ITERATIONS, Decision.LAST_ITERATIONS
#: What is decided instead where a recording with a decision fails.
INSTEAD = {Decision.PATHS: Decision.AS_WRITTEN, Decision.LISTS_OF_NUMBERS: Decision.COUNTS_OF_EXAMPLE}
#: What is decided for the sake of dynamic axes.
OF_DYNAMIC_AXES = frozenset(
    {*ENDS, Decision.PATHS, Decision.OWN_COMPREHENSIONS, Decision.AS_WRITTEN, Decision.SELECT_PARTS}
)


class Reconsider(CaptureError):
    """The recording cannot go on as it was begun. The program is recorded again, with one more decision.

    Of several decisions, the first that was not taken yet is taken. If all were, `refusal` is raised: the error for the
    user. `weights` are the ids of the parameters by which the program asks for gradients; a decision is taken again for
    further ones, as one is for further `codes` of functions that are to be followed, with their modules, and for
    further keys of functions, or places in them, that are to be `structured`.
    """

    def __init__(
        self,
        *decisions: Decision,
        refusal: BaseException | None = None,
        weights: Iterable[int] = (),
        codes: Iterable[tuple[str, Any]] = (),
        structured: Iterable[str] = (),
    ) -> None:
        super().__init__(*(refusal.args if refusal is not None else ()))
        self.decisions = decisions
        self.refusal = refusal
        self.weights = frozenset(weights)
        self.codes = [*codes]
        self.structured = frozenset(structured)
