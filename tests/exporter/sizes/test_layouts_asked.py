"""What a program asks about how a tensor lies in memory: the model is right wherever its assumptions hold."""

from __future__ import annotations

import itertools
import linecache
import warnings
from collections.abc import Callable
from queue import SimpleQueue
from types import FunctionType
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onnx_parity
from onnx_parity.exporter.sizes.python_functions import CALLS_WITH_SIZES
from tests.thinned import one_in

#: Programs of a matrix x with dynamic axes n and m, and whether the model is right for some sizes or layouts only.
ASKED = {
    "y = x.t(); return x * 2 if y.contiguous() is y else x * 3": True,
    "y = x.t(); return x * 2 if y.contiguous() is x else x * 3": False,
    "return x * 2 if x.contiguous() is x else x * 3": True,
    "y = x.t(); z = y.contiguous(); return x * 2 if z.contiguous() is y else x * 3": True,
    "y = x.t().contiguous(); return y * 2 if x is y or x is not x.add(1) else y * 3": False,
    "y = x.t().contiguous(); return y * 2 if type(x) is torch.Tensor else y * 3": False,
    "y = x.t().contiguous(); return x * y.stride(1)": True,
    "y = x.t().contiguous(); return x.as_strided(x.shape, x.stride()) + y.shape[0]": True,
    "return x * x.contiguous().stride(0)": True,
    "y = x.view(*x.shape, 1, 2 - 1); return x * (2 if y.is_contiguous(memory_format=torch.channels_last) else 3)": True,
    "y = images(x); return x * (2 if y.is_contiguous() else 3)": True,
    "y = images(x); return x * (2 if y.is_contiguous(memory_format=torch.channels_last) else 3)": True,
    "y = images(x * 1); z = y.contiguous(); z[:, 0] = 1; return y * 2": True,
    "y = x[:, :, None, None] * 1; z = images(y[:, :, 0, 0]); z[:, 0] = 1; return y * 2": False,
    "return x.sum() + (2 if x.t().is_contiguous() else 3)": True,
    "return x * x.nbytes": False,
    "return x.diff(dim=0, n=3).sum() + torch.trapezoid(x, dim=0).sum()": False,
    "v = (x.t() * 1).cummax(0)[0]; w = v.t().contiguous(); w[0] = 3; return v * 2": True,
    "y = x * 1; y.fill_diagonal_(3, wrap=True); return y": False,
    "v = (x * 1)[:, :1]; w = v.ravel(); w *= 2; return v + 1": True,
    "v = (x * 1)[:, :1]; w = v.flatten(); w *= 2; return v + 1": False,
    "return doubled_if_contiguous(repeated(x).t())": True,
    "return doubled_if_contiguous(repeated(x))": True,
    "return doubled_if_contiguous((x @ x.t()).t())": False,
    "return doubled_if_channels_are_last(repeated(x).t()[None, None])": True,
    "return multiplied_by_strides(repeated(x))": True,
    "return torch.vmap(lambda row: row.cumsum(0), in_dims=1, out_dims=1)(x)": False,
}
#: What is asked of a memory that values of a model do not have.
REFUSED = (
    "(x + 1).data_ptr() == (x + 2).data_ptr()", "x[:1]._base is x", "x[:1]._is_view()", "x.is_set_to(x.view(-1))",
    "x._version",
)  # fmt: skip


def images(x: torch.Tensor) -> torch.Tensor:
    return x[:, :, None, None].expand(-1, -1, 2, 3).contiguous(memory_format=torch.channels_last)


def repeated(x: torch.Tensor) -> torch.Tensor:
    """A copy, or a view that repeats one row."""
    return (x * 1).expand(2, -1, -1).reshape(2 * x.shape[0], x.shape[1])


