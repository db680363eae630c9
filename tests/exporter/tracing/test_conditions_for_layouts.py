"""Writes and questions that depend on how torch's kernels lay results: right wherever the assumptions hold."""

from __future__ import annotations

import itertools
import linecache
import math
from collections.abc import Callable, Mapping, Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import onnx_parity
from tests.exporter.subjects import assert_agrees
from tests.thinned import one_in

_LAST = "y = x.contiguous(memory_format=torch.channels_last)\n"
_ALL = {"b": 0, "c": 1, "h": 2, "w": 3}
#: Programs of images whose height and width are dynamic.
WRITES = {
    "a part of every second row": _LAST
    + "y = functional.pad(y, (0, 0, 1, 0))[:, :, ::2]\ny = torch.cat([y, y], 1)\ny.flatten().zero_()\nreturn y",
    "stacked": "y = x.clone(memory_format=torch.channels_last)[:, :, ::2]\ny = torch.stack([y, y], 1)[:, 0]\n"
    "w = y.flatten(1)\ny.mul_(3)\nreturn y, w",
    "cloned": "y = x.clone(memory_format=torch.channels_last).relu()\ny.reshape(-1).add_(1)\nreturn y",
    "one row": "y = x[:, :, :1].contiguous(memory_format=torch.channels_last).mT.relu()\nw = y.flatten(1)\ny.mul_(3)\n"
    "return y, w",
    "a view at one pixel": _LAST + "y = y * 2\ny.permute(0, 2, 3, 1).flatten().zero_()\nreturn y",
    "rolled": _LAST + "y = y.roll(1, 2)\ny.contiguous().mul_(2)\nreturn y",
    "pooled to one": _LAST + "y = functional.adaptive_avg_pool2d(y, 1)\ny.contiguous().mul_(2)\nreturn y",
    "asked": _LAST + "y = functional.pad(y, (1, 1))\nreturn y * 2 if y.is_contiguous() else y * 3",
    "strides": _LAST + "y = y * 2\nreturn y * y.stride(1) + y.stride(3)",
}


def program_of(text: str) -> Callable[[Tensor], Tensor]:
    """A function that exports can read."""
    file = f"<{text}>.py"
    source = "def program(x):\n" + "".join(f"    {line}\n" for line in text.splitlines())
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    names: dict[str, object] = {"torch": torch, "functional": functional}
    exec(compile(source, file, "exec"), names)
    return names["program"]  # type: ignore[return-value]


def compared(text: str, exported: onnx_parity.ONNXProgram, sizes: Sequence[tuple[int, ...]]) -> tuple[int, int]:
    """At how many sizes the model is right, and for how many it is refused."""
    right = refused = 0
    for shape in sizes:
        x = torch.rand(shape)
        named: Mapping[str, int] = {name: shape[axis] for name, axis in _ALL.items()}
        if any(each.holds_for(named) is False for each in exported.assumptions):
            refused += 1
            continue
        assert_agrees(exported, program_of(text), x)
        right += 1
    return right, refused


@pytest.mark.parametrize("text", one_in(2, WRITES.values()), ids=WRITES)
@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_models_are_right_where_their_assumptions_hold(text: str) -> None:
    exported = onnx_parity.export(program_of(text), (torch.rand(2, 3, 4, 5),), dynamic_shapes=({2: "h", 3: "w"},))
    sizes = [(2, 3, height, width) for height, width in itertools.product((1, 2, 3, 5, 8), repeat=2)]
    right, refused = compared(text, exported, sizes)
    assert right >= 8
    assert bool(refused) == any(each.about == "sizes" for each in exported.assumptions)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_channels_that_may_be_one() -> None:
    text = (
        "y = x.contiguous(memory_format=torch.channels_last)\n"
        "y = functional.conv_transpose2d(y, y.new_ones(y.shape[1], 2, 2, 2), stride=2)\ny.flatten().zero_()\nreturn y"
    )
    axes = ({1: "c", 2: "h", 3: "w"},)
    exported = onnx_parity.export(program_of(text), (torch.rand(2, 3, 4, 5),), dynamic_shapes=axes)
    right, refused = compared(
        text, exported, [(2, *each) for each in itertools.product((1, 2, 3), (1, 2, 5), (1, 2, 5))]
    )
    assert right > refused > 0


@pytest.mark.parametrize(
    "text",
    [
        _LAST + "y = functional.pad(y, (1, 1)).relu()\nreturn y.flatten() * 2",
        _LAST + "y = (y * 2).contiguous()\nreturn y.add_(1)",
        "y = (x * 1).mT.flatten(1)\nreturn y.mul_(2)",
    ],
)
def test_programs_that_do_not_depend_on_it_assume_nothing(text: str) -> None:
    exported = onnx_parity.export(program_of(text), (torch.rand(2, 3, 4, 5),), dynamic_shapes=({2: "h", 3: "w"},))
    assert exported.assumptions == ()
    for shape in ((2, 3, 1, 1), (2, 3, 7, 2)):
        assert_agrees(exported, program_of(text), torch.rand(shape))


def test_what_is_said() -> None:
    text = WRITES["a part of every second row"]
    with pytest.warns(onnx_parity.TracerWarning, match="what a later write in place changes depends on"):
        exported = onnx_parity.export(program_of(text), (torch.rand(2, 3, 4, 5),), dynamic_shapes=({2: "h", 3: "w"},))
    assert "h % 2 == 0" in [each.condition for each in exported.assumptions]
    with pytest.raises(onnx_parity.AssumptionError, match="it assumes h % 2 == 0"):
        exported(torch.rand(2, 3, 3, 5))
    assert math.prod(exported(torch.rand(2, 3, 6, 5)).shape) == 2 * 6 * 4 * 5


def test_a_condition_that_follows_from_another_one_is_not_stated() -> None:
    text = "n, m = x.shape\ny = x * 2 if n - m <= 2 else x * 3\nreturn y + 1 if n - m <= 3 else y * 5"
    with pytest.warns(onnx_parity.TracerWarning, match="n - m <= 2"):
        exported = onnx_parity.export(program_of(text), (torch.rand(3, 4),), dynamic_shapes=({0: "n", 1: "m"},))
    assert [each.condition for each in exported.assumptions] == ["n - m <= 2"]


def test_a_norm_over_an_axis_that_may_be_empty() -> None:
    text = "y = x[:, 1:]\nreturn functional.layer_norm(y, y.shape[-1:])"
    exported = onnx_parity.export(program_of(text), (torch.rand(3, 4),), dynamic_shapes=({0: "n", 1: "m"},))
    for shape in ((3, 1), (2, 7), (1, 2)):
        assert_agrees(exported, program_of(text), torch.rand(shape))
