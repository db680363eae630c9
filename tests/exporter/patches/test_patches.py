"""The patches of torch while programs are recorded, on functions that are made for the test."""

from __future__ import annotations

import inspect
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from onnx_parity.exporter.errors import OnnxExporterWarning
from onnx_parity.exporter.torch_inside.patch import (
    Attribute,
    FunctionAttribute,
    FunctionCode,
    Patch,
    Patches,
    of_module,
)
from onnx_parity.exporter.torch_inside.this_thread import recording


def twice(x: int, *, times: int = 2) -> int:
    """What a library does."""
    return x * times


def negative(torchs: Callable[..., int], *args: Any, **kwargs: Any) -> int:
    return -torchs(*args, **kwargs)


def compiled(x: torch.Tensor) -> torch.Tensor:
    return x + 1


class Grows:
    def start(self) -> str:
        return "base"


class Grown(Grows):
    def start(self) -> str:
        return super().start() + ", grown"


@contextmanager
def records() -> Iterator[None]:
    recorder: Any = object()
    with recording(recorder):
        yield


def test_a_function_is_ours_where_this_thread_records() -> None:
    code, attributes = twice.__code__, dict(vars(twice))
    kept = twice
    with Patches(FunctionCode(of_module(__name__), "twice", negative)).in_place():
        assert (kept(3), kept(3, times=5)) == (6, 15)
        assert inspect.getsource(kept).startswith("def twice(x: int, *, times: int = 2)")
        assert str(inspect.signature(kept)) == "(x: 'int', *, times: 'int' = 2) -> 'int'"
        with records():
            assert (kept(3), kept(3, times=5)) == (-6, -15)
    assert twice.__code__ is code and vars(twice) == attributes


def test_torchscript_compiles_torch_s_own() -> None:
    with Patches(FunctionCode(of_module(__name__), "compiled", lambda torchs, x: x - 1)).in_place():
        assert torch.jit.script(compiled)(torch.ones(1)) == 2
        with records():
            assert compiled(torch.ones(1)) == 0


def test_a_function_that_calls_super() -> None:
    with Patches(FunctionCode(Grown, "start", lambda torchs, self: torchs(self).upper())).in_place():
        assert Grown().start() == "base, grown"
        with records():
            assert Grown().start() == "BASE, GROWN"
    assert Grown().start() == "base, grown"


def test_the_last_one_takes_it_out() -> None:
    patches = Patches(FunctionCode(of_module(__name__), "twice", negative))
    first, second = patches.in_place(), patches.in_place()
    code = twice.__code__
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with records():
        assert twice(1) == -2
    second.__exit__(None, None, None)
    assert twice.__code__ is code


def test_attributes_own_inherited_and_builtin() -> None:
    library = types.ModuleType("library")
    library.count = twice  # type: ignore[attr-defined]
    patches = Patches(
        FunctionAttribute(library, "count", negative),
        FunctionAttribute(library, "len", negative),
        FunctionAttribute(Grown, "__repr__", lambda torchs, self: "ours"),
    )
    before = dict(vars(library)), dict(vars(Grown))
    with patches.in_place():
        assert (library.count(3), library.len("abc")) == (6, 3)
        assert repr(Grown()) != "ours"
        with records():
            assert (library.count(3), library.len("abc"), repr(Grown())) == (-6, -3, "ours")
    assert (dict(vars(library)), dict(vars(Grown))) == before


def test_a_library_that_is_imported_later(monkeypatch: pytest.MonkeyPatch) -> None:
    patches = Patches(Attribute(of_module("imported_later"), "answer", lambda torchs: 43))
    with patches.in_place():
        library = types.ModuleType("imported_later")
        library.answer = 42  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "imported_later", library)
        with patches.in_place():
            assert library.answer == 43
        assert library.answer == 43
    assert library.answer == 42


def test_what_somebody_else_has_put_in_stays() -> None:
    library = types.ModuleType("library")
    library.count = twice  # type: ignore[attr-defined]
    patches = Patches(FunctionAttribute(library, "count", negative))
    with patches.in_place():
        ours = library.count

        def others(x: int) -> int:
            below: int = ours(x)
            return below + 1

        library.count = others  # type: ignore[attr-defined]
    assert library.count is others and library.count(3) == 7
    with patches.in_place(), records():
        assert library.count(3) == 5  # Ours twice, above theirs and below.
    assert library.count is others and library.count(3) == 7


def test_one_that_fails_leaves_the_others_as_they_were() -> None:
    class Fails(Patch):
        target = ""

        def put_in(self) -> bool:
            raise ValueError("no good")

        def take_out(self) -> None:
            raise AssertionError

    code = twice.__code__
    with (
        pytest.raises(ValueError, match="no good"),
        Patches(FunctionCode(of_module(__name__), "twice", negative), Fails()).in_place(),
    ):
        pass
    assert twice.__code__ is code


def test_users_are_warned_once_of_a_function_that_the_library_no_longer_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Grown, "begin", Grown.start, raising=False)
    patches = Patches(
        FunctionCode(Grown, "gone", negative),
        FunctionAttribute(Grown, "away", negative),
        FunctionCode(Grown, "newer", negative, may_be_absent=True),
        FunctionCode(of_module("a library that is not imported"), "gone", negative),
        FunctionAttribute(Grown, "begin", negative),
    )
    with pytest.warns(OnnxExporterWarning) as warned, patches.in_place():
        assert not hasattr(Grown, "away")
    names = [f"{__name__}.Grown.{name}" for name in ("gone", "away")]
    assert [str(each.message).partition(",")[0].rpartition(" ")[2] for each in warned] == names
    assert [*patches.missing()] == names
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with patches.in_place():
            pass