@torch.jit.script
def doubled_if_contiguous(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.is_contiguous() else x


@torch.jit.script
def doubled_if_channels_are_last(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.is_contiguous(memory_format=torch.channels_last) else x


@torch.jit.script
def multiplied_by_strides(x: torch.Tensor) -> torch.Tensor:
    return x * x.stride(0) + x.t().stride()[1]


SCRIPTS = {
    "doubled_if_contiguous": doubled_if_contiguous,
    "doubled_if_channels_are_last": doubled_if_channels_are_last,
    "multiplied_by_strides": multiplied_by_strides,
}


def _program(text: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function of one line, which exports can read."""
    file = f"<{text}>.py"
    source = f"def program(x):\n    {text}\n"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    names = {"torch": torch, "images": images, "repeated": repeated, **SCRIPTS}
    exec(compile(source, file, "exec"), names)
    return names["program"]  # type: ignore[return-value]


@pytest.mark.parametrize("text", one_in(2, ASKED))
def test_the_model_is_right_wherever_its_assumptions_hold(text: str) -> None:
    program = _program(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onnx_parity.TracerWarning)
        exported = onnx_parity.export(program, (torch.rand(3, 4),), dynamic_shapes=({0: "n", 1: "m"},))
    assert bool(exported.assumptions) == ASKED[text]
    compared = 0
    for rows, columns in itertools.product((0, 1, 2, 3, 5), repeat=2):
        x = torch.randn(rows, columns)
        if any(each.holds_for({"n": rows, "m": columns}) is False for each in exported.assumptions):
            continue
        try:
            expected = program(x.clone())
        except (IndexError, RuntimeError):
            continue
        result = exported(x) if x.numel() else exported.call_reference(x)
        torch.testing.assert_close(result, expected)
        compared += 1
    assert compared >= 9


@pytest.mark.parametrize("compared", ["type(x) is torch.Tensor", "x is not y", "y is y"])
def test_a_program_of_static_sizes_that_compares_other_things_assumes_nothing(compared: str) -> None:
    program = _program(f"y = x.t().contiguous(); return y * 2 if {compared} else y * 3")
    exported = onnx_parity.export(program, (torch.rand(3, 4),))
    assert exported.assumptions == ()
    torch.testing.assert_close(exported(x := torch.rand(3, 4)), program(x))


def test_comparisons_are_told_while_another_export_of_the_program_has_dynamic_sizes() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x * len(x) if x.contiguous() is x else x * 3

    assert isinstance(program, FunctionType)
    before = program.__code__
    with CALLS_WITH_SIZES.comparing([(program, {"is", "len"})]):
        alone = program.__code__
        with CALLS_WITH_SIZES.within([(program, {"is", "len"})]):
            assert program.__code__ not in (before, alone)
        assert program.__code__ is not before
    assert program.__code__ is before


@pytest.mark.parametrize("asked", REFUSED)
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_where_a_tensor_lies_is_refused(asked: str, is_dynamic: bool) -> None:
    dynamic = ({0: "n", 1: "m"},) if is_dynamic else None
    with pytest.raises(onnx_parity.CaptureError, match="the values of a model do not lie in a memory"):
        onnx_parity.export(_program(f"return x * 2 if {asked} else x"), (torch.rand(3, 4),), dynamic_shapes=dynamic)


def _one_hot(x: torch.Tensor) -> torch.Tensor:
    return F.one_hot(x.long())


@pytest.mark.parametrize(
    "called",
    one_in(2, [F.logsigmoid, F.rrelu, torch.diff, _one_hot, lambda x: x.cummax(0)[0], lambda x: x.cummin(1)[1]]),
)
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_a_result_lies_in_memory_as_torch_lays_it(called: Callable[..., torch.Tensor], is_dynamic: bool) -> None:
    x = torch.rand(3, 2).t()
    strides: SimpleQueue[list[bool]] = SimpleQueue()  # Which an export does not put back.

    def program(x: torch.Tensor) -> torch.Tensor:
        result = called(x)
        strides.put([result.is_contiguous(), result.mT.is_contiguous()])
        return result

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onnx_parity.TracerWarning)
        onnx_parity.export(program, (x,), dynamic_shapes=({0: "n", 1: "m"},) if is_dynamic else None)
    found = strides.get()
    while not strides.empty():
        strides.get()  # Of other sides of branches.
    program(x)
    assert found == strides.get()


def test_a_stride_that_is_one_number_fixes_the_size() -> None:
    with pytest.raises(onnx_parity.DynamicAxisError, match="the program needs max"):
        onnx_parity.export(
            _program("return x * 2 if x.stride() == (4, 1) else x"), (torch.rand(3, 4),), dynamic_shapes=({1: "m"},)
        )


def _writes_alone(x: torch.Tensor) -> torch.Tensor:
    rows = (x * 1).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4)
    rows += 1
    return rows


def _reads_what_it_is_a_view_of(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 1
    rows = y.permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4)
    rows += 1
    return rows, y


def _reads_what_a_copy_of_a_copy_is_made_of(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 1
    rows = y.permute(0, 2, 3, 1).contiguous().reshape(x.shape[0], -1, 4).contiguous()
    rows += 1
    return rows, y


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    ("program", "assumed"),
    [(_writes_alone, 0), (_reads_what_it_is_a_view_of, 1), (_reads_what_a_copy_of_a_copy_is_made_of, 1)],
)
def test_a_write_to_what_is_a_copy_in_one_layout_and_none_in_another(
    program: Callable[..., Any], assumed: int, memory_format: torch.memory_format, is_dynamic: bool
) -> None:
    """The layout is assumed only where something reads what the write reaches in one of them."""
    formats = (torch.contiguous_format, torch.channels_last)
    inputs = {each: torch.randn(2, 4, 3, 5).to(memory_format=each) for each in formats}
    dynamic = {"x": {0: "batch", 2: "height"}} if is_dynamic else None
    with warnings.catch_warnings(record=True):
        exported = onnx_parity.export(program, (inputs[memory_format],), input_names=["x"], dynamic_axes=dynamic)
    assert len(exported.assumptions) == assumed
    for each, x in inputs.items():
        if assumed and each is not memory_format:
            with pytest.raises(onnx_parity.AssumptionError, match="strides"):
                exported(x)
        else:
            torch.testing.assert_close(exported(x), program(x.clone()))


def _pads_by_nothing_for_even_sizes(x: torch.Tensor) -> torch.Tensor:
    """PyTorch returns a copy that lies as the input does where there is nothing to pad."""
    v = F.pad(x, (0, x.shape[0] % 2))
    w = v.t().flatten()
    w *= 2
    return v + 1


def _guesses_a_memory_format(x: torch.Tensor) -> Any:
    """PyTorch takes an image of one element for one in channels_last where its strides are in that order."""
    v = x.unflatten(0, (1, 2, -1))[:, -1:, ::2]
    w = v.to(memory_format=torch.channels_last)
    w.mul_(2)
    return v + 1


@pytest.mark.parametrize("program", [_pads_by_nothing_for_even_sizes, _guesses_a_memory_format])
@pytest.mark.parametrize("example", [(3, 1), (4, 5)])
def test_copies_that_depend_on_sizes_in_torch_alone(program: Callable[..., Any], example: tuple[int, int]) -> None:
    x = (
        torch.randn(2 * example[0], example[1])
        if program is _guesses_a_memory_format
        else torch.randn(example[::-1]).t()
    )
    axes = {"x": {0: "2*n", 1: "m"}} if program is _guesses_a_memory_format else {"x": {0: "n", 1: "m"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = onnx_parity.export(program, (x.clone(),), input_names=["x"], dynamic_axes=axes)
    right = 0
    for n, m, transposed in itertools.product((1, 2, 3, 4), (1, 2, 5), (False, True)):
        rows = 2 * n if program is _guesses_a_memory_format else n
        other = torch.randn(m, rows).t() if transposed else torch.randn(rows, m)
        try:
            result = exported(other.clone())
        except onnx_parity.AssumptionError:
            continue
        torch.testing.assert_close(result, program(other.clone()))
        right += 1
    assert right


def test_what_an_empty_example_leaves_as_it_is() -> None:
    """PyTorch takes what is empty for contiguous, and a branch keeps the sizes of the example."""

    def program(x: torch.Tensor) -> torch.Tensor:
        v = x[1:, 1:-1]
        v[:, :1].contiguous().zero_()
        v = v + 1
        return v.sum(0, keepdim=True) if v.shape[0] == 1 else v + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = onnx_parity.export(program, (torch.randn(1, 2),), dynamic_shapes=({0: "n", 1: "m"},))
    for n, m in itertools.product((3, 4), (3, 5)):
        x = torch.randn(n, m)
        torch.testing.assert_close(exported(x), program(x.clone()))
