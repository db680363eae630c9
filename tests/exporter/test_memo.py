"""What the memo says without torch's fake tensors is what they say."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

import exporter
from exporter.axes import Axes
from exporter.capture import memo
from exporter.capture.trace import trace
from harness.cases.opinfo_samples import all_entries


def described(result: Any) -> list[Any]:
    results = result if isinstance(result, (list, tuple)) else [result]
    return [_described(each) if isinstance(each, FakeTensor) else type(each) for each in results]


def _described(x: FakeTensor) -> tuple[Any, ...]:
    return x.dtype, x.shape, x.stride(), x.storage_offset(), x.fake_device


def test_kernels_say_what_fake_tensors_say(monkeypatch: pytest.MonkeyPatch) -> None:
    compared, unlike = set(), []
    by_kernel = memo.ResultMemo._by_kernel

    def checked(self: Any, func: OpOverload, args: Any, kwargs: Any) -> Any:
        found = by_kernel(self, func, args, kwargs)
        if found is not None:
            made = [FakeTensor(self._fakes, *each) for each in (found if isinstance(found, list) else [found])]
            expected = described(self._fakes.dispatch(func, (), args, kwargs))
            compared.add(func)
            if described(made) != expected:
                unlike.append(f"{func}: {described(made)}, and by fake tensors {expected}")
        return found

    monkeypatch.setattr(memo, "_static_results", {})
    monkeypatch.setattr(memo.ResultMemo, "_by_kernel", checked)
    for entry in list(all_entries().values())[::6]:
        if torch.float32 not in entry.dtypes:
            continue
        for sample in itertools.islice(entry.sample_inputs("cpu", torch.float32), 3):
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
                trace(
                    program,
                    [leaves[place] for place in places],
                    {},
                    input_names=[f"x{place}" for place in places],
                    axes=Axes({}),
                    decomposition_of=lambda op: None,
                )
            except exporter.ExportError:
                continue  # What cannot be recorded is another test's.
    assert len(compared) > 50
    assert not unlike, "\n".join(unlike)


def test_what_is_remembered_from_inference_mode_can_be_used_outside_of_it() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.permute(1, 0).unsqueeze(0) * 2

    x = torch.rand(7, 5)
    with torch.inference_mode():
        inside = exporter.export(program, (x,))
    outside = exporter.export(program, (x,))
    assert torch.equal(inside(x), program(x)) and torch.equal(outside(x), program(x))


@torch.library.custom_op("memo_tests::made", mutates_args=())
def made(count: int) -> torch.Tensor:
    return torch.ones(count)


@made.register_fake
def _(count: int) -> torch.Tensor:
    return torch.empty(count)


def test_a_custom_operator_without_tensors_is_captured() -> None:
    with pytest.raises(exporter.UnsupportedOperatorsError, match="memo_tests::made: there is no lowering for it"):
        exporter.export(lambda x: x + made(3), (torch.ones(3),))


def test_as_much_as_is_allowed_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    results: dict[Any, Any] = {}
    monkeypatch.setattr(memo, "_static_results", results)
    monkeypatch.setattr(memo, "_MOST", 10)
    for size in range(2, 40):
        exporter.export(lambda x: (x.cumsum(0) + 1).t().exp(), (torch.ones(size, 2),))
        assert len(results) <= 10
