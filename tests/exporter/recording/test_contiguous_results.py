"""Tests of the shapes of results that are known without torch's fake kernels: they are what torch computes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from onnx_parity.exporter.operators.shape.results import strides_of_view
from onnx_parity.exporter.recording.fakes.fake_mode import Fakes
from onnx_parity.exporter.recording.fakes.metadata import describe
from onnx_parity.exporter.recording.fakes.result_cache import ResultMemo
from onnx_parity.exporter.registry.results import Contiguous, Strided, rule_for
from onnx_parity.exporter.sizes.symbols import Symbols
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.modes import TorchDispatchMode

_aten = torch.ops.aten


def _by_rule(name: str, args: tuple[Any, ...], **kwargs: Any) -> Any:
    """What the rule of an operator says, as a list of descriptions or None."""
    rule = rule_for(f"aten::{name}")
    assert rule is not None
    found = rule.function(*args, **kwargs)
    if found is NotImplemented:
        return None
    return list(found) if type(found) is tuple else [found]


def _int(*sizes: Any) -> torch.Tensor:
    return torch.empty(sizes, dtype=torch.int64)


def _bool(*sizes: Any) -> torch.Tensor:
    return torch.empty(sizes, dtype=torch.bool)


@pytest.fixture(name="fakes")
def _fakes() -> Fakes:
    return Fakes(Symbols())


def _arguments(fakes: Fakes, make: Callable[[Any, Any], tuple[Any, ...]]) -> tuple[Any, ...]:
    assert fakes.symbols is not None
    with fakes:
        return make(fakes.symbols.new_size("batch", 3), fakes.symbols.new_size("length", 7))


_KNOWN: dict[str, tuple[Any, Callable[[Any, Any], tuple[Any, ...]]]] = {
    "matmul": (_aten.matmul.default, lambda b, n: (torch.empty(b, 4, n, 5), torch.empty(b, 4, 5, n))),
    "matmul of a matrix": (_aten.matmul.default, lambda b, n: (torch.empty(b, n, 5), torch.empty(5, 6))),
    "matmul of one batch": (_aten.matmul.default, lambda b, n: (torch.empty(b, 4, n, 5), torch.empty(1, 1, 5, 6))),
    "matmul transposed": (_aten.matmul.default, lambda b, n: (torch.empty(b, n, 5), torch.empty(b, n, 5).mT)),
    "bmm": (_aten.bmm.default, lambda b, n: (torch.empty(b, n, 5), torch.empty(b, 5, n))),
    "linear": (_aten.linear.default, lambda b, n: (torch.empty(b, n, 5), torch.empty(6, 5), torch.empty(6))),
    "linear of a vector": (_aten.linear.default, lambda b, n: (torch.empty(n), torch.empty(6, n))),
    "addmm": (_aten.addmm.default, lambda b, n: (torch.empty(6), torch.empty(n, 5), torch.empty(5, 6))),
    "cumsum": (_aten.cumsum.default, lambda b, n: (torch.empty(b, n), 1)),
    "cumsum of booleans": (_aten.cumsum.default, lambda b, n: (_bool(b, n), -1)),
    "cumprod": (_aten.cumprod.default, lambda b, n: (_int(b, n), 0)),
    "mean.dim": (_aten.mean.dim, lambda b, n: (torch.empty(b, 4, n, 5), [2, -1])),
    "mean.dim with its axes": (_aten.mean.dim, lambda b, n: (torch.empty(b, 4, n), [-1], True)),
    "mean.dim of everything": (_aten.mean.dim, lambda b, n: (torch.empty(b, n), None)),
    "native_layer_norm": (
        _aten.native_layer_norm.default,
        lambda b, n: (torch.empty(b, n, 5), [5], torch.empty(5), None, 1e-5),
    ),
    "native_layer_norm of another layout": (
        _aten.native_layer_norm.default,
        lambda b, n: (torch.empty(b, 5, n).mT, [5], None, None, 1e-5),
    ),
    "native_group_norm": (
        _aten.native_group_norm.default,
        lambda b, n: (torch.empty(b, 6, n), torch.empty(6), torch.empty(6), b, 6, n, 2, 1e-5),
    ),
    "embedding": (_aten.embedding.default, lambda b, n: (torch.empty(9, 4), _int(b, n))),
    "index.Tensor": (_aten.index.Tensor, lambda b, n: (torch.empty(b, n, 5), [_int(b, 1), _int(2, 1, n)])),
    "index.Tensor of another layout": (_aten.index.Tensor, lambda b, n: (torch.empty(n, 5), [_int(4, b).T])),
    "index.Tensor along all axes": (_aten.index.Tensor, lambda b, n: (torch.empty(b, n).T, [_int(b, 1), _int(n)])),
    "gelu": (_aten.gelu.default, lambda b, n: (torch.empty(b, n),)),
    "_softmax": (_aten._softmax.default, lambda b, n: (torch.empty(b, n), -1, False)),
    "clone": (_aten.clone.default, lambda b, n: (torch.empty(b, n),)),
    "roll": (_aten.roll.default, lambda b, n: (torch.empty(b, n), [2], [1])),
    "fill.Scalar": (_aten.fill.Scalar, lambda b, n: (_int(b, n), 2)),
    "where.self": (_aten.where.self, lambda b, n: (_bool(b, 1, n), torch.empty(b, 4, 1), torch.empty(()))),
    "div.Tensor": (_aten.div.Tensor, lambda b, n: (torch.empty(b, 1), torch.empty(1, n))),
    "add.Tensor": (_aten.add.Tensor, lambda b, n: (_int(b, 1, n), _int(n))),
    "add.Tensor of another layout": (_aten.add.Tensor, lambda b, n: (torch.empty(b, n), torch.empty(n, b).T)),
    "bitwise_and.Tensor": (_aten.bitwise_and.Tensor, lambda b, n: (_bool(b, 1), _bool(b, n))),
    "le.Tensor": (_aten.le.Tensor, lambda b, n: (torch.empty(n), torch.empty(b, 1))),
}


@pytest.mark.parametrize("case", _KNOWN)
def test_results_are_those_of_torch(fakes: Fakes, case: str) -> None:
    op, make = _KNOWN[case]
    args = _arguments(fakes, make)
    found = _by_rule(case.partition(" ")[0], args)
    assert found is not None
    with fakes:
        expected = op(*args)
    for known, tensor in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert isinstance(tensor, FakeTensor)
        assert known.dtype == tensor.dtype
        assert [str(size) for size in known.shape] == [str(size) for size in tensor.shape]
        assert isinstance(known, Contiguous) and describe(tensor).is_contiguous


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("matmul", lambda b, n: (torch.empty(n, 5), torch.empty(b, 5, 6))),
        ("matmul", lambda b, n: (torch.empty(b, n), torch.empty(b, n))),
        ("bmm", lambda b, n: (torch.empty(b, 2, 5), torch.empty(1, 5, 2))),
        ("add.Tensor", lambda b, n: (torch.empty(b), torch.empty(n))),
        ("add.Tensor", lambda b, n: (torch.empty(b), _int(b))),
        ("sub.Tensor", lambda b, n: (_bool(b), _bool(b))),
        ("div.Tensor", lambda b, n: (_int(b), _int(b))),
        ("_softmax", lambda b, n: (torch.empty(b), 1, False)),
        ("roll", lambda b, n: (torch.empty(b, n), [1, 2], [0])),
        ("fill.Tensor", lambda b, n: (torch.empty(b), torch.empty(1))),
        ("native_layer_norm", lambda b, n: (torch.empty(b, n), [4], None, None, 1e-5)),
        ("index.Tensor", lambda b, n: (torch.empty(b, n), [_int(b), _int(n)])),
        ("linear", lambda b, n: (torch.empty(b, n), torch.empty(6, 5))),
        ("linear", lambda b, n: (torch.empty(b, 5), torch.empty(6, 5), torch.empty(1))),
        ("addmm", lambda b, n: (torch.empty(n, 1), torch.empty(n, 5), torch.empty(5, 6))),
        ("cumsum", lambda b, n: (torch.empty(b, n), 2)),
        ("mean.dim", lambda b, n: (_int(b, n), [0])),
        ("mean.dim", lambda b, n: (torch.empty(b, n), [0, -2])),
    ],
)
def test_what_depends_on_values_or_is_wrong_is_left_to_torch(
    fakes: Fakes, name: str, make: Callable[[Any, Any], tuple[Any, ...]]
) -> None:
    assert _by_rule(name, _arguments(fakes, make)) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: (torch.empty(5, 3), [None, _int(7)]),
        lambda: (torch.empty(5, 3).T, [_int(7)]),
        lambda: (torch.empty(3, 5), [_bool(3)]),
    ],
    ids=["second axis", "another layout", "mask"],
)
def test_an_index_of_static_sizes_is_left_to_torch(make: Callable[[], tuple[Any, ...]]) -> None:
    with Fakes(None):
        args = make()
    assert _by_rule("index.Tensor", args) is None


_VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transpose": lambda x: x.transpose(0, -1),
    "permute": lambda x: x.permute(2, 0, -2),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "unsqueeze first": lambda x: x.unsqueeze(0),
    "select": lambda x: x.select(-1, -1),
    "select by a dynamic size": lambda x: x.select(1, 2),
    "permute of a transposed tensor": lambda x: x.mT.permute(1, 2, 0).unsqueeze(1),
}


def _through(memo: ResultMemo) -> TorchDispatchMode:
    class Through(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return memo.result(func, types, args, kwargs or {}, in_block=False)

    mode: TorchDispatchMode = Through()  # type: ignore[no-untyped-call]
    return mode


@pytest.mark.parametrize("view", _VIEWS)
def test_views_with_dynamic_sizes_are_those_of_torch(fakes: Fakes, view: str) -> None:
    (x,) = _arguments(fakes, lambda b, n: (torch.empty(b, n, 5),))
    memo = ResultMemo(fakes)
    with fakes:
        expected = describe(_fake(_VIEWS[view](x)))
    for _ in range(2):
        with _through(memo):
            found = _fake(_VIEWS[view](x))
        assert describe(found) == expected
        assert found.fake_mode is fakes


def test_an_impossible_permutation_is_refused_by_torch(fakes: Fakes) -> None:
    (x,) = _arguments(fakes, lambda b, n: (torch.empty(b, n, 5),))
    with pytest.raises((RuntimeError, ValueError), match="permut"):
        ResultMemo(fakes).result(_aten.permute.default, (), (x, [0, 0, 1]), {}, in_block=False)


def test_new_tensors_are_those_of_torch(fakes: Fakes) -> None:
    (x,) = _arguments(fakes, lambda b, n: (torch.empty(b, n, 5),))
    with fakes:
        made = [torch.empty(x.shape), torch.empty(x.shape, dtype=torch.int8), torch.empty(x.shape, device="meta")]
        images = torch.empty((*x.shape, 7), memory_format=torch.channels_last)
    assert [each.dtype for each in made] == [torch.float32, torch.int8, torch.float32]
    assert [str(each.device) for each in made] == ["cpu", "cpu", "meta"]
    assert [str(size) for size in made[1].shape] == [str(size) for size in x.shape]
    assert describe(made[0]).is_contiguous and not describe(images).is_contiguous


_TRANSPOSED: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]] = {
    "heads": lambda x: (x.transpose(1, 2), torch.ones(x.shape[1], 6)),
    "heads of a contiguous tensor": lambda x: (x.transpose(1, 2), torch.ones(x.transpose(1, 2).shape)),
    "the last axes": lambda x: (x.mT, torch.ones(())),
    "beside another order": lambda x: (x.transpose(1, 2), x.permute(0, 2, 1, 3)),
}


@pytest.mark.parametrize("case", _TRANSPOSED)
@pytest.mark.parametrize("name", ["add.Tensor", "mul.Tensor", "maximum", "div.Tensor"])
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_a_transposed_first_tensor_determines_the_layout(name: str, case: str, is_dynamic: bool) -> None:
    fakes = Fakes(Symbols() if is_dynamic else None)
    sizes = [fakes.symbols.new_size("batch", 3), fakes.symbols.new_size("length", 7)] if fakes.symbols else [3, 7]
    with fakes:
        args = _TRANSPOSED[case](torch.empty(*sizes, 4, 6))
        expected = getattr(torch, name.removesuffix(".Tensor"))(*args)
    (found,) = _by_rule(name, args)
    assert isinstance(found, Strided) and found[1:] == (args[0].shape, args[0].stride())
    assert describe(args[0]) == describe(expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: (x.transpose(1, 2), torch.ones(3, 4, 7, 6, dtype=torch.float64)),
        lambda x: (x.permute(0, 3, 1, 2), torch.ones(())),
        lambda x: (x[..., ::2].transpose(1, 2), torch.ones(())),
        lambda x: (x.transpose(1, 2), torch.ones(2, 3, 4, 7, 6)),
    ],
    ids=["another dtype", "two transpositions", "every other", "another rank"],
)
def test_another_first_tensor_does_not(make: Callable[[torch.Tensor], tuple[torch.Tensor, ...]]) -> None:
    with Fakes(None):
        args = make(torch.empty(3, 7, 4, 6))
    assert _by_rule("add.Tensor", args) is None


def _fake(tensor: torch.Tensor) -> FakeTensor:
    assert isinstance(tensor, FakeTensor)
    return tensor


_LAYOUTS = {
    "transposed": lambda: torch.rand(4, 3, 2).permute(2, 1, 0),
    "as long axes": lambda: torch.rand(3, 2, 4).transpose(0, 1),
    "expanded": lambda: torch.rand(2, 1, 1).expand(2, 3, 4),
    "every other": lambda: torch.rand(2, 3, 8)[..., ::2],
    "shorter": lambda: torch.rand(4, 3).T,
    "of one element": lambda: torch.rand(4, 3, 1).permute(2, 1, 0),
}


@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize("name", ["add.Tensor", "mul.Tensor", "maximum", "le.Tensor", "div.Tensor"])
def test_two_tensors_of_different_layouts_result_in_that_of_the_first(name: str, layout: str) -> None:
    first, second = torch.rand(2, 3, 4), _LAYOUTS[layout]()
    args = tuple(map(Fakes(None).from_tensor, (first, second)))
    (found,) = _by_rule(name, args)
    assert isinstance(found, Contiguous)
    result = getattr(torch, name.removesuffix(".Tensor"))(first, second)
    assert (found.dtype, found.shape, result.is_contiguous()) == (result.dtype, result.shape, True)


@pytest.mark.parametrize("sizes", [(2, 1, 4), (1, 3, 4)], ids=["equal strides", "another shape"])
def test_a_first_tensor_that_does_not_determine_the_layout_is_left_to_torch(sizes: tuple[int, ...]) -> None:
    args = tuple(map(Fakes(None).from_tensor, (torch.rand(sizes), torch.rand(4, sizes[1], 2).permute(2, 1, 0))))
    assert _by_rule("add.Tensor", args) is None


@pytest.mark.slow
def test_results_that_are_said_to_lie_in_order_do() -> None:
    drawn = random.Random(0)

    def draw(sizes: Sequence[int]) -> torch.Tensor:
        """A tensor that is broadcast to these sizes, whose axes lie in any order, with gaps or repeated."""
        own = [1 if drawn.random() < 0.3 else size for size in sizes]
        order = drawn.sample(range(len(own)), len(own))
        x = torch.rand([own[axis] for axis in order]).permute([order.index(axis) for axis in range(len(own))])
        x = x.repeat_interleave(2, drawn.randrange(len(own))) if drawn.random() < 0.2 else x
        return x[tuple(slice(0, size) for size in own)].expand(sizes if drawn.random() < 0.2 else own)

    in_order = 0
    for _ in range(500):
        sizes = [drawn.choice((1, 2, 3, 4)) for _ in range(drawn.randint(1, 4))]
        args = draw(sizes), draw(sizes)
        found = _by_rule("add.Tensor", tuple(map(Fakes(None).from_tensor, args)))
        if found and isinstance(found[0], Contiguous):
            in_order += 1
            assert torch.add(*args).stride() == torch.empty(found[0].shape).stride(), [
                (x.shape, x.stride()) for x in args
            ]
    assert in_order > 100


def test_a_keyword_argument_without_a_rule_is_left_to_torch(fakes: Fakes) -> None:
    args = _arguments(fakes, lambda b, n: (torch.empty(b), torch.empty(b)))
    assert _by_rule("add.Tensor", args, alpha=2) is None


def test_arithmetic_on_sizes_is_computed_once(fakes: Fakes) -> None:
    symbols = fakes.symbols
    assert symbols is not None
    batch, length = symbols.new_size("batch", 3), symbols.new_size("length", 7)
    first, second = batch * length + 1, batch * length + 1
    assert first.node is second.node
    assert str(first.node.expr) == str(batch.node.expr * length.node.expr + 1)
    assert (batch - length).node is not (length - batch).node
    assert int(symbols.number_in_example(first, {})) == 22


def test_strides_of_views_are_those_of_torch() -> None:
    numbers = random.Random(0)
    known = 0
    for _ in range(2000):
        x = torch.empty([numbers.choice([1, 2, 3, 4, 6]) for _ in range(numbers.randint(1, 4))])
        x = x.permute(numbers.sample(range(x.ndim), x.ndim))
        x = numbers.choice([x, x[..., ::2], x.expand(3, *x.shape)])
        sizes, left = [], x.numel()
        for _ in range(numbers.randint(0, 3)):
            sizes.append(numbers.choice([each for each in range(1, left + 1) if left % each == 0]))
            left //= sizes[-1]
        sizes.insert(numbers.randint(0, len(sizes)), left)
        try:
            expected = list(x.view(sizes).stride())
        except RuntimeError:
            assert strides_of_view(x, sizes) is None
        else:
            known += 1
            assert strides_of_view(x, sizes) == expected
    assert known > 500
