"""Compares the outputs of a runtime with torch's. `repro.py` of a bundle contains this file, so it needs only numpy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def report(outputs: Iterable[Any], expected: Sequence[tuple[Any, ...]], floor: float | None) -> int:
    """Print what is wrong with the outputs. The exit code: 0 if nothing is, else 1."""
    # torch's results are a flat list: a sequence contributes its items, and an empty optional nothing.
    every = [item for output in outputs for item in (output if isinstance(output, list) else [output])]
    got = [item for item in every if item is not None]
    faults = [f"{len(got)} outputs instead of {len(expected)}"] if len(got) != len(expected) else []
    for number, (array, (right, *allowed)) in enumerate(zip(got, expected, strict=False)):
        if floor is not None and array.dtype.kind == right.dtype.kind == "f":
            fault = compare_signal(array, right, floor)
        else:
            fault = compare(array, right, *allowed)
        if fault:
            faults.append(f"output {number} {fault}")
    print("\n".join(faults) or "It holds.")
    return 1 if faults else 0


def compare(got: Any, right: Any, centre: Any, tolerance: Any, zeros: Any) -> str:
    """Describe what is wrong with an output. Floats have a tolerance for each element; other dtypes must be equal."""
    if not isinstance(got, np.ndarray):
        return f"is a {type(got).__name__} instead of a tensor"
    if (got.dtype, got.shape) != (right.dtype, right.shape):
        return f"is {got.dtype} of shape {got.shape} instead of {right.dtype} of shape {right.shape}"
    if centre is None or tolerance is None:
        wrong = np.asarray(got != right)
    else:
        with np.errstate(all="ignore"):
            wide, exact = got.astype(np.float64), right.astype(np.float64)
            same = (wide == exact) | (np.isnan(wide) & np.isnan(exact))
            near = np.isfinite(wide) & np.isfinite(exact) & (np.abs(wide - centre) <= tolerance)
            wrong = ~(same | near)
            if zeros is not None:
                wrong |= zeros & (wide == 0) & (np.signbit(wide) != np.signbit(exact))
    if not wrong.any():
        return ""
    place = np.unravel_index(int(wrong.ravel().argmax()), wrong.shape)
    at = tuple(int(each) for each in place)
    return f"at {at}: {got[place]} instead of {right[place]}; {int(wrong.sum())} of {wrong.size} elements"


def compare_signal(got: Any, right: Any, floor: float) -> str:
    """Describe what is wrong with an output of a model in fewer bits: the ratio of signal to noise, in dB."""
    if (got.dtype, got.shape) != (right.dtype, right.shape):
        return f"is {got.dtype} of shape {got.shape} instead of {right.dtype} of shape {right.shape}"
    wide, exact = got.astype(np.float64), right.astype(np.float64)
    if not np.array_equal(np.isfinite(wide), np.isfinite(exact)):
        return "differs in the positions of NaN and infinities"
    finite = np.isfinite(exact)
    signal, noise = np.square(exact[finite]).sum(), np.square(wide[finite] - exact[finite]).sum()
    ratio = 10.0 * np.log10(signal / noise) if noise and signal else -np.inf if noise else np.inf
    return "" if ratio >= floor else f"has {ratio:.1f} dB of signal to noise, and the floor is {floor:g} dB"
