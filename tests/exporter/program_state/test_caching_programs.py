"""Programs that store tensors from one call to the next: they are unchanged after an export."""

from __future__ import annotations

import functools
import gc
import sys
import threading
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from tests.exporter.subjects import assert_agrees
from tests.thinned import one_in

X = torch.linspace(-1, 1, 12).reshape(3, 4)

_cached: torch.Tensor | None = None
_length = 0
_table: dict[Any, Any] = {}


def angles(length: int) -> torch.Tensor:
    return torch.arange(length).float() / 10


def kept_in_table(x: torch.Tensor) -> torch.Tensor:
    if "angles" not in _table:
        _table["angles"] = angles(4) + x[0] * 0
    result: torch.Tensor = _table["angles"]
    return result


def in_a_closure_dict() -> Callable[..., Any]:
    cache: dict[str, torch.Tensor] = {}

    def program(x: torch.Tensor) -> torch.Tensor:
        if "angles" not in cache:
            cache["angles"] = angles(4) + x[0] * 0
        return x + cache["angles"]

    return program


def in_a_default() -> Callable[..., Any]:
    def program(x: torch.Tensor, cache: list[torch.Tensor] = []) -> torch.Tensor:  # noqa: B006
        if not cache:
            cache.append(angles(4))
        return x + cache[0]

    return program


