"""torch's symbolic numbers: the nodes behind them, and what torch asks about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import _check as assume
from torch.fx.experimental import sym_node
from torch.fx.experimental.sym_node import SymNode

__all__ = ["QUESTIONS", "SYMBOL_KINDS", "SymNode", "asking_files", "assume", "error_of_unknown_answer", "prefixes_of"]

#: The modules with what torch asks about symbolic numbers, and with the kinds of symbols. They import sympy, in 0.25 s.
QUESTIONS, SYMBOL_KINDS = "torch.fx.experimental.symbolic_shapes", "torch.utils._sympy.symbol"


def asking_files() -> Iterator[str]:
    """The files that lie between the comparison of two symbolic numbers and the code that needs its result."""
    yield torch.__file__
    yield str(sym_node.__file__)
    yield str(Path(str(sym_node.__file__)).with_name("symbolic_shapes.py"))


def error_of_unknown_answer(question: object) -> Exception:
    """torch's error for a question that only values can answer, which it handles itself in some places."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return GuardOnDataDependentSymNode(question, f"Could not guard on data-dependent expression {question}")


def prefixes_of(kinds: Any) -> tuple[str, ...]:
    """How the names of symbols of a kind, or of several, begin."""
    from torch.utils._sympy.symbol import SymT, prefix_str

    return tuple(prefix_str[each] for each in ([kinds] if isinstance(kinds, SymT) else kinds))
