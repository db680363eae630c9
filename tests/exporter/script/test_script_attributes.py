"""Attributes that a script assigns to: later reads give the new value, and changes are reported at the end."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import onnx_parity

X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(3))
        self.kept = torch.zeros(3)
        self.count = 3
        self.names = [1, 2]

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.kept = self.kept + x[0]
        self.total = self.kept * self.count
        self.names.append(self.count)
        return x * self.kept + self.total + len(self.names)


class Nested(nn.Module):
    """The same part by two calls, once under a condition."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Counts()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.part(x)
        if bool(x.sum() > 0):
            y = self.part(y * 0.5)
        self.part.kept = y[0]
        return y


def test_attributes_are_values_of_the_run_and_the_module_stays_as_it_was() -> None:
    module = torch.jit.script(Counts())
    with pytest.warns(onnx_parity.DroppedWriteWarning, match="writes to count, kept, total, names"):
        exported = onnx_parity.export(module, (X,))
    assert (module.count, module.names, module.kept.tolist()) == (3, [1, 2], [0, 0, 0])
    for x in (X, -X):
        assert torch.allclose(exported(x), copy.deepcopy(module)(x))


def test_attributes_of_a_submodule_are_named_from_the_root() -> None:
    module = torch.jit.script(Nested())
    with pytest.warns(onnx_parity.DroppedWriteWarning, match=r"writes to part\.count, part\.kept, part\.total"):
        exported = onnx_parity.export(module, (X,), dynamic_axes={"x": {0: "rows"}})
    for x in (X, -X, X.abs()[:1]):
        assert torch.allclose(exported(x), copy.deepcopy(module)(x))


def test_what_is_left_in_them_can_be_outputs() -> None:
    module = torch.jit.script(Counts())
    with pytest.warns(onnx_parity.DroppedWriteWarning, match="the program writes to names"):
        exported = onnx_parity.export(module, (X,), return_written=True)
    assert exported.output_names == ("output", "count_written", "kept_written", "total_written")
    exported.verify()
    assert (module.count, module.names, module.kept.tolist()) == (3, [1, 2], [0, 0, 0])


def test_two_calls_of_a_script_share_its_attributes() -> None:
    class Calls(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.script = torch.jit.script(Counts())

        def forward(self, x: Tensor) -> Tensor:
            return self.script(x) + self.script(x * 2)  # type: ignore[no-any-return]

    module = Calls()
    with pytest.warns(onnx_parity.DroppedWriteWarning, match=r"writes to script\.count, script\.kept, script\.total"):
        exported = onnx_parity.export(module, (X,))
    assert torch.allclose(exported(-X), copy.deepcopy(module)(-X))


def test_what_is_the_same_at_the_end_is_not_reported(recwarn: pytest.WarningsRecorder) -> None:
    class PutsBack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 2

        def forward(self, x: Tensor) -> Tensor:
            self.scale = 3
            y = x * self.scale
            self.scale = 2
            return y

    exported = onnx_parity.export(torch.jit.script(PutsBack()), (X,))
    assert not [each for each in recwarn if each.category is onnx_parity.DroppedWriteWarning]
    assert torch.equal(exported(X), X * 3)


def test_a_frozen_script_has_no_mode() -> None:
    frozen = torch.jit.freeze(torch.jit.script(nn.Sequential(nn.Linear(3, 2), nn.Dropout()).eval()))
    program = onnx_parity.export(frozen, X, dynamic_axes={"x": [0]}, input_names=["x"], verify=True)
    assert torch.allclose(program(X[:1]), frozen(X[:1]), atol=1e-6)


@torch.jit.interface
class Scaling(nn.Module):
    def forward(self, input: torch.Tensor) -> torch.Tensor:  # type: ignore[empty-body]
        pass


class Selects(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scalings = nn.ModuleList([nn.ReLU(), nn.ELU()])

    def forward(self, x: torch.Tensor, number: int) -> torch.Tensor:
        scaling: Scaling = self.scalings[number]  # type: ignore[assignment]
        return scaling.forward(x)


class SelectsByValues(Selects):
    def forward(self, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        scaling: Scaling = self.scalings[int(number)]  # type: ignore[assignment]
        return scaling.forward(x)


@pytest.mark.parametrize(
    ("program", "number", "message"),
    [
        (Selects, 2, "the script selects the module 2 of a list or a dict that does not have it"),
        (
            SelectsByValues,
            torch.tensor(1),
            "the script selects a module of a list or a dict by a value that is not known at export: select it by a "
            "number or a name that is, or call each of them in a branch of its own",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_modules_that_cannot_be_selected(program: type[nn.Module], number: object, message: str) -> None:
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(torch.jit.script(program()), (torch.ones(2), number))
    assert str(caught.value).partition(" (at ")[0] == message