def in_a_variable() -> Callable[..., Any]:
    kept: torch.Tensor | None = None

    def program(x: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        if kept is None:
            kept = angles(4)
        return x + kept

    return program


def in_a_global() -> Callable[..., Any]:
    def program(x: torch.Tensor) -> torch.Tensor:
        global _cached, _length
        if x.shape[1] > _length:
            _length, _cached = x.shape[1], angles(x.shape[1])
        assert _cached is not None
        return x + _cached

    return program


def in_a_global_dict() -> Callable[..., Any]:
    def program(x: torch.Tensor) -> torch.Tensor:
        kept: torch.Tensor = _table.setdefault("angles", (angles(4), 3))[0]
        return x + kept

    return program


@functools.lru_cache(maxsize=8)
def _bounded(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    return angles(length).sin(), angles(length).cos()


@functools.cache
def _unbounded(length: int) -> dict[str, torch.Tensor]:
    return {"sin": angles(length).sin(), "cos": angles(length).cos()}


def in_an_lru_cache() -> Callable[..., Any]:
    _bounded.cache_clear()
    return lambda x: x * _bounded(4)[0] + _bounded(4)[1]


def in_an_unbounded_cache() -> Callable[..., Any]:
    _unbounded.cache_clear()
    return lambda x: x * _unbounded(4)["sin"] + _unbounded(4)["cos"]


class Table:
    shared: torch.Tensor | None = None

    def __init__(self) -> None:
        self.length = 0
        self.sin: torch.Tensor | None = None

    def of(self, length: int) -> torch.Tensor:
        if length > self.length:
            self.length, self.sin = length, angles(length).sin()
        assert self.sin is not None
        return self.sin


class HasTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = Table()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table.of(x.shape[1])


class SharesTable(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if Table.shared is None:
            Table.shared = angles(4)
        return x + Table.shared


class RegistersLate(nn.Module):
    """As older rotary embeddings of transformers do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "cos" not in self._buffers:
            self.register_buffer("cos", angles(x.shape[1]).cos(), persistent=False)
        return x * self.get_buffer("cos")


class CachedMethod(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self._angles

    @functools.cached_property
    def _angles(self) -> torch.Tensor:
        return angles(4)


class InAMethod(nn.Module):
    """The only function that names the cache is found by the name of the method."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.kept(x)

    def kept(self, x: torch.Tensor) -> torch.Tensor:
        return kept_in_table(x)

    def unused(self) -> None:
        raise AssertionError


class InAMethodOfAName(InAMethod):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + getattr(self, "kept")(x)  # noqa: B009
        return result


class InAProperty(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.angles

    @property
    def angles(self) -> torch.Tensor:
        return kept_in_table(X)


class InWhatTorchCalls(nn.TransformerEncoderLayer):
    def __init__(self) -> None:
        super().__init__(4, 1, 4, dropout=0.0, batch_first=True)
        for weight in self.parameters():
            nn.init.constant_(weight, 0.5)

    def _ff_block(self, x: torch.Tensor) -> torch.Tensor:
        return kept_in_table(x)


@dataclass(slots=True)
class Slotted:
    value: torch.Tensor | None = None


class HasSlots(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept = Slotted()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kept.value is None:
            self.kept.value = angles(4)
        return x + self.kept.value


class CallsModule:
    """A callable that is no module, and holds one that keeps a tensor."""

    def __init__(self) -> None:
        self.inner = RegistersLate()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(x)
        return result


def in_a_hook() -> nn.Module:
    kept: torch.Tensor | None = None

    def hook(module: nn.Module, args: Any, result: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        if kept is None:
            kept = angles(4)
        return result + kept

    linear = nn.Linear(4, 4)
    nn.init.eye_(linear.weight)
    nn.init.zeros_(linear.bias)
    linear.register_forward_hook(hook)
    return linear


def in_an_ordered_dict() -> Callable[..., Any]:
    cache: OrderedDict[int, Any] = OrderedDict([(1, torch.ones(1)), (2, torch.ones(2))])

    def program(x: torch.Tensor) -> torch.Tensor:
        if 4 not in cache:
            cache.popitem(last=False)
            cache[4] = [angles(4)]
        kept: torch.Tensor = cache[4][0]
        return x + kept

    return program


def in_a_thread_local() -> Callable[..., Any]:
    local = threading.local()

    def program(x: torch.Tensor) -> torch.Tensor:
        if not hasattr(local, "angles"):
            local.angles = angles(4)
        result: torch.Tensor = x + local.angles
        return result

    return program


PROGRAMS: list[Callable[[], Callable[..., Any]]] = [
    in_a_closure_dict, in_a_default, in_a_variable, in_a_global, in_a_global_dict, in_an_lru_cache,
    in_an_unbounded_cache, in_an_ordered_dict, in_a_thread_local, HasTable, SharesTable, RegistersLate, CachedMethod,
    HasSlots, CallsModule, in_a_hook, InAMethod, InAMethodOfAName, InAProperty, InWhatTorchCalls,
]  # fmt: skip


@pytest.fixture(autouse=True)
def fresh() -> None:
    global _cached, _length
    _cached, _length = None, 0
    _table.clear()
    Table.shared = None


def fresh_of(make: Callable[[], Callable[..., Any]]) -> torch.Tensor:
    """What the program gives where nothing was exported before."""
    result: torch.Tensor = make()(X)
    global _cached, _length
    _cached, _length = None, 0
    _table.clear()
    Table.shared = None
    return result


@pytest.mark.parametrize("make", one_in(2, PROGRAMS))
def test_a_cache_does_not_keep_what_the_recording_made(make: Callable[[], Callable[..., Any]]) -> None:
    expected = fresh_of(make)
    program = make()
    exported = [onnx_parity.export(program, (X,), verify=number == 1) for number in range(2)]
    torch.testing.assert_close(program(X), expected)
    assert exported[0].serialize() == exported[1].serialize()
    assert_agrees(exported[0], program, X)


@pytest.mark.parametrize("make", one_in(2, PROGRAMS))
def test_nor_what_one_that_failed_has_made(make: Callable[[], Callable[..., Any]]) -> None:
    expected = fresh_of(make)
    program = make()

    def fails(x: torch.Tensor) -> torch.Tensor:
        program(x)
        raise ValueError("no good")

    with pytest.raises(onnx_parity.CaptureError, match="no good"):
        onnx_parity.export(fails, (X,))
    torch.testing.assert_close(program(X), expected)


@pytest.mark.parametrize("make", [in_a_closure_dict, HasTable, in_an_lru_cache])
def test_a_recording_that_needs_several_attempts(make: Callable[[], Callable[..., Any]]) -> None:
    program = make()

    def chooses(x: torch.Tensor) -> Any:
        return (program(x), x[x > 0])

    exported = onnx_parity.export(chooses, (X,), verify=True)
    assert len(exported.output_names) == 2
    torch.testing.assert_close(program(X), make()(X))


def test_what_is_kept_of_real_tensors_stays() -> None:
    program = in_a_closure_dict()
    expected = program(X)
    cells = program.__closure__
    assert cells is not None
    kept = dict(cells[0].cell_contents)
    onnx_parity.export(program, (X,), verify=True)
    assert cells[0].cell_contents == kept
    torch.testing.assert_close(program(X), expected)


def test_what_is_no_tensor_is_left_alone() -> None:
    """A program that counts its calls, or collects what it was called with, is not held back from it."""
    shapes: list[Any] = []

    def program(x: torch.Tensor) -> torch.Tensor:
        shapes.append(type(x))
        return x + 1

    onnx_parity.export(program, (X,))
    assert shapes == [torch.Tensor]


#: The name of a module, which no function names.
_ELSEWHERE = "elsewhere_of_tests"


def elsewhere(source: str, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A file of another author, that the program only calls."""
    module = types.ModuleType(_ELSEWHERE)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(source, vars(module))
    return module


REACHED = """
import torch
from collections import deque, defaultdict
cache, items, recent, members, nested = {}, [], deque(maxlen=4), set(), defaultdict(dict)
def keep(x):
    cache["x"] = x + 1
    items.append(x + 2)
    recent.append((x + 3, "three"))
    members.add(x + 4)
    nested["a"]["b"] = {"c": [x + 5]}
    return x * 2
"""

KEEPS_GLOBAL = """
import torch
kept = None
def keep(x):
    global kept
    if kept is None:
        kept = x + 1
    return x * kept
"""


@pytest.mark.parametrize("fails", [False, True])
def test_a_cache_that_only_the_garbage_collector_knows(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module = elsewhere(REACHED, monkeypatch)

    def program(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = sys.modules[_ELSEWHERE].keep(x)
        if fails:
            raise ValueError("no good")
        return result

    if fails:
        with pytest.raises(onnx_parity.CaptureError, match="no good"):
            onnx_parity.export(program, (X,))
    else:
        onnx_parity.export(program, (X,), verify=True)
    assert not any(_is_made(each) for each in _tensors_in(vars(module)))


def _is_made(value: torch.Tensor) -> bool:
    from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor

    return isinstance(value, FakeTensor) or bool(torch._C._functorch.is_functionaltensor(value))


def _tensors_in(value: Any, depth: int = 6) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if not depth or not isinstance(value, dict | list | set | tuple | deque | defaultdict):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [tensor for each in list(inner) for tensor in _tensors_in(each, depth - 1)]


def test_a_place_that_cannot_be_restored_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(KEEPS_GLOBAL, monkeypatch)

    def program(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = sys.modules[_ELSEWHERE].keep(x)
        return result

    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(program, (X,))
    assert str(caught.value) == (
        "the program stored a tensor in elsewhere_of_tests.kept while it was exported. That tensor has no values, and "
        "what was there before is unknown, so it cannot be restored: set it to its earlier value before you call the "
        "program again. To export the program, call it once before the export, so that the tensor is there already, or "
        "keep the tensor in a buffer or an attribute of the module."
    )


KEEPS_ATTRIBUTE = """
class Keeper:
    def __init__(self):
        self.kept = None
keeper = Keeper()
{seen}
def keep(x):
    if keeper.kept is None:
        keeper.kept = x + 1
    return x * keeper.kept
"""


@pytest.mark.parametrize("seen", ["", "keeper.__dict__", "keeper.list = [keeper.__dict__]"])
def test_an_attribute_that_cannot_be_restored_is_named(seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python makes the dict of an object only when somebody asks for it."""
    elsewhere(KEEPS_ATTRIBUTE.format(seen=seen), monkeypatch)

    def program(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = sys.modules[_ELSEWHERE].keep(x)
        return result

    with pytest.raises(onnx_parity.CaptureError, match="in the attribute 'kept' of an object of the class Keeper"):
        onnx_parity.export(program, (X,))


def test_an_error_of_the_program_has_a_note_on_such_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(KEEPS_GLOBAL, monkeypatch)

    def program(x: torch.Tensor) -> torch.Tensor:
        sys.modules[_ELSEWHERE].keep(x)
        raise ValueError("no good")

    with pytest.raises(onnx_parity.CaptureError, match="no good") as caught:
        onnx_parity.export(program, (X,))
    (note,) = caught.value.__notes__
    assert note.startswith("the program stored a tensor in elsewhere_of_tests.kept while it was exported.")


def test_variables_of_what_failed_are_let_go_of() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        kept = x + 1
        raise ValueError(f"no good {kept.shape}")

    def made() -> list[torch.Tensor]:
        gc.collect()
        return [each for each in gc.get_objects() if isinstance(each, torch.Tensor) and _is_made(each)]

    before = made()
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(program, (X,))
    assert len(made()) == len(before)
    assert caught.value.__cause__ is not None and caught.value.__cause__.__traceback__ is not None


def test_a_cache_out_of_reach_that_an_earlier_attempt_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(REACHED + "\ndef kept(x):\n    return cache.setdefault('y', x * 3)\n", monkeypatch)

    def program(x: torch.Tensor) -> Any:
        # Its first attempt has no symbols, and ends at the data-dependent size.
        return sys.modules[_ELSEWHERE].kept(x) + 1, x[x > 0]

    exported = onnx_parity.export(program, (X,))
    assert not any(_is_made(each) for each in _tensors_in(vars(sys.modules[_ELSEWHERE])))
    assert_agrees(exported, lambda x: (x * 3 + 1, x[x > 0]), X)
