"""The code of a program that is exchanged while it is recorded: functions that are written down otherwise, and calls of
Python's functions with dynamic sizes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from onnx_parity.exporter.graph.decisions import Decision
from onnx_parity.exporter.program_state.python_state import PythonState
from onnx_parity.exporter.tracing.to_record import Attempt

__all__ = ["calls_with_sizes", "structured_code"]


def structured_code(attempt: Attempt, functions: Sequence[Any]) -> AbstractContextManager[None]:
    """A context in which those of the functions that an attempt asks for are written down otherwise."""
    if not attempt.structured:
        return nullcontext()
    from onnx_parity.exporter.recording.python_loops.on_paths import Leaving, Paths
    from onnx_parity.exporter.recording.python_loops.python_loop import comprehended
    from onnx_parity.exporter.torch_inside.loops.structured_code import of_comprehensions, structuring

    keys = of_comprehensions(attempt.structured) if attempt.has(Decision.AS_WRITTEN) else attempt.structured
    return structuring(functions, keys, Paths, Leaving, comprehended)


def calls_with_sizes(attempt: Attempt, reached: PythonState) -> AbstractContextManager[None]:
    """A context in which the functions that a program reaches call ours in the place of Python's."""
    has_symbols = attempt.has(Decision.SYMBOLS)
    if not has_symbols and not _asks_what_is_a_copy([names for _, names in reached.functions]):
        return nullcontext()
    from onnx_parity.exporter.sizes.python_functions import CALLS_WITH_SIZES as CALLS

    if not has_symbols:
        return CALLS.comparing(reached.functions)
    only_errors = attempt.has(Decision.PLAIN_NUMBERS)
    return CALLS.within(reached.functions, reached.functions_of_libraries, only_errors=only_errors)


def _asks_what_is_a_copy(names: Sequence[Collection[str]]) -> bool:
    """Whether a program compares with `is`, and makes copies that may be none."""
    return any("is" in each for each in names) and any("contiguous" in each or "to" in each for each in names)
