"""What is known of a defect that a user reported and a maintainer fixed, and the reporter's program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

import numpy as np

__all__ = ["Defect", "defect", "read_defects"]

#: The files of programs, by whose defects they show.
_FILES = ("onnx_reference", "onnxruntime_operators", "torch_dynamo")
_FOUND: list[Defect] = []


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect, and a program that shows it: what it returns differs from what is expected, or it raises an error."""

    name: str
    #: What pip installs, a release with the defect, and the next one without: by default the one that is installed.
    distribution: str
    broken: str
    mended: str | None
    #: Who is to blame, as the harness names runtimes and exporters, and what of it: an operator of ONNX for a runtime,
    #: the function or operator of PyTorch for an exporter.
    culprit: str
    operator: str
    report: str
    #: The files and the names of declarations, which were there before, whose cells may notice it.
    places: tuple[str, ...]
    names: tuple[str, ...]
    program: Callable[[], tuple[object, object]]

    @property
    def says(self) -> str:
        return (self.program.__doc__ or "").strip()

    def shows(self) -> str:
        """What goes wrong with the release that is installed, or nothing."""
        try:
            got, expected = self.program()
        except Exception as error:  # noqa: BLE001  Releases with a defect raise anything.
            return f"{type(error).__name__}: {error}"
        return _difference(got, expected)


def defect(
    distribution: str, broken: str, operator: str, report: str, *, culprit: str, mended: str | None = None,
    places: str = "", names: str = "",
) -> Callable[[Callable[[], tuple[object, object]]], Callable[[], tuple[object, object]]]:  # fmt: skip
    """Declare a defect by its reporter's program, which returns what it got and what is right."""

    def declare(program: Callable[[], tuple[object, object]]) -> Callable[[], tuple[object, object]]:
        where, which = tuple(places.split()), tuple(names.split())
        _FOUND.append(
            Defect(program.__name__, distribution, broken, mended, culprit, operator, report, where, which, program)
        )
        return program

    return declare


def read_defects() -> Sequence[Defect]:
    for name in _FILES:
        import_module(f"{__package__}.{name}")
    return tuple(_FOUND)


def _difference(got: object, expected: object) -> str:
    for one, right in zip(_arrays(got), _arrays(expected), strict=True):
        if one.shape != right.shape or one.dtype != right.dtype:
            return f"{one.dtype}{list(one.shape)}, expected {right.dtype}{list(right.shape)}"
        if right.dtype.kind in "fc":
            same = np.allclose(one, right, 1e-4, 1e-5, equal_nan=True)
        else:
            same = np.array_equal(one, right)
        if not same:
            return f"{one.tolist()}, expected {right.tolist()}"
    return ""


def _arrays(values: object) -> list[np.ndarray]:
    return [np.asarray(each) for each in (values if isinstance(values, list | tuple) else [values])]
