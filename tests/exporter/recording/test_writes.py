"""Programs that write in place: to their own results, to their inputs and buffers, to other tensors of theirs."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

import onnx_parity
from tests.exporter.subjects import Counter, assert_agrees

X = torch.linspace(-2, 2, 12).reshape(3, 4)
TABLE = torch.arange(12.0).reshape(3, 4)


def column(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, 0] = x[:, 1]
    return x


def slices(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    x[1:, 2].add_(1)
    x[0].relu_()
    return x


def chained_views(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x = x + 0
    view = x.view(2, 6).t()[1:3]
    view.copy_(torch.ones(2, 2))
    view.mul_(3)
    return x, view


def made_inside(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(3, 4)
    out[1:] = x[1:]
    return out


def copy_of_its_own(x: torch.Tensor) -> torch.Tensor:
    out = TABLE.clone()
    out[0] = x[0]
    return out


def made_like_its_own(x: torch.Tensor) -> torch.Tensor:
    out = TABLE.new_zeros(3, 4)
    out.add_(TABLE * 2)
    out[:, 1].add_(x[:, 0])
    return out


def detached(x: torch.Tensor) -> torch.Tensor:
    return x + TABLE.detach() + TABLE.data


@pytest.mark.parametrize(
    "program", [column, slices, chained_views, made_inside, copy_of_its_own, made_like_its_own, detached]
)
def test_writes_come_out_right(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exported = onnx_parity.export(program, (X,), dynamic_axes={"x": {1: "n"}} if program is slices else None)
    assert_agrees(exported, program, X)
    assert_agrees(exported, program, -X)


def at_place(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[i] = 7.0
    return x


def added_at_place(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, i] += 1
    return x


def up_to_place(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[i : i + 1] = 7.0
    x[:, i - 1 : i + 1] = 5.0
    return x


@pytest.mark.parametrize("opset", [9, 10, 13, 18])
@pytest.mark.parametrize("program", [at_place, added_at_place, up_to_place])
def test_writes_at_places_that_the_example_does_not_name(program: Callable[..., torch.Tensor], opset: int) -> None:
    exported = onnx_parity.export(program, (X, torch.tensor(1)), opset_version=opset)
    for place in range(-len(X), len(X)):
        torch.testing.assert_close(exported(X, torch.tensor(place)), program(X, torch.tensor(place)), rtol=0, atol=0)


def test_written_input_is_warned_about_and_unchanged() -> None:
    def doubles(x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2) + 1

    x = X.clone()
    with pytest.warns(onnx_parity.DroppedWriteWarning) as caught:
        program = onnx_parity.export(doubles, (x,))
    assert str(caught[0].message) == (
        "the program writes to x. An ONNX model keeps no state from one run to the next: the new values are left out. "
        "If they matter, return them from the program, or give return_written=True"
    )
    assert caught[0].filename == __file__
    torch.testing.assert_close(x, X)
    torch.testing.assert_close(program(X), X * 2 + 1)


def test_written_buffer_is_warned_about_and_unchanged() -> None:
    model = Counter()
    with pytest.warns(onnx_parity.DroppedWriteWarning, match="the program writes to count"):
        program = onnx_parity.export(model, (X,))
    assert model.count.item() == 0
    torch.testing.assert_close(program(X), X + 1)


class Assigns(nn.Module):
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.total = torch.zeros(4)
        self.seen: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean = self.mean + x.mean(0)
        self.total = self.total + 1
        seen = x * 2
        self.seen = seen
        return seen + self.mean + self.total


def test_assigned_attributes_are_put_back() -> None:
    model = Assigns()
    with pytest.warns(onnx_parity.DroppedWriteWarning, match="the program writes to mean, total") as caught:
        program = onnx_parity.export(model, (X,))
    assert "seen" not in str(caught[0].message)
    assert model.seen is None and torch.equal(model.total, torch.zeros(4)) and torch.equal(model.mean, torch.zeros(4))
    torch.testing.assert_close(program(X), X * 2 + X.mean(0) + 1)


def test_writes_to_what_is_not_the_programs_are_refused() -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        TABLE[0] = 7
        return x + TABLE

    before = TABLE.clone()
    advice = (
        "neither created in it nor an input or buffer. Register that tensor with register_buffer, or write to "
        "a copy of it."
    )
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(writes, (X,))
    line = inspect.getsourcelines(writes)[1] + 1
    assert str(caught.value) in (
        f"the program writes in place at {__file__}:{line} to a tensor that is {advice}",
        f"the program writes in place at {__file__}:{line + 1} to a tensor that is {advice}",
    )
    assert torch.equal(TABLE, before)


class WritesWeights(nn.Module):
    """Writes to weights as layers with constraints on them do, and reads them before, afterwards and by views."""

    means: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.codes = nn.Embedding(5, 4)
        self.register_buffer("means", torch.rand(5, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before, rows = self.first(x), self.first.weight[:2]
        self.first.weight.data.mul_(0.5)
        with torch.no_grad():
            self.first.weight.clamp_(-0.1, 0.1)
            self.second.weight[0] = x.mean(0)
            for weight, other in zip(self.second.parameters(), self.first.parameters(), strict=True):
                weight.lerp_(other, 0.25)
        self.codes.weight.data.copy_(self.means / 2)
        self.codes.weight.detach().add_(x.sum())
        return before, x @ rows.T, self.second(self.first(x)), self.codes(torch.arange(2)), self.second.weight


@pytest.mark.parametrize("dynamic_shapes", [None, ({0: "batch"},)])
def test_weights_are_written_to(dynamic_shapes: tuple[dict[int, str]] | None) -> None:
    torch.manual_seed(0)
    model = WritesWeights()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    names = "first.weight, second.weight, second.bias, codes.weight"
    with pytest.warns(onnx_parity.DroppedWriteWarning, match=f"the program writes to {names}"):
        program = onnx_parity.export(model, (X,), dynamic_shapes=dynamic_shapes)
    for x in (X, torch.rand(1, 4), torch.rand(0, 4), torch.rand(7, 4)) if dynamic_shapes else (X,):
        for name, tensor in model.state_dict().items():
            torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
        torch.testing.assert_close(program(x), tuple(each.clone() for each in model(x)), equal_nan=True)
        with torch.no_grad():
            model.load_state_dict(before)


class Doubles(nn.Module):
    held: torch.Tensor

    def __init__(self, buffer: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("held", buffer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.held.mul_(2)
        return x + self.held.sum()


def test_a_buffer_of_several_modules_is_one() -> None:
    model = nn.Sequential(*map(Doubles, [torch.ones(4)] * 2))
    with pytest.warns(onnx_parity.DroppedWriteWarning, match=r"0\.held, 1\.held"):
        program = onnx_parity.export(model, (X,))
    torch.testing.assert_close(program(X), X + 8 + 16)


def test_written_attributes_are_returned() -> None:
    class Returns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.total, self.weight = torch.ones(3), nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            self.total.mul_(2)
            self.weight.data.add_(x.sum())
            return x + 1, self.total, self.weight

    with pytest.warns(onnx_parity.DroppedWriteWarning, match="total, weight"):
        program = onnx_parity.export(Returns(), (X + 1,))
    torch.testing.assert_close(program(X + 1), (X + 2, torch.full([3], 2.0), torch.full([2], 13.0)))


class Shares(nn.Module):
    """Has tensors in one memory, and writes to one of these."""

    def __init__(self, written: str, read: str) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.other = nn.Linear(4, 4)
        self.other.weight.data = self.layer.weight.data
        self.register_buffer("rows", self.layer.weight.detach()[:3])
        self.register_buffer("row", self.layer.weight.detach()[3])
        self.written, self.read = written, read

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.get_parameter_or_buffer(self.written).data.mul_(2)
        return x + self.get_parameter_or_buffer(self.read).sum()

    def get_parameter_or_buffer(self, name: str) -> torch.Tensor:
        return dict(self.named_buffers()).get(name, self.layer.weight if "layer" in name else self.other.weight)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("rows", "layer.weight"),
        ("layer.weight", "rows"),
        ("layer.weight", "row"),
        ("other.weight", "layer.weight"),
    ],
)
def test_writes_to_memory_of_several_tensors_are_refused(written: str, read: str) -> None:
    model = Shares(written, read)
    before = model.layer.weight.clone()
    message = f"the program writes in place to '{written}', and reads '{read}', which lies in the same memory. Give"
    with pytest.raises(onnx_parity.CaptureError, match=message):
        onnx_parity.export(model, (X,))
    assert torch.equal(model.layer.weight, before)


def test_other_parts_of_a_memory_may_be_written_to() -> None:
    model = Shares("row", "rows")
    with pytest.warns(onnx_parity.DroppedWriteWarning, match="row"):
        program = onnx_parity.export(model, (X,))
    torch.testing.assert_close(program(X), model(X))


class Cache(nn.Module):
    rows: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(3, 4))


class Remembers(nn.Module):
    """Writes to a buffer in place, assigns another, assigns an attribute that it has read, and writes to an input."""

    steps: torch.Tensor
    last: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.cache = Cache()
        self.register_buffer("last", torch.zeros(4))
        self.total = torch.ones(4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        self.steps += 1
        self.cache.rows[: x.shape[0] - 1] = x[1:]
        self.last = self.last + x[0]
        self.total = self.total * 2
        y.mul_(self.steps)
        return {"sum": self.cache.rows + self.total + self.last}


@pytest.mark.filterwarnings("error::onnx_parity.DroppedWriteWarning")
def test_what_was_written_is_returned_on_request() -> None:
    model = Remembers()
    program = onnx_parity.export(model, (X, X * 2), return_written=True, verify=True)
    names = ["steps", "cache.rows", "y", "last", "total"]
    assert program.output_names == ("output", *(f"{name}_written" for name in names))
    x, y = X + 1, X - 1
    expected = model(x, y)
    after = [model.steps, model.cache.rows, y, model.last, model.total]
    result, written = program(x, X - 1)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(written, dict(zip(names, after, strict=True)))


def test_nothing_written_is_nothing_returned_beside() -> None:
    program = onnx_parity.export(nn.Linear(4, 2), (X,), return_written=True, output_names=["y"])
    assert program.output_names == ("y",) and isinstance(program(X), torch.Tensor)


def test_names_of_what_was_written() -> None:
    program = onnx_parity.export(Counter(), (X,), return_written=True, output_names=["y", "count"])
    assert program.output_names == ("y", "count")
    torch.testing.assert_close(program(X), (X + 1, {"count": torch.tensor(1.0)}))


def takes_memory(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x += 1
    before = x * 2
    x.set_(y)  # type: ignore[call-overload]
    y.add_(1)
    x.mul_(3)
    return x, y, before


def result_takes_memory(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    z = x * 2
    view = z.view(-1)
    z.set_(y[0])  # type: ignore[call-overload]
    return z + 1, view


@pytest.mark.parametrize("program", [takes_memory, result_takes_memory])
@pytest.mark.parametrize("axes", [{}, {"x": [0, 1], "y": [0, 1]}])
@pytest.mark.filterwarnings("ignore::onnx_parity.DroppedWriteWarning")
def test_a_tensor_that_takes_the_memory_of_another(program: Callable[..., object], axes: dict[str, list[int]]) -> None:
    exported = onnx_parity.export(program, (X.clone(), TABLE[:2].clone()), dynamic_axes=axes)
    shapes = ((3, 4), (2, 4)), *((((5, 3), (4, 6)),) if axes else ())
    for of_x, of_y in shapes:
        x, y = torch.rand(of_x), torch.rand(of_y)
        torch.testing.assert_close(exported(x.clone(), y.clone()), program(x.clone(), y.clone()))


def test_a_buffer_that_takes_the_memory_of_another_is_refused() -> None:
    class Takes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("rows", torch.ones(2, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.rows.set_(x) + 1  # type: ignore[call-overload, no-any-return, operator]

    with pytest.raises(onnx_parity.CaptureError, match="the program gives a buffer the memory of another tensor"):
        onnx_parity.export(Takes(), (X,))


def _squeezed(x: torch.Tensor) -> torch.Tensor:
    x.unsqueeze_(0).mul_(2)
    return x + 1


def _turned(x: torch.Tensor) -> torch.Tensor:
    x.t_()
    return x.cumsum(0) * x.shape[0]


@pytest.mark.parametrize("program", [_squeezed, _turned, lambda x: x.transpose_(0, 1).flatten() * 2])
@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}], ids=["static", "dynamic"])
@pytest.mark.filterwarnings("ignore::onnx_parity.DroppedWriteWarning")
def test_an_input_gets_another_shape_in_place(
    program: Callable[[torch.Tensor], torch.Tensor], axes: dict[str, dict[int, str]] | None
) -> None:
    exported = onnx_parity.export(program, (torch.rand(3, 4),), input_names=["x"], dynamic_axes=axes, verify=True)
    for rows in (3,) if axes is None else (0, 1, 4, 7):
        x = torch.rand(rows, 4)
        torch.testing.assert_close(exported(x.clone()), program(x.clone()))


def test_an_input_of_another_shape_is_not_given_back() -> None:
    with pytest.raises(onnx_parity.CaptureError, match="gives an input another shape in place"):
        onnx_parity.export(_squeezed, (torch.rand(3, 4),), return_written=True)
