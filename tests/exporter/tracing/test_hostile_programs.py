"""Programs, arguments and names that cannot be exported are refused with an error of the package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity

X = torch.ones(2, 3)


def test_a_program_that_ends_the_process() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        sys.exit(0)

    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(program, (X,))
    line = program.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"the program ended the process at {__file__}:{line} while it was recorded: SystemExit: 0. "
        "Raise another error instead, or return"
    )


@pytest.mark.parametrize("inner", [X, None])
def test_an_export_inside_an_export(inner: torch.Tensor | None) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        onnx_parity.export(nn.ReLU(), (x if inner is None else inner,))
        return x + 1

    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(program, (X,))
    assert str(caught.value) == (
        "the recorded program calls an export or a capture itself, which is not possible: export that program before "
        "or after this one, and not while it is recorded"
    )
    onnx_parity.export(nn.ReLU(), (X,))


def nested_modules(depth: int) -> nn.Module:
    module: nn.Module = nn.ReLU()
    for _ in range(depth):
        module = nn.Sequential(module)
    return module


def nested_lists(inner: Any, depth: int = 2000) -> Any:
    for _ in range(depth):
        inner = [inner]
    return inner


def without_end(x: torch.Tensor) -> torch.Tensor:
    return without_end(x)


TOO_DEEP = (
    "Python allows 1,000 calls within each other. Nest them less deeply, or allow more with sys.setrecursionlimit"
)


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (nested_modules(2000), X),
        (nested_modules(600), X),
        (lambda x: x[0], (nested_lists(X),)),
        (lambda x: nested_lists(x + 1), X),
        (without_end, X),
    ],
)
def test_what_is_nested_too_deeply(program: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "getrecursionlimit", lambda: 1000)
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(program, arguments)
    text = str(caught.value)
    assert text.startswith("the program, its arguments or its modules are nested too deeply")
    assert text.endswith(f": {TOO_DEEP}") and "\n" not in text


@pytest.mark.parametrize("option", ["input_names", "output_names", "dynamic_axes", "dynamic_shapes"])
def test_names_that_are_no_unicode(option: str) -> None:
    name = "\ud800"
    axes = {"input": {0: name}}
    value: Any = axes if option.startswith("dynamic") else [name]
    with pytest.raises(onnx_parity.errors.ArgumentError) as caught:
        onnx_parity.export(nn.ReLU(), (X,), **{option: value})
    assert str(caught.value) == (
        f"{option} contains '\\ud800', which is not valid Unicode: ONNX stores names as UTF-8. Give another name"
    )


def test_paths_that_are_no_unicode(tmp_path: Path) -> None:
    onnx_parity.export(nn.ReLU(), (X,), tmp_path / "a\udcff.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["a\udcff.onnx"]
    for name, message in (
        ("no\udcff/a.onnx", f"{tmp_path}/no\\udcff is not an existing folder. Create it first."),
        ("\ud800.onnx", "surrogates not allowed. Give another path."),
    ):
        with pytest.raises(onnx_parity.WriteError) as caught:
            onnx_parity.export(nn.ReLU(), (X,), tmp_path / name)
        assert str(caught.value).encode() and message in str(caught.value)
