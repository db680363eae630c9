"""Programs that read values: recorded with a warning at the user's line, and refused with strict=True."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils import dlpack

import onnx_parity
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensorMode

X = torch.ones(3, 4)
N = torch.tensor(3)
SCALE = torch.tensor([2.0, 1.0])


def branches(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x + 1
    return x > 1


def counts(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * len("0" * int(n))


def through_numpy(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x + float(np.asarray(x * 2).sum())


def through_dlpack(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    total = float(dlpack.from_dlpack((x * 2).__dlpack__()).sum()) + float(np.from_dlpack(x * 2).sum())
    return x + total


def through_a_list(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    total: float = sum((x[0] > 0).tolist())
    return x * total


def compares(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x + 1 if torch.allclose(x, x * 1) and torch.equal(x, x * 1) else x > 1


def message(program: Callable[..., Any]) -> str:
    return (
        f"the program turned a tensor into a Python value at {__file__}:{inspect.getsourcelines(program)[1] + 1}; the "
        "exported model has the example's value as a constant and will be wrong if another input gives another value. "
        "Keep it a tensor (torch.where, torch.cond), or script the function that reads it"
    )


@pytest.mark.parametrize("axes", [None, {"x": [0]}], ids=["static", "dynamic"])
@pytest.mark.parametrize("program", [branches, counts, through_numpy, through_dlpack, through_a_list, compares])
def test_the_example_is_used_with_a_warning(program: Callable[..., Any], axes: dict[str, list[int]] | None) -> None:
    with pytest.warns(onnx_parity.TracerWarning) as caught:
        exported = onnx_parity.export(program, (X, N), dynamic_axes=axes)
    line = inspect.getsourcelines(program)[1] + 1
    assert {str(warning.message) for warning in caught} == {message(program)}
    assert {(warning.filename, warning.lineno) for warning in caught} == {(__file__, line)}
    torch.testing.assert_close(exported(X, N), program(X, N))


@pytest.mark.parametrize("axes", [None, {"x": [0]}], ids=["static", "dynamic"])
@pytest.mark.parametrize("program", [branches, counts, through_numpy, through_a_list, compares])
def test_strict_refuses(program: Callable[..., Any], axes: dict[str, list[int]] | None) -> None:
    with pytest.raises(onnx_parity.FrozenValueError) as caught:
        onnx_parity.export(program, (X, N), dynamic_axes=axes, strict=True)
    assert str(caught.value) == message(program)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("axes", [None, {"x": [0]}], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "program",
    [
        lambda x, n: x * int(n) + float(x[0, 0]),
        lambda x, n: x[:, : int(n)] * float(n),
        lambda x, n: x[:, : int(n.reshape(1, 1))].mean() + sum(map(float, x[0])) * max(map(int, x[0, :2])),
        lambda x, n: torch.add(x, x, alpha=float(n)) - torch.sub(x, n, alpha=int(n)),
        lambda x, n: torch.arange(int(x.max()))[None] < x[:, :1],
        lambda x, n: [part * 2 for part in x.split([int(each) for each in torch.stack([n, 4 - n])], dim=1)],
    ],
)
def test_int_and_float_stay_symbols(program: Callable[..., Any], axes: dict[str, list[int]] | None) -> None:
    exported = onnx_parity.export(program, (X, N), dynamic_axes=axes, strict=True, verify=True)
    for x, n in ((X, N), (X * 3.5, torch.tensor(1)), (torch.rand(3, 4) * 9, torch.tensor(2))):
        torch.testing.assert_close(exported(x, n), program(x, n))


@pytest.mark.filterwarnings("error::onnx_parity.TracerWarning")
def test_scripts_look_at_values_when_the_model_runs() -> None:
    @torch.jit.script
    def scripted(x):  # type: ignore[no-untyped-def]
        if x.sum() > 0:
            return x + 1
        return x - 1

    exported = onnx_parity.export(lambda x: scripted(x) * 2, (X,), strict=True)
    for x in (X, -X):
        torch.testing.assert_close(exported(x), scripted(x) * 2)


@pytest.mark.filterwarnings("error")
def test_values_that_no_input_changes_may_be_read() -> None:
    def known(x: torch.Tensor) -> torch.Tensor:
        if SCALE.sum() > 2 and len(x) == x.shape[0]:
            total: float = sum(SCALE.tolist())
            return x * SCALE[0].item() + total + torch.from_numpy(SCALE.numpy()).sum()
        return x

    torch.testing.assert_close(onnx_parity.export(known, (X,), strict=True)(X), known(X))


@pytest.mark.filterwarnings("error")
def test_printing_a_tensor_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    def chatty(x: torch.Tensor) -> torch.Tensor:
        print(x)
        print("rows", x.shape[0])
        return x + 1

    torch.testing.assert_close(onnx_parity.export(chatty, (X,), strict=True)(X), X + 1)
    assert "rows 3" in capsys.readouterr().out


def keeps_numbers(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x[n - 1] * n.item() + x.sum().item() + torch.tensor([n, 1, 2, 3]).sum()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("axes", [None, {"x": [0]}], ids=["static", "dynamic"])
def test_numbers_stay_symbols(axes: dict[str, list[int]] | None) -> None:
    exported = onnx_parity.export(keeps_numbers, (X, N), dynamic_axes=axes, strict=True)
    for n in (1, 2, 3):
        x = torch.rand(3, 4)
        torch.testing.assert_close(exported(x, torch.tensor(n)), keeps_numbers(x, torch.tensor(n)))


def test_a_number_that_cannot_stay_a_symbol_is_taken_from_the_example_with_a_warning() -> None:
    def decides(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, p=float(n.item()) / 10, training=True) + n.item()

    with pytest.warns(onnx_parity.TracerWarning, match="turned a tensor into a Python value"):
        onnx_parity.export(decides, (X, N))
    with pytest.raises(onnx_parity.FrozenValueError):
        onnx_parity.export(decides, (X, N), strict=True)


@pytest.mark.filterwarnings("error")
def test_a_number_that_makes_no_difference_is_no_assumption() -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, p=float(n.item()) / 10, training=False) + n.item()

    exported = onnx_parity.export(program, (X, N), strict=True)
    assert exported.assumptions == ()
    torch.testing.assert_close(exported(X, N + 2), program(X, N + 2))


@pytest.mark.filterwarnings("error")
def test_a_list_of_numbers_stays_symbols() -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return torch.cat([part * place for place, part in enumerate(x.split(n.tolist()))])

    x = torch.rand(6, 4)
    exported = onnx_parity.export(program, (x, torch.tensor([2, 1, 3])), strict=True)
    for sizes in ([2, 1, 3], [0, 6, 0], [1, 1, 4]):
        torch.testing.assert_close(exported(x, torch.tensor(sizes)), program(x, torch.tensor(sizes)))


def by_numpy(x: torch.Tensor, n: torch.Tensor) -> Sequence[torch.Tensor]:
    parts: Sequence[torch.Tensor] = x.split(n.numpy().tolist())
    return parts


@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_a_split_by_numbers_of_the_example_is_refused() -> None:
    def used_too(x: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
        return [part * n.sum() for part in by_numpy(x, n)]

    with pytest.raises(onnx_parity.FrozenValueError) as caught:
        onnx_parity.export(used_too, (torch.rand(6, 4), torch.tensor([2, 1, 3])))
    line = inspect.getsourcelines(by_numpy)[1] + 1
    assert str(caught.value) == (
        f"aten::split_with_sizes cannot be exported at {__file__}:{line}: it splits a tensor into parts of [2, 1, 3], "
        "numbers that the program read from values and that other inputs change\n"
        "Read them with item(), or with tolist() from a tensor of known sizes, and compute with them without numpy "
        "and branches: then the sizes of the parts depend on values in the model too."
    )


@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
@pytest.mark.parametrize("numbers", [[2, 1, 3], [2, 2, 2]])
def test_a_split_by_other_numbers_that_happen_to_be_equal_is_exported(numbers: list[int]) -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        read = n.numpy().tolist()
        first, second, third = x.split(numbers)
        result: torch.Tensor = first.sum(0) * n.sum() + second.sum(0) * len(read) + third.sum(0)
        return result

    x, n = torch.rand(6, 4), torch.tensor(numbers)
    exported = onnx_parity.export(program, (x, n))
    torch.testing.assert_close(exported(x, n + 1), program(x, n + 1))


def _split_joined(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return torch.cat([part * place for place, part in enumerate(x.split(n.tolist()))]) * n.sum()


def _split_padded(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    sums = [rows.sum(0) / max(count, 1) for rows, count in zip(x.split(n.tolist()), n.tolist(), strict=True)]
    return pad_sequence(list(torch.split(x, n.tolist())), batch_first=True), torch.stack(sums)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("program", [_split_joined, _split_padded])
def test_a_list_as_long_as_a_dynamic_axis_gives_sizes(program: Callable[..., Any]) -> None:
    arguments = torch.rand(6, 4), torch.tensor([2, 1, 3])
    exported = onnx_parity.export(program, arguments, dynamic_axes={"x": [0], "n": [0]}, input_names=["x", "n"])
    assert not exported.assumptions
    for sizes in ([2, 1, 3], [3], [0, 2], [1, 0, 1, 2, 0, 1, 2]):
        x, n = torch.rand(sum(sizes), 4), torch.tensor(sizes)
        torch.testing.assert_close(exported(x, n), program(x, n))


def test_a_slice_between_tensors_of_one_element() -> None:
    def program(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return x[:, a:b]

    x = torch.randn(2, 8)
    exported = onnx_parity.export(program, (x, torch.tensor([2]), torch.tensor([5])))
    torch.testing.assert_close(exported(x, torch.tensor([1]), torch.tensor([7])), x[:, 1:7])


@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_an_axis_whose_size_was_read_is_squeezed_as_in_the_example() -> None:
    def squeezes(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x[:, : n.item()].squeeze(1)[None]

    x, one, two = torch.rand(2, 3, 4), torch.tensor(1), torch.tensor(2)
    program = onnx_parity.export(squeezes, (x, one))
    torch.testing.assert_close(program(x, one), squeezes(x, one))
    with pytest.raises(Exception, match=r"assumes .*number_1.* == 1 "):
        program(x, two)
    program = onnx_parity.export(squeezes, (x, two))
    torch.testing.assert_close(program(x, two), squeezes(x, two))


def written_by_a_flag(x: torch.Tensor) -> torch.Tensor:
    x = x * 1
    x[x.sum() < 0] = -0.5
    return x


def read_by_a_flag(x: torch.Tensor) -> torch.Tensor:
    return x[x.sum() < 0]


def generated() -> Callable[[torch.Tensor], torch.Tensor]:
    """The same as `written_by_a_flag`, of code that is in no file."""
    names: dict[str, Any] = {}
    exec(compile(inspect.getsource(written_by_a_flag), "<generated>", "exec"), {"torch": torch}, names)
    function: Callable[[torch.Tensor], torch.Tensor] = names["written_by_a_flag"]
    return function


@pytest.mark.parametrize(
    "program", [written_by_a_flag, read_by_a_flag, generated()], ids=["written", "read", "generated"]
)
@pytest.mark.parametrize("example", [torch.tensor(2.0), torch.tensor([[1.0, 2.0]])], ids=["number", "matrix"])
def test_a_flag_as_a_subscript_is_not_read(
    program: Callable[[torch.Tensor], torch.Tensor], example: torch.Tensor
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnx_parity.TracerWarning)
        exported = onnx_parity.export(program, (example,), verify=True)
    torch.testing.assert_close(exported(example), program(example))
    torch.testing.assert_close(exported(-example), program(-example))


def tiled(x: torch.Tensor) -> torch.Tensor:
    """Sizes that the program computes in tensors of its own, as TAPAS does."""
    batch, count = torch.as_tensor(x.shape[:1]), torch.as_tensor(4)
    shape = torch.cat([torch.ones_like(batch), count.unsqueeze(0)])
    rows = torch.arange(4).view(shape.tolist())
    tiles: torch.Tensor = rows.repeat(torch.cat([batch, torch.as_tensor([1])]).tolist())
    return x + tiles


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "batch"}}], ids=["static", "dynamic"])
def test_sizes_are_computed_in_tensors_of_the_program(dynamic: dict[str, dict[int, str]] | None) -> None:
    exported = onnx_parity.export(tiled, (X,), input_names=["x"], dynamic_axes=dynamic, verify=True)
    for x in (X, torch.ones(5, 4)) if dynamic else (X,):
        torch.testing.assert_close(exported(x), tiled(x))


def checks(x: torch.Tensor) -> torch.Tensor:
    assert x.max().item() <= 10
    return x * 2


@pytest.mark.parametrize(
    "program",
    [checks, lambda x: x * 2 if x.any() else x, lambda x: x * float(x.numpy().max())],
)
@pytest.mark.parametrize("fake", [False, True], ids=["meta", "fake"])
def test_what_has_no_data_cannot_be_read(program: Callable[[torch.Tensor], torch.Tensor], fake: bool) -> None:
    with FakeTensorMode() if fake else torch.device("meta"):
        x = torch.ones(2, 3)
    with pytest.raises(onnx_parity.CaptureError, match=r"reads the value of a tensor at .*\d that has no data"):
        onnx_parity.export(program, (x,))


@pytest.mark.parametrize("read", [lambda own: own.tolist(), lambda own: own.numpy()])
def test_own_tensors_without_data_cannot_be_read(read: Callable[[torch.Tensor], Any]) -> None:
    own = torch.ones(2, device="meta")
    with pytest.raises(onnx_parity.CaptureError, match=r"reads the value of a tensor at .*\d that has no data"):
        onnx_parity.export(lambda x: x * float(read(own)[0]), (X,))


EXPERTS = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])


def by_experts(x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    results, start = torch.zeros_like(x), 0
    for number, end in enumerate(torch.bincount(chosen, minlength=3).cumsum(0).tolist()):
        if start != end:
            results[start:end] = EXPERTS[number](x[start:end])
        start = end
    return results


def test_of_a_list_of_as_many_numbers_as_values_say_their_count_alone_is_assumed() -> None:
    x, chosen = torch.rand(5, 4), torch.tensor([0, 2, 2, 0, 1])
    with pytest.warns(onnx_parity.TracerWarning, match="turned a tensor into a Python value"):
        program = onnx_parity.export(by_experts, (x, chosen), dynamic_shapes=({0: "rows"}, {0: "rows"}))
    assert [each.condition for each in program.assumptions] == [
        "len(torch.bincount(chosen, minlength=3).cumsum(0).tolist()) == 3"
    ]
    for given in ([1], [0, 0, 0], [2, 1, 2, 1, 0, 0, 2]):
        x, chosen = torch.rand(len(given), 4), torch.tensor(given)
        torch.testing.assert_close(program(x, chosen), by_experts(x, chosen))
    with pytest.raises(onnx_parity.AssumptionError, match="it assumes len"):
        program(x, chosen + 3)
