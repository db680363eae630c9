"""Every error that an export can raise. Each message says what was asked, what was found, where, and what to do."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ArgumentError",
    "AssumptionError",
    "CaptureError",
    "DroppedWriteWarning",
    "DynamicAxisError",
    "ExportError",
    "FrozenValueError",
    "LoweringError",
    "OnnxExporterError",
    "OnnxExporterWarning",
    "OpsetError",
    "ProgramFailedError",
    "Refusal",
    "SymbolicValueError",
    "Unsupported",
    "UnsupportedOperatorError",
    "UnsupportedOperatorsError",
    "VerificationError",
    "WriteError",
]


class ExportError(Exception):
    """Base of all errors raised by this package."""

    def __str__(self) -> str:
        """The message in printable Unicode. (Names of files may contain bytes that are not Unicode.)"""
        return super().__str__().encode(errors="backslashreplace").decode()


class OnnxExporterWarning(UserWarning):
    """Base of all warnings given by this package."""


class DroppedWriteWarning(OnnxExporterWarning):
    """The program writes to its buffers, inputs or other objects, and the model does not keep the new values."""


class OpsetError(ExportError, ValueError):
    """The requested opset is not one that this exporter writes."""


class ArgumentError(ExportError, ValueError):
    """An argument of `export` does not fit the program: a name, an axis, a type."""


class AssumptionError(ExportError, ValueError):
    """An exported program was called with arguments for which its model does not compute what the program does."""


class CaptureError(ExportError):
    """The program could not be captured: it failed, or it did something that a recording cannot represent."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        made: list[CaptureError] | None = getattr(_here, "made", None)
        if made is not None:
            made.append(self)


#: The errors that a recording of this thread has made, which the program may have caught.
_here = threading.local()


@contextmanager
def capture_errors_made() -> Iterator[list[CaptureError]]:
    """Within, the errors of this class that are made in this thread are in a list."""
    outside = getattr(_here, "made", None)
    _here.made = []
    try:
        yield _here.made
    finally:
        _here.made = outside


class ProgramFailedError(CaptureError):
    """The program raised an error, of its own or of torch's, while it was recorded. The message repeats it."""


class DynamicAxisError(CaptureError):
    """An axis was requested to be dynamic and the program fixes its size."""


class FrozenValueError(CaptureError):
    """The program read a tensor's value, so its recording is only valid for the example inputs.

    Raised with `strict=True`, and without it for an input that has no effect on the outputs but on such a decision.
    """


class LoweringError(ExportError):
    """A lowering failed, or its result does not match the operator's. The lowering is wrong, not the program."""


class WriteError(ExportError, OSError):
    """The file could not be written. Nothing is left behind at the destination."""


class VerificationError(ExportError, AssertionError):
    """The exported model is not valid, or its results differ from the program's."""

    #: The inputs for which they differ, if there are any, and the results that were expected.
    trial: Any = None
    expected: Sequence[Any] = ()
    #: Whether the model assumes what does not hold for these inputs, and what was not stated.
    is_assumed_otherwise = False


class Unsupported(Exception):
    """Raised by a lowering for a call that ONNX cannot express. `since` is the first opset that can, if any."""

    def __init__(self, reason: str, since: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.since = since


def line_and_module(where: str, module: str) -> str:
    """A place in the user's program, as far as it is known, in the form `model.py:12 in features.0`."""
    return " in ".join(part for part in (where, module) if part)


def on_its_own_line(where: str, module: str) -> str:
    """The same place as a line below an error's text; an empty string if it is unknown."""
    place = line_and_module(where, module)
    return f"\n      at {place}" if place else ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One operator that could not be lowered."""

    operator: str
    reason: str
    #: The user's source line, `model.py:12`, and the module path, `features.0`; empty when unknown.
    where: str
    module: str
    since: int | None = None

    def __str__(self) -> str:
        since = f" (possible from opset {self.since})" if self.since else ""
        return f"{self.operator}: {self.reason}{since}{on_its_own_line(self.where, self.module)}"


class UnsupportedOperatorsError(ExportError):
    """All operators of a program that cannot be exported at an opset, listed at once."""

    def __init__(self, opset: int, refusals: Sequence[Refusal]) -> None:
        self.opset = opset
        self.refusals = tuple(refusals)
        distinct = dict.fromkeys(str(refusal) for refusal in refusals)
        lines = "\n".join(f"  - {text}" for text in distinct)
        count = f"{len(distinct)} operator{'s' if len(distinct) > 1 else ''}"
        super().__init__(f"{count} cannot be exported to opset {opset}:\n{lines}\n{self._advice()}")

    def _advice(self) -> str:
        versions = [refusal.since for refusal in self.refusals]
        if all(versions):
            return f"Export with opset_version={max(v for v in versions if v)} or later."
        return "Register a lowering with @onnx_parity.lowering('namespace::name'), or rewrite those lines."


# The names of these classes in `torch.onnx`, for scripts that catch them.
OnnxExporterError = ExportError
UnsupportedOperatorError = UnsupportedOperatorsError
SymbolicValueError = LoweringError
