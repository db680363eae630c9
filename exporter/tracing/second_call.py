"""State that a program keeps in Python between calls: `self.step += 1`, `self.seen.append(x)`, `self.last = x`.

A recording is one call, and a model has no state: it computes what the first call does, in every run. Where a program
has changed anything in its objects, a second call is recorded after the first one, which is given other tensors. Where
that computes the same from its arguments, what was kept is no state: a cache of a table, a counter, a result that is
only looked at from outside.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from onnx_parity.exporter.errors import CaptureError, DroppedWriteWarning
from onnx_parity.exporter.program_state.changed_objects import named
from onnx_parity.exporter.program_state.python_state import PythonState
from onnx_parity.exporter.tracing.attempt import FailedThere
from onnx_parity.exporter.tracing.branches_on_sizes import NotRecorded, are_the_same
from onnx_parity.exporter.tracing.traced import Traced

__all__ = ["say_what_is_kept"]

#: The most names in a warning.
_MOST_NAMED = 4


def say_what_is_kept(
    traced: Traced, again: Callable[[], Traced | None], program: object, state: PythonState, *, strict: bool
) -> None:
    """Warn of what the program has kept that a later call computes with, or refuse it. `again` records such a call.

    Where it writes to buffers too, which is said by itself, a later call may differ for that reason.
    """
    if traced.written or traced.returned.written or _is_same_again(traced, again):
        return
    functions = [function for function, _ in (*state.functions, *state.functions_of_libraries)]
    found = named(traced.kept, program, functions)
    names = [name for name, _ in found[:_MOST_NAMED]] + (["others"] if len(found) > _MOST_NAMED else [])
    file, line = next((place for _, place in found if place[0]), ("", 0))
    text = (
        f"the program keeps {', '.join(names) or 'Python objects'} from one call to the next, and its results depend "
        f"on it{f' ({file}:{line})' if file else ''}. An ONNX model keeps no state: every run computes what the next "
        "call of the program would. Make it an argument and a result of the program, or a buffer that is written to "
        "in place, with return_written=True"
    )
    if strict:
        raise CaptureError(text)
    warnings.warn_explicit(text, DroppedWriteWarning, file or "<unknown>", line)


def _is_same_again(traced: Traced, again: Callable[[], Traced | None]) -> bool:
    """Whether a second call computes the same, as far as it can be recorded and compared."""
    if any(not str(each).startswith("s") for each in traced.graph.symbol_sources):
        return True  # Numbers that depend on values have other names in the second call.
    try:
        other = again()
    except (FailedThere, NotRecorded):
        return True
    return other is None or are_the_same(traced, other)
