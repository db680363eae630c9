"""A witness of a change to torch: a program that is exported right with the change, and not without it.

A change that torch no longer needs makes no difference, and then the test that uses this fails: the change is deleted.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pytest
import torch
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import onnx_parity

__all__ = ["RIGHT", "Witness", "check", "exporting"]

#: What becomes of a program that is exported as it should be.
RIGHT = "right"


class Witness(NamedTuple):
    """What becomes of a program with a change to torch, and without it."""

    #: Tells what becomes of the program: `RIGHT`, or what is wrong.
    outcome: Callable[[], str]
    #: What is wrong without the change, as a regular expression.
    without: str
    #: What becomes of the program with the change, if it is to be refused.
    with_change: str = RIGHT
    #: The versions of torch that need the change. On the others that are supported, it has to make no difference.
    needed_on: str = ">=2.11"


def exporting(
    program: Callable[..., Any],
    *args: Any,
    others: Sequence[tuple[Any, ...]] = (),
    expected: Callable[..., Any] | None = None,
    may_compile: bool = True,
    **options: Any,
) -> Callable[[], str]:
    """Exports a program for its arguments, and compares what the model and the program return, for others too.

    `expected` is compared instead of a program that does something else while it is exported.
    """

    def outcome() -> str:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            try:
                with pytest.MonkeyPatch.context() as monkeypatch:
                    if not may_compile:
                        monkeypatch.setattr(torch, "compile", _refuse_to_compile)
                    model = onnx_parity.export(program, args, **options)
                found = [model(*each) for each in (args, *others)]
            except Exception as error:  # noqa: BLE001 (whatever it is, the test compares it with what is expected)
                return f"{type(error).__name__}: {error}"
            for each, result in zip((args, *others), found, strict=True):
                torch.manual_seed(0)
                try:
                    torch.testing.assert_close(result, (expected or program)(*each), check_stride=False)
                except (AssertionError, TypeError) as error:
                    return f"another result: {error}"
        return RIGHT

    return outcome


def _refuse_to_compile(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("torch's compiler is started")


def _end_transforms() -> None:
    """End what torch leaves behind where it fails: transforms in which nothing can be recorded."""
    while torch._C._functorch.peek_interpreter_stack() is not None:
        torch._C._functorch.pop_dynamic_layer_stack()


def check(witness: Witness, without_change: Callable[[], AbstractContextManager[None]]) -> None:
    """Check that a change makes the difference that its witness says, on the installed version of torch."""
    is_needed = Version(torch.__version__).base_version in SpecifierSet(witness.needed_on)
    with without_change():
        without = witness.outcome()
    _end_transforms()
    outcome = witness.outcome()
    assert re.search(witness.with_change, outcome), f"with the change: {outcome}"
    if re.search(witness.with_change, without):
        if is_needed:
            pytest.fail(f"torch {torch.__version__} does without this change: it is no longer needed, delete it")
        return
    assert is_needed, f"torch {torch.__version__} needs this change, which is said to be needed on {witness.needed_on}"
    assert re.search(witness.without, without), f"without the change: {without}"
