"""The example's layout is that of dynamic inputs: their axes lie in memory in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnx_parity
from tests.thinned import one_in

Program = Callable[[torch.Tensor], Any]


def write_to_flattened(x: torch.Tensor) -> torch.Tensor:
    """What `flatten` makes of a tensor that is not contiguous is a copy."""
    y = x * 1
    y.flatten().mul_(2)
    return y + 0


def squeezed(x: torch.Tensor) -> torch.Tensor:
    y = (x * 1).mT.contiguous().mT.unsqueeze(0).squeeze(0)[:, None].squeeze(1)
    y.flatten().mul_(2)
    return y + 0


def strides(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x + 0, *(torch.tensor(each) for each in (*x.stride(), *(x * 2).stride())))


TRANSPOSED = torch.rand(5, 4).t()


@pytest.mark.parametrize("program", one_in(3, [write_to_flattened, squeezed, strides]))
@pytest.mark.parametrize(
    "x", [TRANSPOSED, torch.rand(4, 5), torch.rand(4, 10)[:, ::2]], ids=["transposed", "contiguous", "every_second"]
)
@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_models_have_the_layout_of_the_example(program: Program, x: torch.Tensor) -> None:
    exported = onnx_parity.export(program, (x,), dynamic_shapes=({0: "n", 1: "m"},))
    torch.testing.assert_close(exported(x), program(x))


@pytest.mark.slow
def test_channels_last_stays_so_at_other_sizes() -> None:
    x = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    with pytest.warns(onnx_parity.TracerWarning, match="how an input lies in memory"):
        exported = onnx_parity.export(strides, (x,), dynamic_shapes=({0: "batch", 2: "height", 3: "width"},))
    other = torch.rand(4, 3, 6, 7).contiguous(memory_format=torch.channels_last)
    # torch gives other strides to the double of an empty tensor, or of one row.
    assert {each.about for each in exported.assumptions} == {"sizes", "layouts"}
    assert "width >= 1" in [each.condition for each in exported.assumptions]
    torch.testing.assert_close(exported(other), strides(other))


def shuffled_and_written(x: torch.Tensor) -> torch.Tensor:
    y = torch.nn.functional.pixel_shuffle(x * 1, 2)
    y.permute(0, 2, 3, 1).contiguous().add_(3)
    return y + 0


def test_a_copy_whose_layout_a_decomposition_chooses_by_that_of_the_input() -> None:
    x = torch.rand(2, 4, 3, 5).contiguous(memory_format=torch.channels_last)
    with pytest.warns(onnx_parity.TracerWarning, match="how an input lies in memory"):
        exported = onnx_parity.export(shuffled_and_written, (x,), dynamic_shapes=({2: "height", 3: "width"},))
    torch.testing.assert_close(exported(x), shuffled_and_written(x))
    with pytest.raises(onnx_parity.AssumptionError, match="x has strides like"):
        exported(x.contiguous())


def asks(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.t().is_contiguous() else x * 3


def asks_for_strides(x: torch.Tensor) -> torch.Tensor:
    return x * x.stride(0)


def compares(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.contiguous() is x else x * 3


def writes(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y.reshape(-1).mul_(2)
    return y


def writes_to_a_column(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    y[:, :1].contiguous().zero_()
    return y


def catches(x: torch.Tensor) -> torch.Tensor:
    try:
        return x.view(-1) * 2
    except RuntimeError:
        return x.reshape(-1) * 3


@torch.jit.script
def asks_in_a_script(x: torch.Tensor) -> torch.Tensor:
    if x.is_contiguous():
        return x * 2
    return x * 3


@torch.jit.script
def writes_in_a_script(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y.flatten().mul_(2.0)
    return y


@torch.jit.script
def reads_places_in_a_script(x: torch.Tensor) -> torch.Tensor:
    return x.as_strided([2, 2], [1, 2])


LAYOUTS: dict[str, Callable[[int, int], torch.Tensor]] = {
    "contiguous": torch.rand,
    "transposed": lambda n, m: torch.rand(m, n).t(),
    "every_second": lambda n, m: torch.rand(n, 2 * m)[:, ::2],
    "part": lambda n, m: torch.rand(n, m + 3)[:, :m],
    "expanded": lambda n, m: torch.rand(1, m).expand(n, m),
}


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("example", one_in(2, ["transposed", "contiguous", "part"]))
@pytest.mark.parametrize(
    "program",
    [
        asks, asks_for_strides, compares, writes, writes_to_a_column, catches, asks_in_a_script, writes_in_a_script,
        reads_places_in_a_script,
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_other_layouts_are_right_or_refused(program: Program, example: str, is_dynamic: bool) -> None:
    axes = ({0: "n", 1: "m"},) if is_dynamic else None
    if program in (reads_places_in_a_script, catches) and is_dynamic and example != "contiguous":
        return  # Refused.
    exported = onnx_parity.export(program, (LAYOUTS[example](3, 4),), dynamic_shapes=axes)
    outcomes = set()
    for n, m in [(3, 4), *([(1, 4), (3, 1), (1, 1), (2, 2), (7, 5)] if is_dynamic else [])]:
        for layout in LAYOUTS.values():
            x = layout(n, m)
            try:
                expected = program(x)
            except RuntimeError:
                continue
            try:
                result = exported(x)
            except onnx_parity.AssumptionError:
                outcomes.add("refused")
            else:
                outcomes.add("right")
                torch.testing.assert_close(result, expected)
    assert outcomes == {"right", "refused"}


def reads(x: torch.Tensor) -> torch.Tensor:
    x = x if x.is_contiguous() else x.contiguous()
    return x.view(-1) + x.reshape(-1) * 2


def writes_to_what_is_not_read(x: torch.Tensor) -> torch.Tensor:
    z = (x * 1).flatten()
    z[1:3] = 5
    y = x.t().contiguous()
    y[0] = 7
    return y.sum() + z


@pytest.mark.parametrize(
    ("program", "axes"),
    [(reads, None), (writes_to_what_is_not_read, None), (writes_to_what_is_not_read, ({0: "n", 1: "m"},))],
)
def test_what_is_the_same_in_any_layout_is_no_assumption(program: Program, axes: Any) -> None:
    exported = onnx_parity.export(program, (torch.rand(3, 4),), dynamic_shapes=axes)
    assert exported.assumptions == ()
    x = torch.rand(4, 3).t()
    torch.testing.assert_close(exported(x), program(x.clone()))


def test_what_is_said_about_a_layout() -> None:
    contiguous = onnx_parity.export(asks, (torch.rand(3, 4),), strict=True)
    assert [each.condition for each in contiguous.assumptions] == ["x.is_contiguous()"]
    with pytest.raises(
        onnx_parity.AssumptionError, match=r"assumes x\.is_contiguous\(\) \(at .*test_layouts_of_inputs"
    ):
        contiguous(torch.rand(4, 3).t())
    with pytest.raises(onnx_parity.FrozenValueError, match="depends on how an input lies in memory"):
        onnx_parity.export(asks, (TRANSPOSED,), strict=True)
    condition = "x lies in memory as in the example, with strides like (1, 4)"
    stated = onnx_parity.export(asks, (TRANSPOSED,), strict=True, assume=[condition])
    assert [each.is_stated for each in stated.assumptions] == [True]
    channels_last = torch.rand(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)
    with pytest.warns(onnx_parity.TracerWarning, match="x has strides like"):
        onnx_parity.export(lambda x: x * 2 if x.is_contiguous() else x, (channels_last,))


def test_verification_gives_inputs_the_layout_of_the_example() -> None:
    with pytest.warns(onnx_parity.TracerWarning):
        onnx_parity.export(lambda x: x * x.stride(1), (TRANSPOSED,), dynamic_shapes=({0: "n", 1: "m"},), verify=True)
