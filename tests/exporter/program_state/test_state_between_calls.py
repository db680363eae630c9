"""State that programs keep in Python between calls is warned of; caches, counters and results are not."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnx_parity
from onnx_parity.exporter.program_state.saved_objects import ClassAttributes
from onnx_parity.exporter.torch_inside.patch import FunctionAttribute

_X = torch.randn(2, 3)


class _Holder:
    def __init__(self) -> None:
        self.last: Any = None
        self.calls = 0

    def step(self, x: Tensor) -> Any:
        found = x if self.last is None else x + 0.1 * self.last
        self.last, self.calls = x, self.calls + 1
        return found


class _Keeping(nn.Module):
    """A module that keeps something, as a function of it and the input does."""

    def __init__(self, function: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.step, self.last, self.size = 0, None, 0
        self.seen: list[Tensor] = []
        self.table: dict[Any, Any] = {}
        self.holder = _Holder()
        self.scale = torch.ones(3)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def _counted(self: Any, x: Tensor) -> Any:
    self.step += 1
    return x * self.step


def _appended(self: Any, x: Tensor) -> Any:
    self.seen.append(x.mean())
    return x - torch.stack(self.seen).mean()


def _smoothed(self: Any, x: Tensor) -> Any:
    self.last = x if self.last is None else self.last * 0.5 + x
    return self.last


def _with_momentum(self: Any, x: Tensor) -> Any:
    if "speed" not in self.table:
        self.table["speed"] = torch.zeros_like(x)
    self.table["speed"] = 0.9 * self.table["speed"] + x
    return self.table["speed"]


def _solved(self: Any, x: Tensor) -> Any:
    return self.holder.step(x)


def _kept_input(self: Any, x: Tensor) -> Any:
    if self.last is None:
        self.last = x.sum(0)
    return x + self.last


@pytest.mark.parametrize(
    ("function", "name", "line"),
    [
        (_counted, "step", "self.step += 1"),
        (_appended, "seen", "self.seen.append"),
        (_smoothed, "last", "self.last = x if"),
        (_with_momentum, "table['speed']", "self.table"),
        (_solved, "holder.last, holder.calls", "self.last, self.calls"),
        (_kept_input, "last", "self.last = x.sum"),
    ],
)
@pytest.mark.parametrize("dynamic", [None, ({0: "rows"},)])
def test_what_a_later_call_computes_with_is_said(
    function: Callable[[Any, Tensor], Any], name: str, line: str, dynamic: tuple[dict[int, str]] | None
) -> None:
    program = _Keeping(function)
    with pytest.warns(onnx_parity.DroppedWriteWarning) as warned:
        exported = onnx_parity.export(program, (_X,), dynamic_shapes=dynamic)
    (said,) = warned
    assert f"the program keeps {name} from one call to the next" in str(said.message)
    with open(said.filename) as source:
        assert line in source.readlines()[said.lineno - 1]
    # The next call of the program is the first one.
    torch.testing.assert_close(exported(_X), program(_X))
    with pytest.raises(onnx_parity.CaptureError, match="from one call to the next"):
        onnx_parity.export(_Keeping(function), (_X,), dynamic_shapes=dynamic, strict=True)


_smoothed_sum = torch.zeros(3)


def _in_a_global(x: Tensor) -> Tensor:
    global _smoothed_sum  # noqa: PLW0603
    _smoothed_sum = _smoothed_sum * 0.5 + x.mean(0)
    return x - _smoothed_sum


def _in_a_variable() -> Callable[[Tensor], Any]:
    smoothed = torch.zeros(3)

    def program(x: Tensor) -> Tensor:
        nonlocal smoothed
        smoothed = smoothed * 0.5 + x.mean(0)
        return x - smoothed

    return program


_speeds: dict[str, Tensor] = {}


def _in_a_dict(x: Tensor) -> Tensor:
    _speeds["x"] = x * 0.5 if "x" not in _speeds else _speeds["x"] * 0.5 + x
    return _speeds["x"]


@pytest.mark.parametrize(
    ("program", "name"), [(_in_a_dict, "_speeds['x']"), (_in_a_global, "_smoothed_sum"), (_in_a_variable(), "smoothed")]
)
def test_globals_and_variables_are_state_too(program: Callable[[Tensor], Tensor], name: str) -> None:
    with pytest.warns(onnx_parity.DroppedWriteWarning, match=re.escape(f"keeps {name} from one call")):
        onnx_parity.export(program, (_X,))


def _table_that_grows(self: Any, x: Tensor) -> Any:
    if self.last is None or x.shape[0] > self.size:
        self.last, self.size = torch.arange(x.shape[0]).float(), x.shape[0]
    return x + self.last[: x.shape[0], None]


def _counter_alone(self: Any, x: Tensor) -> Any:
    self.step += 1
    return x * 2


def _looked_at_from_outside(self: Any, x: Tensor) -> Any:
    self.last = x * 2
    self.seen.append(self.last.mean())
    self.table["found"] = self.last
    return self.last + 1


def _tables_by_size(self: Any, x: Tensor) -> Any:
    if x.shape[-1] not in self.table:
        self.table[x.shape[-1]] = torch.ones(x.shape[-1])
    return x * self.table[x.shape[-1]]


def _collected_anew(self: Any, x: Tensor) -> Any:
    self.seen = []
    self.seen.append(x.mean())
    return x + sum(self.seen)


def _weights_made_from_weights(self: Any, x: Tensor) -> Any:
    self.last = self.scale / self.scale.norm()
    return x * self.last


def _random_in_each_call(self: Any, x: Tensor) -> Any:
    self.step += 1
    return nn.functional.dropout(x, 0.5, True) + torch.randn(3)


def _of_chosen(self: Any, x: Tensor) -> Any:
    self.step += 1
    chosen = x[x > 0]
    return chosen * chosen.shape[0]


@pytest.mark.parametrize(
    "function",
    [
        _table_that_grows, _counter_alone, _looked_at_from_outside, _tables_by_size, _collected_anew,
        _weights_made_from_weights, _random_in_each_call, _of_chosen,
    ],
)  # fmt: skip
@pytest.mark.parametrize("dynamic", [None, ({0: "rows"},)])
def test_what_is_no_state_is_not_said(
    function: Callable[[Any, Tensor], Any], dynamic: tuple[dict[int, str]] | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnx_parity.DroppedWriteWarning)
        onnx_parity.export(_Keeping(function), (_X,), dynamic_shapes=dynamic)


def test_what_a_patch_has_put_there_is_no_change() -> None:
    class Owner:
        def size(self) -> int:
            return 1

    place = ClassAttributes(Owner, dict(vars(Owner)))
    patch = FunctionAttribute(Owner, "size", lambda replaced, owner: replaced(owner) + 1)
    assert patch.put_in()
    assert not [*place.changes()]
    patch.take_out()
    Owner.size = lambda self: 3  # type: ignore[method-assign]
    assert [each.key for each in place.changes()] == ["size"]
