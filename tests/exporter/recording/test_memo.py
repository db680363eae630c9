"""The results that are computed without torch's fake tensors agree with theirs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onnx_parity
from onnx_parity.exporter.dispatch.composites import original
from onnx_parity.exporter.recording.fakes import pointwise, result_cache
from onnx_parity.exporter.registry.results import rule_for
from onnx_parity.exporter.registry.rules import Aspect, all_rules
from onnx_parity.exporter.request.dynamic_axes import Axes
from onnx_parity.exporter.request.record_options import RecordOptions
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, schema_of
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.tracing.to_record import ToRecord
from onnx_parity.exporter.tracing.trace import trace
from onnx_parity.harness.cases.opinfo_samples import all_entries
from tests.thinned import one_in

#: The pointwise operators whose results are described by one of a few rules.
_POINTWISE = {
    rule.name.removeprefix("aten::")
    for rule in all_rules()
    if rule.aspect is Aspect.RESULT
    and (getattr(rule.function, "__module__", "") == pointwise.__name__ or rule.name == "aten::clamp")
}


def record(program: Callable[..., Any], tensors: Sequence[torch.Tensor], axes: Axes) -> None:
    """Record a program whose operators are left as they are, also those without a lowering."""
    names = [f"x{place}" for place in range(len(tensors))]
    trace(ToRecord(program, tensors, {}, names, (), lambda op: None, RecordOptions()), axes)


def described(result: Any) -> list[Any]:
    results = result if isinstance(result, (list, tuple)) else [result]
    return [_described(each) if isinstance(each, FakeTensor) else type(each) for each in results]


def _described(x: FakeTensor) -> tuple[Any, ...]:
    return x.dtype, x.shape, x.stride(), x.storage_offset(), x.fake_device


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], set[str]]]:
    """Operators that a way of the memo answered for; its answers are those of fake tensors."""
    compared: dict[str, set[str]] = {"_by_rule": set(), "_by_kernel": set()}
    unlike = []

    def check(way: str) -> None:
        answer = getattr(result_cache.ResultMemo, way)

        def checked(self: Any, func: OpOverload, args: Any, kwargs: Any) -> Any:
            found = answer(self, func, args, kwargs)
            # The other rules are there because torch's results are not right for symbols.
            rule = rule_for(original(func).name())
            if found is not None and (way == "_by_kernel" or (rule is not None and rule.static)):
                made = [FakeTensor(self._fakes, *each) for each in (found if isinstance(found, list) else [found])]
                expected = described(self._fakes.dispatch(func, (), args, kwargs))
                compared[way].add(original(func).name().removeprefix("aten::"))
                if described(made) != expected:
                    unlike.append(f"{func} of {args}: {described(made)}, and by fake tensors {expected}")
            return found

        monkeypatch.setattr(result_cache.ResultMemo, way, checked)

    monkeypatch.setattr(result_cache, "_static_results", {})
    for way in compared:
        check(way)
    yield compared.__getitem__
    assert not unlike, "\n".join(unlike)


@pytest.mark.slow
def test_kernels_agree_with_fake_tensors(compared: Callable[[str], set[str]]) -> None:
    torch.manual_seed(0)
    for entry in list(all_entries().values())[::6]:
        if torch.float32 not in entry.dtypes:
            continue
        for sample in itertools.islice(entry.sample_inputs_func(entry, "cpu", torch.float32, False), 3):
            leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
            places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
            if any(leaves[place].layout is not torch.strided for place in places):
                continue

            def program(*tensors: torch.Tensor, leaves=leaves, spec=spec, places=places, entry=entry) -> Any:  # type: ignore[no-untyped-def]
                filled = dict(enumerate(leaves)) | dict(zip(places, tensors, strict=True))
                first, args, kwargs = pytree.tree_unflatten(list(filled.values()), spec)
                result = pytree.tree_leaves(entry(first, *args, **kwargs))
                return tuple(each for each in result if isinstance(each, torch.Tensor))

            try:
                record(program, [leaves[place] for place in places], Axes({}))
            except onnx_parity.ExportError:
                continue  # What cannot be recorded is another test's.
    assert len(compared("_by_kernel")) > 50
    assert len(compared("_by_rule")) > 10


def test_expansions_with_dynamic_sizes_agree_with_fake_tensors(compared: Callable[[str], set[str]]) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        rows, columns = x.shape
        return [
            x.expand(rows, columns),
            x.expand(4, -1, -1).sum(0),
            x.t().expand(3, columns, rows) + 1,
            x[:, :1].expand(-1, columns + 1) * 2,
            x[None, :, None].expand(rows, -1, 1, columns),
            x[:, None].expand(rows, 3, columns),
            y.expand(rows, 1, 5),
            y.expand(1, -1, 5).sum() + y[:, :3].expand(2, -1),
            x.to(device="cpu", dtype=torch.float64),
        ]

    arguments = torch.rand(4, 6), torch.rand(1, 5)
    axes = {"x": {0: "rows", 1: "columns"}}
    onnx_parity.export(program, arguments, input_names=["x", "y"], dynamic_axes=axes, verify=True)
    assert "expand" in compared("_by_kernel")
    assert "_to_copy" in compared("_by_rule")


def test_rules_for_dynamic_sizes_agree_with_fake_tensors(compared: Callable[[str], set[str]]) -> None:
    def program(x: torch.Tensor, places: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        written = torch.zeros_like(x)
        written.copy_(x[:1] + x)
        written[:, 1] = x.sum(1)
        flags = x > 0.5
        return [
            x[:, 1:4] * 2 + x[:, :3],
            x[:, None, :, None].expand(-1, 3, -1, 2) * x[:, None, None, :2],
            F.prelu(x, weight),
            torch.stack([flags.all(), flags.any(), ~flags[0, 0], flags[0, 1].logical_not()]),
            flags.any(1) | flags.all(1, keepdim=True),
            x.amax(0) + x.sum(0) + x.mean(),
            x.masked_fill(flags, 2.0),
            x.index_select(1, places[0, :2]),
            x.gather(1, places),
            x.new_zeros(x.shape).scatter_add(1, places, x),
            torch.clamp_min(x, x[:1]),
            written,
        ]

    arguments = torch.rand(4, 6), torch.randint(6, (4, 6)), torch.rand(1)
    axes = {"x": {0: "rows"}, "places": {0: "rows"}}
    onnx_parity.export(program, arguments, input_names=["x", "places", "w"], dynamic_axes=axes, verify=True)
    asked = {"_prelu_kernel", "all", "any", "any.dim", "amax", "sum.dim_IntList", "mean", "masked_fill.Scalar"}
    asked |= {"index_select", "gather", "scatter_add", "new_zeros", "zeros_like", "copy", "select_scatter"}
    assert asked <= compared("_by_rule"), asked - compared("_by_rule")


def test_an_empty_slice_is_expanded_to_a_size_below_zero() -> None:
    """Where there are no rows, torch leaves the axis as it is: -1 says so. Fake tensors have that size then."""
    exported = onnx_parity.export(
        lambda x: x[1:, None].expand(x.shape[0] - 1, 3, x.shape[1]) + 1,
        (torch.rand(4, 6),), input_names=["x"], dynamic_axes={"x": {0: "rows", 1: "columns"}}, verify=True,
    )  # fmt: skip
    assert exported(torch.rand(0, 6)).shape == (0, 3, 6)


@pytest.mark.parametrize("fewer", [4, 5])
def test_an_expansion_to_a_size_below_zero_is_torchs_error(fewer: int) -> None:
    with pytest.raises(onnx_parity.ExportError):
        onnx_parity.export(
            lambda x: torch.ones(1, 4).expand(x.shape[0] - fewer, 4) + x[:1],
            (torch.rand(3, 4),), input_names=["x"], dynamic_axes={"x": {0: "rows"}},
        )  # fmt: skip


#: Three tensors and a view of each: the query, key and value of an attention. The kernel that torch chooses for some of
#: them returns the query's layout.
_ATTENDED: dict[str, tuple[list[tuple[int, ...]], Callable[[torch.Tensor], torch.Tensor]]] = {
    "contiguous": ([(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)], lambda x: x),
    "heads after positions": ([(2, 5, 3, 8), (2, 7, 3, 8), (2, 7, 3, 8)], lambda x: x.transpose(1, 2)),
    "one position": ([(2, 1, 3, 8), (2, 7, 3, 8), (2, 7, 3, 8)], lambda x: x.transpose(1, 2)),
    "features before positions": ([(2, 3, 8, 5)] * 3, lambda x: x.transpose(2, 3)),
    "expanded": ([(2, 1, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)], lambda x: x.expand(-1, 3, -1, -1)),
    "other features": ([(2, 5, 3, 8), (2, 5, 3, 8), (2, 5, 3, 4)], lambda x: x.transpose(1, 2)),
    "another number of heads": ([(2, 5, 3, 8), (2, 7, 1, 8), (2, 7, 1, 8)], lambda x: x.transpose(1, 2)),
    "one head": ([(2, 5, 8)] * 3, lambda x: x),
}


@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["static", "dynamic"])
@pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
@pytest.mark.parametrize("layout", _ATTENDED)
def test_an_attention_lies_as_a_kernel_of_the_cpu_leaves_it(
    monkeypatch: pytest.MonkeyPatch, layout: str, masked: bool, dynamic: bool
) -> None:
    monkeypatch.setattr(result_cache, "_static_results", {})
    sizes, view = _ATTENDED[layout]
    arguments = [torch.rand(each) for each in sizes]
    query, key = map(view, arguments[:2])
    mask = torch.ones(2, 1, query.shape[-2], key.shape[-2], dtype=torch.bool)
    if masked:
        arguments.append(mask if query.ndim == 4 else mask[0, 0])
    strides = []

    def program(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        result = F.scaled_dot_product_attention(view(query), view(key), view(value), mask)
        found: tuple[Any, ...] = result.stride()
        strides.append([each.node.hint if isinstance(each, torch.SymInt) else each for each in found])
        return result

    program(*arguments)
    names = ["query", "key", "value", "mask"][: len(arguments)]
    axes = {name: {0: "batch"} for name, each in zip(names, arguments, strict=True) if each.ndim == query.ndim}
    onnx_parity.capture_program(program, arguments, input_names=names, dynamic_axes=axes if dynamic else None)
    assert strides[0] == strides[1]  # It is recorded again for inputs that lie otherwise.


def _strided_anew(x: torch.Tensor) -> torch.Tensor:
    y = x[1:].t() * x[:-1].t()
    return torch.as_strided(y, (y.numel(),), (1,), 0) + 1


def _times_its_offset(x: torch.Tensor) -> torch.Tensor:
    y = x[1:].t() * x[:-1].t()
    offset = int(y.storage_offset())
    return x * (offset + 1)


@pytest.mark.parametrize("program", [_strided_anew, _times_its_offset])
def test_a_product_that_lies_as_its_first_factor_has_memory_of_its_own(program: Callable[..., torch.Tensor]) -> None:
    onnx_parity.export(program, (torch.rand(4, 3),), verify=True)


def test_inference_mode_is_only_that_of_its_export() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x.transpose(0, 1) * 2, 0).unsqueeze(0).relu_()

    for inferring in (False, True, False):
        with torch.inference_mode(inferring):
            onnx_parity.export(
                program, (torch.rand(2, 3),), input_names=["x"], dynamic_axes={"x": {0: "rows"}}, verify=True
            )


def test_an_index_out_of_range_is_torchs_error() -> None:
    with pytest.raises(onnx_parity.ExportError, match="index 6 out of range"):
        onnx_parity.export(
            lambda x: x.select(2, 6), (torch.ones(4, 5, 6),), input_names=["x"], dynamic_axes={"x": {0: "rows"}}
        )


#: Beside a tensor of sizes 2, 3 and 4: what it takes in, what it does not, and what lies otherwise in memory.
_OTHERS = (
    torch.rand(2, 3, 4) + 1,
    torch.rand(4) + 1,
    torch.rand(3, 1) + 1,
    torch.rand(5, 2, 3, 4) + 1,
    torch.rand(()) + 1,
    torch.rand((), dtype=torch.float64) + 1,
    torch.tensor(3),
    torch.tensor([3]),
    torch.rand(2, 3, 4, dtype=torch.float16) + 1,
    torch.rand(4, 3, 2).permute(2, 1, 0) + 1,
    torch.rand(2, 3, 8)[..., ::2] + 1,
    2,
    2.5,
)


@pytest.mark.parametrize("varying", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["static", "dynamic"])
def test_rules_agree_with_fake_tensors(compared: Callable[[str], set[str]], varying: bool) -> None:
    samples = (torch.rand(2, 3, 4) + 1, torch.ones(2, 3, 4, dtype=torch.int32), torch.rand(6, 3, 4)[::3] + 1)
    for name in sorted(_POINTWISE):
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
        needed = [arg for arg in schema_of(operator).arguments if not arg.has_default_value() or name == "clamp"]
        second = [str(arg.type) for arg in needed[1:]] or ["None"]

        def calls(tensors: Sequence[torch.Tensor], second: list[str] = second) -> Iterator[tuple[Any, ...]]:
            for first, other in itertools.product(tensors[:3], (*tensors, 2, 2.5)):
                # Torch itself fixes a size where a float makes floats of integers; the rule does not.
                fixes = varying and isinstance(other, float) and not first.is_floating_point()
                if not fixes and (second[0] == "Tensor" or not isinstance(other, torch.Tensor)):
                    yield first, *([] if second == ["None"] else [other] * len(second))

        tensors = [*samples, *(other for other in _OTHERS if isinstance(other, torch.Tensor))]
        if varying:  # With gaps, torch fixes sizes to say how the result lies.
            tensors = [tensor for tensor in tensors if tensor.is_contiguous()]
        rows = {place: {tensor.ndim - 3: "rows"} for place, tensor in enumerate(tensors) if tensor.ndim > 2}
        # Of integers there is no such function, and some sizes do not fit.
        works = [_works(operator, each) for each in calls(tensors)]

        def program(*given: torch.Tensor, operator: Any = operator, calls: Any = calls, works: Any = works) -> Any:
            return tuple(operator(*each) for each in itertools.compress(calls(given), works))

        record(program, tensors, Axes(rows if varying else {}))
    assert compared("_by_rule") >= _POINTWISE


def _works(operator: Callable[..., Any], arguments: Iterable[Any] = ()) -> bool:
    try:
        operator(*arguments)
    except (RuntimeError, ValueError):
        return False
    return True


#: Arguments of convolutions and poolings: sizes, strides, paddings, dilations and whether to round up, right or not.
_WINDOWS = list(itertools.product((1, 2, 3, (2, 3), 7), (1, 2, (1, 2)), (0, 1, (1, 0)), (1, 2), (False, True)))


def _slid(x: torch.Tensor, window: Any) -> list[Callable[[], torch.Tensor]]:
    kernel, stride, padding, dilation, ceil = window
    size = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    return [
        lambda: F.max_pool2d(x, kernel, stride, padding, dilation, ceil),
        lambda: F.avg_pool2d(x, kernel, stride, padding, ceil, count_include_pad=False),
        lambda: F.conv2d(x, torch.rand(4, 4, *size), torch.rand(4), stride, padding, dilation),
        lambda: F.conv2d(x, torch.rand(6, 2, *size), None, stride, padding, dilation, groups=2),
        lambda: F.conv2d(x, torch.rand(6, 3, *size), None, stride, padding, dilation),
        lambda: F.conv_transpose2d(x, torch.rand(4, 2, *size), None, stride, padding),
        lambda: F.conv1d(x[0], torch.rand(2, 4, size[0]), None, size[1], 1, dilation),
        lambda: F.conv3d(x[None].transpose(1, 2), torch.rand(2, 4, 1, *size)),
    ]


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize("axes", one_in(2, [{}, {0: "batch"}, {2: "height"}]), ids=["static", "batch", "height"])
def test_windows_slide_as_fake_tensors_say(
    compared: Callable[[str], set[str]], axes: dict[int, str], many: bool
) -> None:
    # Steps that divide none of the numbers of arguments, so that all of them are among few windows.
    step = (7 if many else 23) if axes else (1 if many else 7)
    images = [torch.rand(shape) for shape in ((2, 4, 7, 6), (2, 4, 3, 3), (2, 4, 6, 7))]
    images[-1] = images[-1].contiguous(memory_format=torch.channels_last)

    def calls(tensors: Sequence[torch.Tensor]) -> Iterator[Callable[[], torch.Tensor]]:
        return (call for x in tensors for window in _WINDOWS[::step] for call in _slid(x, window))

    tensors = images[: 1 if axes else 3]
    fits = [_works(call) for call in calls(tensors)]

    def program(*given: torch.Tensor) -> Any:
        return tuple(call() for call in itertools.compress(calls(given), fits))

    marked = Axes(dict.fromkeys(range(len(tensors)), axes) if axes else {})
    record(program, tensors, marked)
    by_rule = {"convolution", "avg_pool2d", "max_pool2d_with_indices"}
    assert compared("_by_rule") >= (set() if 2 in axes else by_rule)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.rsub(x.long(), 1, alpha=2.5),
        lambda x: torch.nn.functional.batch_norm(x, torch.zeros(3), torch.ones(3)),
        lambda x: torch.nn.functional.batch_norm(x, torch.zeros(1), torch.ones(1)),
        lambda x: torch.batch_norm(x, None, None, None, None, False, 0.1, 1e-5, False),
        lambda x: x.clamp(None, None),
        lambda x: x.to(torch.qint8),
    ],
    ids=["alpha", "channels", "one channel", "no statistics", "no bounds", "quantized"],
)
def test_what_torch_refuses_is_refused(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(onnx_parity.CaptureError, match=r"failed while it was recorded|torch has no kernel for it"):
        onnx_parity.export(program, (torch.rand(2, 4, 3),))


def test_a_default_dtype_is_that_of_the_moment() -> None:
    def in_doubles(x: torch.Tensor) -> torch.Tensor:
        torch.set_default_dtype(torch.float64)
        try:
            return x * 2.5
        finally:
            torch.set_default_dtype(torch.float32)

    x = torch.ones(4, dtype=torch.int64)
    assert onnx_parity.export(in_doubles, (x,))(x).dtype == torch.float64
    assert onnx_parity.export(lambda x: x * 2.5, (x,))(x).dtype == torch.float32


def test_a_float_makes_floats_of_integers_of_any_size() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.aten.mul.Scalar(x, 2.5)
        return result

    exported = onnx_parity.export(
        program, (torch.ones(2, 3, dtype=torch.int32),), dynamic_axes={"x": [0]}, input_names=["x"]
    )
    x = torch.arange(12, dtype=torch.int32).reshape(4, 3)
    assert torch.equal(exported(x), program(x))


def test_what_a_pointwise_function_makes_starts_in_memory_of_its_own() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x * int(torch.relu(x[1:]).storage_offset()) + 1

    x = torch.rand(3, 4)
    assert torch.equal(onnx_parity.export(program, (x,))(x), program(x))


def test_what_is_remembered_from_inference_mode_can_be_used_outside_of_it() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.permute(1, 0).unsqueeze(0) * 2

    x = torch.rand(7, 5)
    with torch.inference_mode():
        inside = onnx_parity.export(program, (x,))
    outside = onnx_parity.export(program, (x,))
    assert torch.equal(inside(x), program(x)) and torch.equal(outside(x), program(x))


@torch.library.custom_op("memo_tests::made", mutates_args=())
def made(count: int = 3) -> torch.Tensor:
    return torch.ones(count)


@made.register_fake
def _(count: int = 3) -> torch.Tensor:
    return torch.empty(count)


def test_a_custom_operator_without_tensors_is_captured() -> None:
    with pytest.raises(onnx_parity.UnsupportedOperatorsError, match="memo_tests::made: there is no lowering for it"):
        onnx_parity.export(lambda x: x + made(3), (torch.ones(3),))


def test_an_operator_without_arguments_beside_dynamic_axes() -> None:
    capture = onnx_parity.capture_program(
        lambda x: x + made(), (torch.ones(2, 3),), input_names=["x"], dynamic_axes={"x": {0: "rows"}}
    )
    assert "memo_tests::made" in capture.operators


def test_as_much_as_is_allowed_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    results: dict[Any, Any] = {}
    monkeypatch.setattr(result_cache, "_static_results", results)
    monkeypatch.setattr(result_cache, "_MOST", 10)
    for size in range(2, 40):
        onnx_parity.export(lambda x: (x.cumsum(0) + 1).t().exp(), (torch.ones(size, 2),))
        assert len(results) <= 10


def _squeezes_what_it_has_chosen(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x[x[:, 0] > 0]
    y = y.squeeze(0).sum(0).reshape(-1, 1)
    return y, x + 1


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_what_is_asked_for_a_result_is_asked_again_where_statements_are_recorded_again() -> None:
    program = onnx_parity.export(
        _squeezes_what_it_has_chosen, (torch.tensor([[1.0, 2, 3], [-1, 2, 3]]),), dynamic_shapes=({0: "n"},)
    )
    assert [each.condition for each in program.assumptions] == ["number_1 == 1"]
