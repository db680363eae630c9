"""Branches on dynamic sizes: a warning if the other side makes a difference, and none if it does not."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onnx_parity
from onnx_parity.exporter.tracing import trace
from onnx_parity.exporter.tracing.attempt import record
from tests.exporter.subjects import assert_agrees


def test_branch_on_a_dynamic_size_is_warned_about() -> None:
    def decides(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 2:
            return x + 1
        return x > 0

    x = torch.ones(3, 4)
    line = inspect.getsourcelines(decides)[1] + 1
    message = (
        f"the program branches on a dynamic size at {__file__}:{line}: batch > 2 is True in the example, and the "
        "exported model takes that branch for every size. Branch on something that is not dynamic, export one model "
        "for each branch, or state what always holds: assume=['batch > 2']"
    )
    with pytest.warns(onnx_parity.TracerWarning) as caught:
        program = onnx_parity.export(decides, (x,), dynamic_axes={"x": {0: "batch"}})
    assert [(str(w.message), w.filename, w.lineno) for w in caught] == [(message, __file__, line)]
    torch.testing.assert_close(program(x), x + 1)
    with pytest.raises(onnx_parity.FrozenValueError) as refused:
        onnx_parity.export(decides, (x,), dynamic_axes={"x": {0: "batch"}}, strict=True)
    assert str(refused.value) == message


def test_squeezing_a_dynamic_axis_is_a_branch_where_the_rank_is_needed() -> None:
    def squeezes(x: torch.Tensor) -> torch.Tensor:
        return x.squeeze(0).sum(-1)

    where = f"{__file__}:{inspect.getsourcelines(squeezes)[1] + 1}"
    with pytest.warns(onnx_parity.TracerWarning) as caught:
        program = onnx_parity.export(squeezes, (torch.ones(3, 4),), dynamic_axes={"x": {0: "batch"}})
    assert str(caught[0].message).startswith(
        f"the program branches on a dynamic size at {where}: batch == 1 is False in the example"
    )
    assert_agrees(program, squeezes, torch.rand(5, 4))
    with pytest.raises(onnx_parity.DynamicAxisError) as refused:
        onnx_parity.export(squeezes, (torch.ones(1, 4),), dynamic_axes={"x": {0: "batch"}})
    assert f"  - 'batch' at {where}: the program needs batch == 1 to be True\n" in str(refused.value)


@pytest.mark.parametrize("size", [1, 2])
def test_an_axis_that_is_squeezed_and_summed_may_have_any_size(size: int) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.diagonal().squeeze(0).sum(-1)

    exported = onnx_parity.export(program, (torch.randn(size, size),), dynamic_shapes=({0: "n", 1: "m"},))
    assert not exported.assumptions
    for each in (0, 1, 2, 5):
        x = torch.randn(each, each)
        torch.testing.assert_close(exported(x), program(x))


def test_causal_attention_that_a_mask_decides_is_not_warned_about() -> None:
    def attention(x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril()
        is_causal = x.shape[-2] > 1 and mask is None
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask, is_causal=is_causal)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnx_parity.export(attention, (torch.rand(2, 5, 4),), dynamic_axes={"x": {1: "tokens"}}, strict=True)
    assert program.assumptions == ()
    for tokens in (1, 2, 9):
        assert_agrees(program, attention, torch.rand(2, tokens, 4))


@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("says", [False, True])
def test_causal_attention_of_one_query_and_one_key_is_not_warned_about(says: bool, length: int) -> None:
    def attention(x: torch.Tensor) -> torch.Tensor:
        is_causal = x.shape[-2] > 1 and says
        return F.scaled_dot_product_attention(x, x, x, is_causal=is_causal)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnx_parity.export(
            attention, (torch.rand(2, length, 4),), dynamic_axes={"x": {1: "tokens"}}, strict=True
        )
    assert program.assumptions == ()
    for tokens in (1, 2, 9):
        assert_agrees(program, attention, torch.rand(2, tokens, 4))


def test_causal_attention_of_one_query_and_several_keys_is_another_one() -> None:
    def attention(x: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, key, key, is_causal=x.shape[-2] > 1)

    with pytest.warns(onnx_parity.TracerWarning, match="tokens > 1 is True in the example"):
        program = onnx_parity.export(
            attention, (torch.rand(2, 5, 4), torch.rand(2, 6, 4)), dynamic_axes={"x": {1: "tokens"}}
        )
    for tokens in (2, 9):
        assert_agrees(program, attention, torch.rand(2, tokens, 4), torch.rand(2, 6, 4))


def test_views_of_one_shape_are_the_same_however_it_is_spelled() -> None:
    def flat(x: torch.Tensor) -> torch.Tensor:
        return (x.view(-1) if x.shape[0] > 2 else x.view(x.shape[0] * x.shape[1])) * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnx_parity.export(flat, (torch.rand(3, 4),), dynamic_axes={"x": {0: "n", 1: "m"}}, strict=True)
    assert program.assumptions == ()
    assert "If" not in [node.op_type for node in program.model_proto.graph.node]
    for n, m in ((1, 1), (2, 3), (7, 5)):
        assert_agrees(program, flat, torch.rand(n, m))


def test_parts_of_an_axis_that_is_too_short_are_not_warned_about() -> None:
    def first_and_second(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2)
        return torch.cat([-second, first])

    def first(x: torch.Tensor) -> torch.Tensor:
        return x.chunk(2)[0]

    def second(x: torch.Tensor) -> torch.Tensor:
        return x.chunk(2)[1]

    def last_of_four(x: torch.Tensor) -> torch.Tensor:
        _, _, _, last = x.chunk(4)
        return last.sum(0)

    for decides in (first_and_second, first, second, last_of_four):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            program = onnx_parity.export(decides, (torch.rand(4, 3),), dynamic_axes={"x": {0: "batch"}}, strict=True)
        assert program.assumptions == ()
        for size in (0, 4, 7, 8):
            assert_agrees(program, decides, torch.rand(size, 3))


def test_number_of_two_parts_is_one_where_the_axis_has_size_1() -> None:
    def number_of_parts(x: torch.Tensor) -> torch.Tensor:
        return x.sum(0) * len(x.chunk(2))

    with pytest.warns(onnx_parity.TracerWarning, match="batch != 1 is True in the example"):
        program = onnx_parity.export(number_of_parts, (torch.rand(4, 3),), dynamic_axes={"x": {0: "batch"}})
    assert [each.condition for each in program.assumptions] == ["batch != 1"]
    assert_agrees(program, number_of_parts, torch.rand(0, 3))


def test_branches_whose_other_side_is_the_same_are_not_warned_about() -> None:
    def program(x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        length = 0 if past.numel() == 0 else past.shape[1]
        if x.shape[1] > 1 and past is None:
            return x
        return torch.cat([past, x], 1) + torch.arange(length + x.shape[1])

    given = (torch.randn(2, 3), torch.randn(2, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exported = onnx_parity.export(
            program, given, dynamic_shapes={"x": {0: "batch", 1: "new"}, "past": {0: "batch", 1: "past"}}, verify=True
        )
    empty = (torch.randn(2, 1), torch.randn(2, 0))
    torch.testing.assert_close(exported(*empty), program(*empty))


def test_a_branch_that_expands_a_tensor_is_not_warned_about() -> None:
    def program(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        if positions.shape[0] != x.shape[0]:
            positions = positions.expand(x.shape[0], -1)
        return x * torch.cumsum(positions[:, :1] + positions, 1)

    given = (torch.randn(2, 3), torch.ones(1, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exported = onnx_parity.export(program, given, dynamic_axes={"x": {0: "batch"}}, verify=True)
    for rows in (1, 5):
        assert_agrees(exported, program, torch.randn(rows, 3), given[1])


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x * 2 if x.shape[0] > 3 else x,
        lambda x: x * 2 if x.shape[0] != 1 else x,
        lambda x: x.sum(0) if x.numel() == 0 else x.mean(0),
        lambda x: x * 2 if x.shape[0] % 2 == 0 else x,
        lambda x: x * 2 if x.shape[0] % 2 else x,
        lambda x: x * 2 if x.shape[0] // 2 == 0 else x,
        lambda x: x * 2 if x.shape[0] ** 2 - 2 * x.shape[0] == 0 else x,
        # The second question is asked only if the answer to the first is another one.
        lambda x: x * 2 if x.shape == (3, 5) else x,
        lambda x: x * 2 if x.shape[0] > 5 and x.shape[1] > 5 else x,
        lambda x: x if x.shape[0] > 4 or x.shape[1] == 3 else x * 2,
        lambda x: x if x.shape[0] > 4 or x.shape[1] != 0 else x.new_ones(1),
        lambda x: x if x.shape[0] > 4 else x if x.shape[0] else x.new_ones(1),
        # Each answer alone changes nothing.
        lambda x: x * 2 if (x.shape[0] > 5) + (x.shape[1] > 5) == 2 else x,
        # Where it is empty the result is not, or cannot be recorded.
        lambda x: x.new_ones(1, 3) if x.shape[0] == 0 else x,
        lambda x: x.new_tensor(x.numpy().sum()) if x.shape[0] == 0 else x.sum(),
        # Another dtype, another sign, another name of the output.
        lambda x: x.long() * (2 if x.shape[0] > 3 else 2.0),
        lambda x: torch.full((2,), 1 if x.shape[0] > 3 else 1.0),
        lambda x: x / (0.0 if x.shape[0] > 3 else -0.0),
        lambda x: {"long" if x.shape[0] > 3 else "short": x},
    ],
)
def test_branches_that_matter_are_followed_or_warned_about(program: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exported = onnx_parity.export(program, (torch.randn(5, 3),), dynamic_axes={"x": [0, 1]})
    told = [each for each in caught if "branches on a dynamic size" in str(each.message)]
    assert len(told) == len(exported.assumptions)
    assert told or "If" in {node.op_type for node in exported.model_proto.graph.node}
    for rows, columns in ((1, 3), (2, 2), (3, 5), (4, 3), (6, 6), (6, 1), (0, 3), (3, 0)):
        x = torch.randn(rows, columns)
        try:
            results = exported(x)
        except onnx_parity.AssumptionError:
            continue
        torch.testing.assert_close(results, program(x))


@pytest.mark.parametrize("name", ["<string>", "<python-input-0>", "<stdin>"])
def test_branches_of_programs_that_are_compiled_from_text_are_warned_about(name: str) -> None:
    """As by `python -c`, in an interactive session and in a notebook."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def program(x):\n    return x * 2 if x.shape[0] > 3 else x\n", name, "exec"), names)
    with pytest.warns(onnx_parity.TracerWarning, match=f"branches on a dynamic size at {name}:2: rows > 3 is True"):
        onnx_parity.export(names["program"], (torch.randn(5, 3),), dynamic_axes={"x": {0: "rows"}})


