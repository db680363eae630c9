"""Programs and libraries that ask whether they are exported, and programs that decide by the values of an input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import onnx_parity
from tests.exporter.subjects import installed
from tests.fresh import run_after_torch

X = torch.randn(2, 3)
_is_tracing = vars(torch.jit)["is_tracing"]

#: The ways of transformers, timm, torchvision and torchaudio.
_LIBRARY = """
import torch

def ways():
    return {
        "exporting": torch.compiler.is_exporting(),
        "compiling": torch.compiler.is_compiling(),
        "tracing": torch.jit.is_tracing(),
        "onnx": torch.onnx.is_in_onnx_export(),
        "scripting": torch.jit.is_scripting(),
    }

def half(x):
    return int(torch.ceil(x.shape[0] / 2) * 1 if torch.jit.is_tracing() else x.shape[0] - x.shape[0] // 2)
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module that is installed beside torch."""
    import torch.onnx  # noqa: F401

    with installed("library_that_asks", {"__init__": _LIBRARY}, tmp_path, monkeypatch) as package:
        yield package


def test_a_library_that_is_traced_rounds_sizes_as_tensors(library: ModuleType) -> None:
    x = torch.randn(5, 3)
    exported = onnx_parity.export(lambda x: x[: library.half(x)], (x,))
    torch.testing.assert_close(exported(x), x[:3])


def test_what_a_library_is_told(library: ModuleType) -> None:
    seen = []

    def program(x: torch.Tensor) -> torch.Tensor:
        seen.append((library.ways(), _is_tracing(), torch.compiler.is_exporting()))
        return x + 1

    onnx_parity.export(program, (X,))
    told, user_traces, user_exports = seen[0]
    assert told == {"exporting": True, "compiling": True, "tracing": True, "onnx": True, "scripting": False}
    # A user's own path for a tracer is not taken: there, sizes are tensors.
    assert not user_traces and user_exports
    assert set(library.ways().values()) == {False}
    assert not torch.compiler.is_exporting() and not _is_tracing()


@pytest.mark.slow
def test_a_program_that_imports_torch_onnx_while_it_is_first_exported() -> None:
    code = """
import importlib, sys, torch, onnx_parity
seen = []
def program(x):
    seen.append(importlib.import_module("torch.onnx").is_in_onnx_export())
    return x + 1
assert "torch.onnx" not in sys.modules
onnx_parity.export(program, (torch.ones(2),))
onnx_parity.export(program, (torch.ones(2),))
print(seen, torch.onnx.is_in_onnx_export(), torch.onnx.__spec__.loader.__class__.__name__)
"""
    printed = run_after_torch(code).stdout
    assert printed == "[True, True] False SourceFileLoader\n"


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if mask.all():
            return x * 2
        return x * mask


class Counted(torch.nn.Module):
    """Its two sides have other dtypes, so that no branch of a model joins them."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if mask.all():
            return x * 2
        return mask.sum(0)


def test_an_input_that_only_decides_is_refused() -> None:
    with pytest.raises(onnx_parity.FrozenValueError) as caught:
        onnx_parity.export(Counted(), (X, torch.ones(2, 3, dtype=torch.bool)))
    line = Counted.forward.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        "the program looks at the values of 1 input to decide what to do, and the results depend on it in no other "
        "way. The exported model would do what was decided for the example, whatever is given there:\n"
        f"  - 'mask' at {__file__}:{line}\n"
        "Decide with tensors instead (torch.where, torch.cond), or script the function that decides; if the example's "
        "decision is the right one for all that the model will be given, export with allow_ignored_inputs=True."
    )


@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_an_input_that_only_decides_is_exported_if_asked_for() -> None:
    mask = torch.ones(2, 3, dtype=torch.int64)
    program = onnx_parity.export(Counted(), (X, mask), allow_ignored_inputs=True)
    assert program.input_names == ("x", "mask")
    torch.testing.assert_close(program(X, mask), X * 2)
    with pytest.raises(onnx_parity.VerificationError, match="other values in an input that the program decides by"):
        program.verify()
    capture = onnx_parity.capture_program(Counted(), (X, mask), allow_ignored_inputs=True)
    assert len(capture.graph.inputs) == 2


@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_verification_reaches_a_decision_about_an_input_that_is_used() -> None:
    def program(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return x + lengths if bool((lengths > 0).all()) else x > 0

    with pytest.raises(onnx_parity.VerificationError, match="other values in an input that the program decides by"):
        onnx_parity.export(program, (X, torch.tensor([3, 2, 2])), verify=True)


@pytest.mark.filterwarnings("error::onnx_parity.TracerWarning")
def test_an_input_that_decides_is_one_of_the_model_where_it_has_both_sides() -> None:
    program = onnx_parity.export(Masked(), (X, torch.ones(2, 3, dtype=torch.bool)), verify=True, strict=True)
    for mask in (torch.ones(2, 3, dtype=torch.bool), X > 0):
        torch.testing.assert_close(program(X, mask), Masked()(X, mask))


def test_inputs_that_are_never_looked_at_stay() -> None:
    program = onnx_parity.export(lambda x, unused: x + 1, (X, X))
    assert program.input_names == ("x", "unused")


@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_an_input_whose_sizes_alone_are_read_is_not_looked_at() -> None:
    def program(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return x + like.shape[0] if int(torch.tensor(like.shape[0]).item()) > 1 else x

    assert onnx_parity.export(program, (X, X), dynamic_axes={"like": {0: "n"}}).input_names == ("x", "like")
