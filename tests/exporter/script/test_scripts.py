"""TorchScript: branches and loops that are kept or unrolled, and refusals."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch import nn
from torch.jit._trace import _script_if_tracing as script_if_tracing

import onnx_parity
from onnx_parity.exporter.script.operator_arguments import DTYPE_OF_NUMBER
from onnx_parity.exporter.torch_inside.torchscript import ScriptFunction
from tests.exporter.sources.test_control_flow import operators

X = torch.ones(2, 3)
N = torch.tensor(3)


@torch.jit.script
def loop(x, y):  # type: ignore[no-untyped-def]
    for i in range(int(y)):
        x = x + i
    return x


def test_the_documented_loop_gives_37_at_a_range_of_9() -> None:
    ones = torch.ones(2, 3, dtype=torch.long)
    scripted = onnx_parity.export(loop, (ones, torch.tensor(5)), input_names=["input_data", "loop_range"])
    assert operators(scripted.model_proto.graph) == ["Loop", "Add", "Identity"]
    assert scripted(ones, torch.tensor(9)).tolist() == [[37] * 3] * 2
    assert scripted(ones, torch.tensor(0)).tolist() == [[1] * 3] * 2

    def traced(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for i in range(int(y)):
            x = x + i
        return x

    # A loop of Python over a number that is read from a tensor is a loop of the model too.
    looped = onnx_parity.export(traced, (ones, torch.tensor(5)))
    assert "Loop" in operators(looped.model_proto.graph) and not looped.assumptions
    assert looped(ones, torch.tensor(9)).tolist() == [[37] * 3] * 2
    assert looped(ones, torch.tensor(0)).tolist() == [[1] * 3] * 2


def test_inputs_are_named_as_the_script_s_parameters() -> None:
    assert onnx_parity.export(loop, (X, N)).input_names == ("x", "y")
    assert onnx_parity.export(torch.jit.script(nn.ReLU()), (X,)).input_names == ("input",)


def test_two_exports_are_the_same_bytes() -> None:
    assert onnx_parity.export(loop, (X, N)).serialize() == onnx_parity.export(loop, (X, N)).serialize()


def test_numbers_come_back_as_python_s() -> None:
    @torch.jit.script
    def numbers(x, n: int):  # type: ignore[no-untyped-def]
        count = 0
        while bool(x.sum() < 100):
            x = x * 2
            count += n
        return count, float(x.max()), bool(x.min() > 30), n, "name"

    exported = onnx_parity.export(lambda x: numbers(x, 2), (X,))
    for x in (X, X * 4):
        found, expected = exported(x), numbers(x, 2)
        assert found == expected
        assert [type(each) for each in found] == [int, float, bool, int, str]


def test_lists_of_unknown_length_are_sequences() -> None:
    @torch.jit.script
    def lists(x, n):  # type: ignore[no-untyped-def]
        rows: list[torch.Tensor] = []
        counts: list[int] = []
        for i in range(int(n)):
            rows.append(x * i)
            counts.append(i)
        return {"rows": rows}, counts

    exported = onnx_parity.export(lists, (X, N), opset_version=11)
    assert exported.model_proto.graph.output[0].type.HasField("sequence_type")
    for n in (3, 0, 5):
        rows, counts = exported(X, torch.tensor(n))
        assert counts == list(range(n))
        assert [row.tolist() for row in rows["rows"]] == [(X * i).tolist() for i in range(n)]
    with pytest.raises(
        onnx_parity.UnsupportedOperatorsError, match="prim::tolist: ONNX has SplitToSequence only from opset 11"
    ):
        onnx_parity.export(lists, (X, N), opset_version=10)


def test_the_line_is_the_script_s() -> None:
    @torch.jit.script
    def script(x):  # type: ignore[no-untyped-def]
        if bool(x.sum() > 0):
            x = torch._standard_gamma_grad(x, x)
        return x

    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as caught:
        onnx_parity.export(script, (X,))
    (refusal,) = (each for each in caught.value.refusals if "gamma" in each.operator)
    assert refusal.where == f"{__file__}:{line_of('_standard_gamma_grad')}"


def line_of(text: str) -> int:
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()  # type: ignore[arg-type]
    return next(number for number, line in enumerate(lines, 1) if text in line)


@torch.jit.script
def chooses_a_word(x):  # type: ignore[no-untyped-def]
    word = "a" if bool(x.sum() > 0) else "b"
    return x + len(word), word


@torch.jit.script
def changes_its_mind(x):  # type: ignore[no-untyped-def]
    for _ in range(int(x.sum())):
        x = x.double()
    return x


@torch.jit.script
def slope_of_values(x):  # type: ignore[no-untyped-def]
    return torch._C._nn.softplus(x, float(x.sum()))


@torch.jit.script
def through_a_view(x):  # type: ignore[no-untyped-def]
    y = x * 1
    row = y[0]
    if bool(x.sum() > 0):
        row.add_(1)
        y.mul_(2)
    return y, row


@torch.jit.script
def under_another_name(x):  # type: ignore[no-untyped-def]
    y = x * 1
    kept = y
    for _ in range(int(x.sum())):
        y.add_(1)
        y = y * 2
    return y, kept


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            chooses_a_word,
            "a variable is 'a' or 'b', depending on which branch or iteration has run: "
            "only tensors and numbers can depend on values",
        ),
        (
            changes_its_mind,
            "a variable is a float32 tensor of 2 axes before the loop and a float64 tensor of 2 axes after an "
            "iteration: keep its dtype and its number of axes in all iterations, as ONNX requires",
        ),
        (
            slope_of_values,
            "aten::softplus takes a number that depends on values, which ONNX cannot represent: use a constant, "
            "or choose with torch.where or `if`",
        ),
        (
            under_another_name,
            "a branch or loop writes in place to a tensor that also has another name, or a view, outside of it: "
            "write to a clone of it",
        ),
        (
            through_a_view,
            "a branch or loop writes in place to a tensor that also has another name, or a view, outside of it: "
            "write to a clone of it",
        ),
    ],
)
def test_scripts_that_onnx_cannot_express_are_refused(script: Callable[..., Any], message: str) -> None:
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(script, (X,))
    words, _, place = str(caught.value).rpartition(" (at ")
    assert words == message
    assert place.startswith(f"{__file__}:")


@torch.jit.script
def numbers_and_tensors(x):  # type: ignore[no-untyped-def]
    return x.size(0), (0.5, True), x + 1, x.numel() > 3


def test_numbers_that_a_script_returns_are_outputs() -> None:
    for axes in (None, {"x": {0: "rows"}}):
        exported = onnx_parity.export(numbers_and_tensors, (X,), dynamic_axes=axes)
        outputs = exported.model_proto.graph.output
        assert [each.type.tensor_type.elem_type for each in outputs] == [7, 11, 9, 1, 9]
        assert [len(each.type.tensor_type.shape.dim) for each in outputs] == [0, 0, 0, 2, 0]
        rows, pair, y, more = exported(X)
        assert (rows, pair, y.tolist(), more) == (2, (0.5, True), [[2.0] * 3] * 2, True)
    only = onnx_parity.export(sizes, (X,))
    assert only(X) == [2, 3]


@torch.jit.script
def sizes(x):  # type: ignore[no-untyped-def]
    return x.size()


@torch.jit.script
def by_dtype(x):  # type: ignore[no-untyped-def]
    if x.dtype == torch.float32:
        return x + 1
    if x.dtype in [torch.int, torch.int64]:
        return x - 1
    return (x if x.dtype != torch.float64 else x * 2).to(x.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int32, torch.int64])
def test_dtypes_are_compared(dtype: torch.dtype) -> None:
    x = torch.arange(4, dtype=dtype)
    found = onnx_parity.export(by_dtype, (x,))(x)
    assert torch.equal(found, by_dtype(x)) and found.dtype is dtype


def test_scalar_tensors_are_float32() -> None:
    @torch.jit.script
    def scalars(x):  # type: ignore[no-untyped-def]
        return torch.scalar_tensor(x.size(0)), torch.scalar_tensor(int(x.sum())), torch.tensor(x.size(0))

    for axes in (None, {"x": {0: "rows"}}):
        exported = onnx_parity.export(scalars, (X,), dynamic_axes=axes)
        assert [each.dtype for each in exported(X)] == [torch.float32, torch.float32, torch.int64]
        assert [each.item() for each in exported(X)] == [2, 6, 2]


def test_windows_of_dynamic_lengths() -> None:
    @torch.jit.script
    def windows(x):  # type: ignore[no-untyped-def]
        return torch.hamming_window(x.size(0), False, 0.5, 0.4), torch.hann_window(x.size(0))

    exported = onnx_parity.export(windows, (X,), dynamic_axes={"x": {0: "rows"}})
    for rows in (2, 5, 1):
        x = torch.ones(rows, 3)
        assert all(map(torch.allclose, exported(x), windows(x)))


def test_dtypes_are_numbered_as_torchscript_numbers_them() -> None:
    for number, dtype in DTYPE_OF_NUMBER.items():
        if "q" not in str(dtype) and not str(dtype).startswith("torch.bits"):
            assert dtype_of(torch.empty(0, dtype=dtype)) == number


@torch.jit.script
def dtype_of(x):  # type: ignore[no-untyped-def]
    return x.dtype


def test_buffers_written_in_a_branch() -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if bool(x.sum() > 0):
                self.total.add_(x[0])  # type: ignore[operator]
            return x + self.total  # type: ignore[operator]

    module = torch.jit.script(Writes())
    with pytest.warns(onnx_parity.DroppedWriteWarning, match="writes to total"):
        exported = onnx_parity.export(module, (X,))
    assert module.total.tolist() == [0, 0, 0]
    assert exported(X).tolist() == [[2] * 3] * 2
    assert exported(-X).tolist() == [[-1] * 3] * 2


@pytest.mark.filterwarnings("error::onnx_parity.TracerWarning")
def test_where_a_script_raises_an_exception_the_model_goes_on() -> None:
    @torch.jit.script
    def checks(x):  # type: ignore[no-untyped-def]
        assert bool(x.sum() > 0), "must be positive"
        return x + 1

    exported = onnx_parity.export(checks, (X,), strict=True)
    assert exported.assumptions == ()
    assert exported(-X).tolist() == [[0] * 3] * 2


def test_an_exception_on_every_way_is_one() -> None:
    @torch.jit.script
    def fails(x):  # type: ignore[no-untyped-def]
        if x.size(0) == 2:
            raise ValueError("not two")
        return x

    with pytest.raises(onnx_parity.CaptureError, match="the script raises an exception: not two"):
        onnx_parity.export(fails, (X,))


def test_classes_that_are_compiled_too() -> None:
    assert onnx_parity.export(accumulates, (X, N))(X, torch.tensor(4)).tolist() == [[7.0] * 3] * 2


@torch.jit.script
class Accumulator:
    def __init__(self, x: torch.Tensor) -> None:
        self.total = x

    def add(self, x: torch.Tensor) -> None:
        self.total = self.total + x


@torch.jit.script
def accumulates(x, n):  # type: ignore[no-untyped-def]
    kept = Accumulator(x)
    for i in range(int(n)):
        kept.add(x * i)
    return kept.total


def test_scripts_run_in_torch_as_before() -> None:
    call = ScriptFunction.__call__
    onnx_parity.export(loop, (X, N))
    assert ScriptFunction.__call__ is call
    assert loop(X, N).tolist() == [[4.0] * 3] * 2


@script_if_tracing
def kept_per_class(x: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    kept = torch.zeros_like(x, dtype=torch.bool)
    for each in torch.unique(classes):
        places = torch.where(classes == each)[0]
        kept[places[x[places].argmax()]] = True
    return torch.where(kept)[0]


def test_functions_to_be_scripted_where_they_are_traced_are() -> None:
    """As torchvision marks its own: what a loop reads differs between its iterations."""
    x, classes = torch.tensor([1.0, 5.0, 2.0, 7.0, 0.5]), torch.tensor([0, 0, 1, 1, 2])
    program = onnx_parity.export(lambda x, c: kept_per_class(x, c)[:3] * 2, (x, classes), opset_version=16)
    assert "Loop" in operators(program.model_proto.graph)
    for values, others in ((x, classes), (-x, torch.tensor([3, 1, 0, 2, 0]))):
        assert program(values, others).tolist() == (kept_per_class(values, others)[:3] * 2).tolist()


def test_those_that_torchscript_cannot_compile_are_traced() -> None:
    held = [2.0]

    @script_if_tracing
    def scaled(x):  # type: ignore[no-untyped-def]
        return x * held.copy().pop(*[])

    assert onnx_parity.export(scaled, (X,))(X).tolist() == (X * 2).tolist()


@torch.jit.script
def shortened_if_any(x):  # type: ignore[no-untyped-def]
    kept = [x[0]]
    kept.pop()
    while bool(x.sum() < 100):
        x = x * 1.5 + 8
        kept.append(x[0])
    if len(kept) == 0:
        return x - 1
    return torch.stack(kept)


@torch.jit.script
def positive_if_any(x):  # type: ignore[no-untyped-def]
    positive = x[x > 0]
    if positive.size(0) > 0:
        return positive
    return x - 1


@torch.jit.script
def first_positive_scaled(x):  # type: ignore[no-untyped-def]
    for i in range(x.size(0)):
        if bool(x[i] > 0):
            return x * i
    return x - 1


@pytest.mark.parametrize("script", [shortened_if_any, positive_if_any, first_positive_scaled], ids=lambda s: s.name)
def test_a_dynamic_axis_is_checked_for_emptiness_at_run_time(script: Any) -> None:
    program = onnx_parity.export(script, (torch.ones(3),), dynamic_axes={"x": {0: "n"}})
    for value in (1.0, -5.0, 90.0):
        x = torch.tensor([-1.0, value, value])
        assert program(x).tolist() == script(x).tolist()
    if script is not shortened_if_any:
        assert program(torch.ones(0)).tolist() == []


def test_what_a_loop_carries_may_change_late() -> None:
    """Each iteration hands the growing tensor one variable further."""

    @torch.jit.script
    def hands_on(x, n):  # type: ignore[no-untyped-def]
        a, b, c, d, e, f, g = x, x, x, x, x, x, x
        h, i, j, k, m, o, p = x, x, x, x, x, x, x
        for _ in range(int(n)):
            a, b, c, d, e, f, g = b, c, d, e, f, g, h
            h, i, j, k, m, o, p = i, j, k, m, o, p, torch.cat([p, x])
        return a

    exported = onnx_parity.export(hands_on, (X, N))
    for n in (1, 14, 16):
        assert torch.equal(exported(X, torch.tensor(n)), hands_on(X, torch.tensor(n)))


@torch.jit.script
def kept_state(x, state):  # type: ignore[no-untyped-def]
    kept = torch.zeros(2, x.size(0), 3)
    if state.size(0) == 0:
        kept[:] = torch.ones(x.size(0), 3)
    elif state.size(0) == 1:
        kept[:] = state * 2 + kept
    return kept


def test_a_branch_that_needs_other_sizes_than_those_of_the_example() -> None:
    axes: dict[str, Any] = {"x": {0: "rows"}, "state": [0, 1, 2]}
    exported = onnx_parity.export(kept_state, (torch.rand(4, 3), torch.zeros(0, 0, 0)), dynamic_axes=axes)
    for shape in ((0, 0, 0), (1, 4, 3), (1, 1, 3), (1, 4, 1), (1, 1, 1), (3, 1, 7)):
        x, state = torch.rand(4, 3), torch.rand(shape)
        torch.testing.assert_close(exported(x, state), kept_state(x, state))
    with pytest.raises(Exception, match="broadcast"):
        exported(torch.rand(4, 3), torch.rand(1, 4, 2))
    # What is written to has one row, so that the state has to have one.
    exported = onnx_parity.export(
        kept_state, (torch.rand(1, 3), torch.zeros(0, 0, 0)), dynamic_axes={"state": [0, 1, 2]}
    )
    for shape in ((0, 0, 0), (1, 1, 3), (1, 1, 1), (2, 5, 7)):
        x, state = torch.rand(1, 3), torch.rand(shape)
        torch.testing.assert_close(exported(x, state), kept_state(x, state))
    with pytest.raises(Exception, match="Reshape"):
        exported(torch.rand(1, 3), torch.rand(1, 4, 3))


def test_empty_lists_alone_are_results() -> None:
    @torch.jit.script
    def lists(x: torch.Tensor) -> tuple[list[torch.Tensor], list[int], torch.Tensor | None]:
        return [], [], None

    exported = onnx_parity.export(lists, (X,), opset_version=11, allow_ignored_inputs=True)
    assert exported(X) == lists(X) == ([], [], None)
    assert [each.type.sequence_type.elem_type.tensor_type.elem_type for each in exported.model_proto.graph.output] == [
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.INT64,
    ]
    with pytest.raises(onnx_parity.CaptureError, match="which has no tensor: return at least one tensor"):
        onnx_parity.export(lambda x: lists(x)[0], (X,), allow_ignored_inputs=True)


def test_an_inner_loop_reads_at_the_index_of_the_outer_one() -> None:
    @torch.jit.script
    def collected(x):  # type: ignore[no-untyped-def]
        y = x[0][:1]
        for i in range(x.size(0)):
            for j in range(x.size(1)):
                y = torch.cat([y, x[i][j : j + 1]])
        return y

    exported = onnx_parity.export(collected, (torch.rand(3, 4),), input_names=["x"], dynamic_axes={"x": [0, 1]})
    for shape in ((3, 4), (1, 1), (5, 2)):
        x = torch.rand(shape)
        torch.testing.assert_close(exported(x), collected(x))


def test_a_list_gets_tensors_of_another_shape_in_a_loop() -> None:
    @torch.jit.script
    def parts(x):  # type: ignore[no-untyped-def]
        items = [x]
        for i in range(x.size(0)):
            items.append(x[i])
        return items, len(x.shape[: x.size(1)])

    exported = onnx_parity.export(parts, (torch.rand(3, 2),), input_names=["x"], dynamic_axes={"x": [0, 1]})
    for shape in ((3, 2), (1, 1), (2, 5)):
        x = torch.rand(shape)
        items, count = exported(x)
        assert [each.tolist() for each in items] == [each.tolist() for each in parts(x)[0]]
        assert count == parts(x)[1]