@pytest.mark.parametrize("question", ["== 1", "> 1", "< 2", "!= 1"])
def test_a_branch_that_only_the_example_takes_is_refused(question: str) -> None:
    def branches(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if eval(f"x.shape[0] {question}") else x > 0

    with pytest.raises(onnx_parity.DynamicAxisError) as caught:
        onnx_parity.export(branches, (torch.ones(1, 4),), dynamic_axes={"x": {0: "batch"}})
    holds = eval(f"1 {question}")
    assert f"batch {question} is {holds} in the example, and {not holds} for other sizes\n" in str(caught.value)
    assert str(caught.value).endswith("or leave the axes out of dynamic_axes.")
    batch = torch.export.Dim.AUTO
    program = onnx_parity.export(branches, (torch.ones(1, 4),), dynamic_shapes=({0: batch},))
    assert torch.equal(program(torch.ones(1, 4)), branches(torch.ones(1, 4)))


def test_a_branch_that_torch_has_asked_about_before_is_warned_of() -> None:
    def writes_first(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, 0] = 1
        return y > 0 if x.shape[0] == 3 else y * 3

    with pytest.warns(onnx_parity.TracerWarning, match="batch == 3 is False in the example"):
        onnx_parity.export(writes_first, (torch.ones(5, 4),), dynamic_axes={"x": {0: "batch"}})


def test_a_question_about_the_layout_is_a_branch() -> None:
    def asks(x: torch.Tensor) -> torch.Tensor:
        return x > 0 if x.t().is_contiguous() else x * 3

    with pytest.warns(onnx_parity.TracerWarning, match="batch == 1 is False in the example"):
        onnx_parity.export(asks, (torch.ones(5, 4),), dynamic_axes={"x": {0: "batch"}})
    with pytest.warns(onnx_parity.TracerWarning, match="batch == 4 is False in the example"):
        onnx_parity.export(
            lambda x: x > 0 if x.is_same_size(x.t()) else x, (torch.ones(5, 4),), dynamic_axes={"x": {0: "batch"}}
        )


def test_a_copy_that_one_branch_makes_is_no_difference() -> None:
    def makes_contiguous(x: torch.Tensor) -> torch.Tensor:
        y = x.t()
        return (y if y.is_contiguous() else y.contiguous()) * 3

    with warnings.catch_warnings():
        warnings.simplefilter("error", onnx_parity.TracerWarning)
        program = onnx_parity.export(makes_contiguous, (torch.ones(5, 4),), dynamic_axes={"x": {0: "batch"}})
    assert_agrees(program, makes_contiguous, torch.rand(1, 4))


def test_a_network_over_images_of_any_size_is_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch asks whether heads, pyramids and grids lie in memory in order, which is so for all sizes but 0 and 1."""
    convolution, pair = torch.nn.Conv2d(3, 3, 3, 2, padding=1), torch.nn.Conv2d(3, 2, 3)

    def detects(image: torch.Tensor) -> torch.Tensor:
        features = [convolution(image).relu()]
        features.append(convolution(torch.nn.functional.max_pool2d(features[0], 3, 1)).relu())
        grid = pair(image).permute(0, 2, 3, 1)
        features.append(torch.nn.functional.grid_sample(image, grid, align_corners=False))
        return torch.cat([each.permute(0, 2, 3, 1).reshape(each.shape[0], -1, 3).softmax(-1) for each in features], 1)

    recordings: list[Any] = []

    def counted(*given: Any) -> Any:
        recordings.append(given)
        return record(*given)

    monkeypatch.setattr(trace, "record", counted)
    axes = {"image": {0: "batch", 2: "height", 3: "width"}}
    program = onnx_parity.export(detects, (torch.rand(2, 3, 32, 48),), input_names=["image"], dynamic_axes=axes)
    assert len(recordings) == 1
    assert program.assumptions == ()
    for shape in ((1, 3, 17, 23), (5, 3, 40, 9)):
        assert_agrees(program, detects, torch.rand(shape))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.outer(x[:, 0], x.sum(0)) if x.shape[1] else x,
        lambda x: torch.stack([row * 2 for row in x]) if x.shape[0] else x,
        lambda x: x * 2 if x.numel() else x,
        lambda x: x.scatter(-1, x.max(-1, keepdim=True)[1], 1.0) if x.shape[1] else x,
        lambda x: x[:, x.argmin(1)] if x.shape[1] else x.new_zeros(x.shape[0], 0),
    ],
)
def test_a_branch_on_an_empty_axis_on_whose_other_side_the_program_fails(
    program: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onnx_parity.TracerWarning)
        exported = onnx_parity.export(program, (torch.ones(4, 3),), dynamic_shapes=({0: "n", 1: "m"},))
    assert exported.assumptions == ()
