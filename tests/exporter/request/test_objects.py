"""Objects that hold tensors, as arguments and as results, at any depth, without registration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch.export.dynamic_shapes import Dim

import onnx_parity
from onnx_parity.exporter.containers import closed, map_tensors, named_leaves, opened

X = torch.randn(2, 4)


class Layer:
    def __init__(self, length: int) -> None:
        self.keys = torch.randn(2, length, 3)
        self.values = torch.randn(2, length, 3)
        self.seen = length
        self.kind = "full"


class Cache:
    """Like the caches of language models: layers with keys and values, and a number that is their length."""

    def __init__(self, length: int, layers: int = 2) -> None:
        self.layers = [Layer(length) for _ in range(layers)]

    def update(self, number: int, new: torch.Tensor) -> torch.Tensor:
        layer = self.layers[number]
        layer.keys = torch.cat([layer.keys, new], 1)
        layer.values = torch.cat([layer.values, new * 2], 1)
        layer.seen = layer.seen + new.shape[1]
        return layer.keys.sum(1) + layer.seen


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, past_key_values: Cache) -> tuple[torch.Tensor, Cache]:
        past_key_values.update(0, x)
        return past_key_values.update(1, x + 1), past_key_values


def new(length: int) -> torch.Tensor:
    return torch.randn(2, length, 3)


def sizes(cache: Cache) -> list[int]:
    return [layer.keys.shape[1] for layer in cache.layers]


def test_a_cache_that_nobody_registered() -> None:
    cache = Cache(5)
    program = onnx_parity.export(
        Model(),
        (new(2), cache),
        dynamic_shapes={"x": {1: "sequence"}, "past_key_values": {1: "past"}},
        verify=True,
    )
    names = [f"past_key_values.{layer}.{part}" for layer in (0, 1) for part in ("key", "value")]
    assert program.input_names == ("x", *names)
    assert program.output_names[:3] == ("output_0", "present.0.key", "present.0.value")
    assert sizes(cache) == [5, 5] and cache.layers[0].seen == 5
    for length in (0, 1, 9):
        x, past = new(3), Cache(length)
        result, present = program(x, past)
        assert isinstance(present, Cache) and sizes(present) == [length + 3] * 2 and present.layers[0].kind == "full"
        wanted, _ = Model()(x, past)
        torch.testing.assert_close(result, wanted)
        assert present.layers[1].seen == length + 3


def test_a_cache_that_is_called_cache() -> None:
    """The argument and the field of a result that transformers 5.24 has: their tensors have the names of before."""

    class Renamed(Model):
        def forward(self, x: torch.Tensor, cache: Cache) -> dict[str, Any]:  # type: ignore[override]
            result, cache = super().forward(x, cache)
            return {"logits": result, "cache": cache}

    shapes = {"x": {1: "sequence"}, "cache": {1: "past"}}
    program = onnx_parity.export(Renamed(), (new(2),), kwargs={"cache": Cache(5)}, dynamic_shapes=shapes)
    assert program.input_names[:3] == ("x", "past_key_values.0.key", "past_key_values.0.value")
    assert program.output_names[:3] == ("logits", "present.0.key", "present.0.value")


def test_a_number_that_is_a_size_must_be_that_size() -> None:
    shapes = {"x": {1: "sequence"}, "past_key_values": {1: "past"}}
    program = onnx_parity.export(Model(), (new(2), Cache(5)), dynamic_shapes=shapes)
    past = Cache(7)
    past.layers[1].seen = 8
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program(new(2), past)
    assert str(caught.value) == (
        "past_key_values.layers[1].seen is 8, but the model takes it to be the size of the axis 'past', as in the "
        "example that it was exported with, and 'past_key_values.0.key' has size 7 there"
    )


def test_numbers_that_change_and_are_no_sizes_are_refused() -> None:
    cache = Cache(5)
    cache.layers[0].seen = 1
    arguments, shapes = {"x": new(2), "past_key_values": cache}, {"past_key_values": {1: "past"}}
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(Model(), kwargs=arguments, dynamic_shapes=shapes)
    assert str(caught.value) == (
        "the program changes 1 number in an object that it is given and gives back. The exported model would have the "
        "example's as constants, and so be wrong for every further call with what it gave back:\n"
        "  - past_key_values.layers[0].seen\n"
        "Keep them in tensors. If the object is a cache that keeps the last tokens and counts all of them, name the "
        "axis of what it keeps by the sizes of the mask and of the new tokens, as in 'min(all - sequence, 7)' for a "
        "sliding window of 8. If nothing depends on these numbers, export with allow_ignored_inputs=True."
    )
    with pytest.warns(onnx_parity.DroppedWriteWarning, match=r"past_key_values\.layers\[0\]\.seen"):
        onnx_parity.export(Model(), kwargs=arguments, dynamic_shapes=shapes, allow_ignored_inputs=True)


class Window(Cache):
    """Like the caches of sliding windows: the keys of the last tokens, and the number of all tokens so far."""

    def update(self, number: int, new: torch.Tensor) -> torch.Tensor:
        layer = self.layers[number]
        layer.keys = torch.cat([layer.keys, new], 1)[:, 1:]
        layer.values = torch.cat([layer.values, new], 1)[:, 1:]
        layer.seen = layer.seen + new.shape[1]
        return layer.keys.sum(1) + layer.seen


def test_a_number_that_is_a_size_before_and_not_after_is_refused() -> None:
    shapes = {"x": {1: "sequence"}, "past_key_values": {1: "past"}}
    with pytest.raises(onnx_parity.CaptureError, match=r"changes 2 numbers .*\n  - past_key_values\.layers\[0\]\.seen"):
        onnx_parity.export(Model(), (new(2), Window(5)), dynamic_shapes=shapes)


class LastFive(Cache):
    """It keeps five tokens at most, and counts all of them."""

    def update(self, number: int, new: torch.Tensor) -> torch.Tensor:
        layer = self.layers[number]
        layer.keys = torch.cat([layer.keys, new], 1)
        layer.values = torch.cat([layer.values, new * 2], 1)[:, -5:]
        result = layer.keys.sum(1) + layer.seen + layer.keys.shape[1]
        layer.keys = layer.keys[:, -5:]
        layer.seen = layer.seen + new.shape[1]
        return result


def last_five(count: int) -> LastFive:
    cache = LastFive(min(count, 5))
    for layer in cache.layers:
        layer.seen = count
    return cache


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor, past_key_values: Cache) -> tuple[torch.Tensor, Cache]:
        past_key_values.update(0, x)
        return past_key_values.update(1, x + 1) + mask.sum(1, keepdim=True), past_key_values


@pytest.mark.parametrize("count", [3, 8])
def test_a_cache_that_keeps_the_last_tokens_and_counts_all(count: int) -> None:
    axis = {1: "min(all - sequence, 5)"}
    program = onnx_parity.export(
        Masked(),
        (new(2), torch.ones(2, count + 2), last_five(count)),
        dynamic_shapes={"x": {1: "sequence"}, "mask": {1: "all"}, "past_key_values": axis},
        verify=True,
    )
    for past in (0, 1, 5, 7):
        x, mask, cache = new(3), torch.ones(2, past + 3), last_five(past)
        result, present = program(x, mask, cache)
        wanted, _ = Masked()(x, mask, cache)
        torch.testing.assert_close(result, wanted)
        assert sizes(present) == [min(past + 3, 5)] * 2 and present.layers[0].seen == past + 3
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program(new(3), torch.ones(2, 7), last_five(3))
    assert str(caught.value) == (
        "past_key_values.layers[0].seen is 3, but the model takes it to be all - sequence, as in the example that it "
        "was exported with, which is 4"
    )


class Lazy(LastFive):
    """Its layers have a tensor from the beginning, and keys from the first token on."""

    def __init__(self) -> None:
        super().__init__(0)
        for layer in self.layers:
            layer.keys = layer.values = None  # type: ignore[assignment]
            layer.scale = torch.tensor(2.0)  # type: ignore[attr-defined]
            layer.kind = "empty"

    def update(self, number: int, new: torch.Tensor) -> torch.Tensor:
        layer = self.layers[number]
        if layer.kind == "empty":
            layer.keys, layer.values, layer.kind = new[:, :0], new[:, :0], "full"
        return super().update(number, new * layer.scale)  # type: ignore[attr-defined]


def test_a_cache_before_the_first_token() -> None:
    """One model for the prompt counts the tokens; one for all tokens takes the cache as it is before the first."""
    shapes = {"x": {1: "all"}, "mask": {1: "all"}, "past_key_values": None}
    first = onnx_parity.export(Masked(), (new(7), torch.ones(2, 7), Lazy()), dynamic_shapes=shapes)
    x, mask = new(3), torch.ones(2, 3)
    result, present = first(x, mask, Lazy())
    assert sizes(present) == [3, 3] and present.layers[1].seen == 3 and present.layers[1].kind == "full"
    axes = [{1: "min(all - sequence, 5)"}, {1: "min(all - sequence, 5)"}, {}] * 2
    of_all: dict[str, Any] = {"x": {1: "sequence"}, "mask": {1: "all"}, "past_key_values": axes}
    further = onnx_parity.export(
        Masked(), (new(2), torch.ones(2, 9), first(new(7), torch.ones(2, 7), Lazy())[1]), dynamic_shapes=of_all
    )
    torch.testing.assert_close(further(x, mask, Lazy())[0], result)
    _, present = further(new(4), torch.ones(2, 7), further(x, mask, Lazy())[1])
    assert sizes(present) == [5, 5] and present.layers[1].seen == 7


def test_numbers_of_a_cache_that_is_not_returned_are_warned_about() -> None:
    def program(x: torch.Tensor, cache: Cache) -> torch.Tensor:
        return cache.update(0, x)

    cache = Cache(5)
    cache.layers[0].seen = 1
    with pytest.warns(onnx_parity.DroppedWriteWarning, match=r"cache\.layers\[0\]\.seen"):
        onnx_parity.export(program, (new(2), cache))


def test_a_refused_export_leaves_the_cache_as_it_was() -> None:
    def program(x: torch.Tensor, cache: Cache) -> torch.Tensor:
        cache.update(0, x)
        raise ValueError("no")

    cache = Cache(5)
    before = cache.layers[0].keys
    with pytest.raises(onnx_parity.CaptureError):
        onnx_parity.export(program, (new(2), cache))
    assert cache.layers[0].keys is before and cache.layers[0].seen == 5


@pytest.mark.parametrize("written", [False, True])
def test_a_cache_that_is_not_returned(written: bool) -> None:
    def program(x: torch.Tensor, cache: Cache) -> torch.Tensor:
        return cache.update(0, x)

    cache = Cache(5)
    if not written:
        with pytest.warns(onnx_parity.DroppedWriteWarning, match=r"past_key_values\.0\.key, past_key_values\.0\.value"):
            onnx_parity.export(program, (new(2), cache))
        return
    exported = onnx_parity.export(program, (new(2), cache), return_written=True, verify=True)
    assert exported.output_names == ("output", "past_key_values.0.key_written", "past_key_values.0.value_written")
    x = new(2)
    _, new_values = exported(x, cache)
    torch.testing.assert_close(new_values["past_key_values.0.key"], torch.cat([cache.layers[0].keys, x], 1))


class Static:
    def __init__(self) -> None:
        self.keys = torch.zeros(2, 6, 3)
        self.length = torch.tensor(0)


def test_a_cache_that_is_written_in_place() -> None:
    def program(x: torch.Tensor, cache: Static) -> tuple[torch.Tensor, Static]:
        places = torch.arange(x.shape[1]) + cache.length
        cache.length.add_(x.shape[1])
        cache.keys.index_copy_(1, places, x)
        return cache.keys.sum(1), cache

    program_of = onnx_parity.export(program, (new(2), Static()), verify=True)
    assert program_of.input_names == ("x", "cache.keys", "cache.length")
    assert program_of.output_names == ("output_0", "output_1.keys", "output_1.length")
    ours, theirs = Static(), Static()
    for _ in range(3):
        x = new(2)
        result, ours = program_of(x, ours)
        torch.testing.assert_close(result, program(x, theirs)[0])
    assert int(ours.length) == int(theirs.length) == 6


# --- other objects ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    x: torch.Tensor
    weight: float = 2.0


@dataclass(slots=True)
class State:
    hidden: torch.Tensor
    points: list[Point] = field(default_factory=list)
    named: dict[str, torch.Tensor] = field(default_factory=dict)
    other: Any = None


def test_dataclasses_at_any_depth() -> None:
    def program(state: State) -> dict[str, State]:
        total = sum(point.x * point.weight for point in state.points)
        return {"state": State(state.hidden + total, [Point(state.named["a"])], {"b": state.hidden * 2}, "done")}

    state = State(X, [Point(X + 1), Point(X + 2, 3.0)], {"a": X * 3})
    exported = onnx_parity.export(program, (state,), dynamic_shapes=({0: "batch"},), verify=True)
    assert exported.input_names == ("state.hidden", "state.points.0.x", "state.points.1.x", "state.named.a")
    assert exported.output_names == ("state.hidden_out", "state.points.0.x_out", "state.named.b")
    result = exported(state)["state"]
    assert type(result) is State
    assert type(result.points[0]) is Point
    assert result.other == "done"
    torch.testing.assert_close(result.hidden, program(state)["state"].hidden)


def test_an_object_that_refers_to_itself_and_one_that_stands_twice() -> None:
    class Node:
        def __init__(self, x: torch.Tensor) -> None:
            self.x, self.me, self.shared = x, self, [Point(x)]
            self.again = self.shared[0]

    node = Node(X)
    made = closed(opened((node, {"a": node})))
    assert made[0] is made[1]["a"] and made[0] is not node
    assert made[0].me is made[0] and made[0].again is made[0].shared[0] and made[0].x is X
    assert [path for path, leaf in named_leaves(opened(node)) if isinstance(leaf, torch.Tensor)] == [
        ("x",), ("shared", 0, "x"),
    ]  # fmt: skip


def test_a_dict_with_attributes() -> None:
    class Result(dict[str, torch.Tensor]):
        def __init__(self, **items: torch.Tensor) -> None:
            super().__init__(**items)
            self.__dict__.update(items)

    exported = onnx_parity.export(lambda x: Result(logits=x + 1, scores=x * 2), (X,), verify=True)
    assert exported.output_names == ("logits", "scores")
    result = exported(X)
    assert isinstance(result, Result) and result["logits"] is result.logits  # type: ignore[attr-defined]
    torch.testing.assert_close(result["scores"], X * 2)


def test_objects_that_cannot_be_taken_apart_are_refused() -> None:
    class Pair(tuple[torch.Tensor, ...]):
        name = "a"

    class Bag:
        def __init__(self) -> None:
            self.held = {X}

    with pytest.raises(onnx_parity.ArgumentError, match="a set among the arguments or results holds tensors"):
        onnx_parity.export(lambda bag: X + 1, (Bag(),))
    with pytest.raises(
        onnx_parity.ArgumentError, match="Pair among the arguments or results holds tensors and cannot be taken apart"
    ):
        onnx_parity.export(lambda pair: pair[0] + 1, (Pair((X,)),))


# --- dynamic shapes through objects -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shapes",
    [
        {0: "batch"},
        {0: Dim.AUTO},
        {"x": {0: "batch"}, "weight": None},
        [{0: "batch"}],
        Point({0: "batch"}),  # type: ignore[arg-type]
    ],
)
def test_forms_of_the_shapes_of_an_object(shapes: Any) -> None:
    exported = onnx_parity.export(
        lambda point, y: point.x * y.sum(),
        (Point(X), torch.ones(3)),
        dynamic_shapes=(shapes, {0: "other"}),
        verify=True,
    )
    point, y = exported.model.graph.inputs
    assert point.shape is not None and y.shape is not None
    assert not isinstance(point.shape[0], int) and str(y.shape[0]) == "other" and point.shape[1] == 4


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            "nonsense",
            "dynamic_shapes['point'] is 'nonsense', but the argument is a Point: give the axes of all its tensors, "
            "{0: 'batch'}, a list with one entry for each tensor, or a dict by the names of its attributes",
        ),
        (
            {"y": {0: "batch"}},
            "dynamic_shapes['point'] names 'y', which the argument does not hold: give one of 'x', 'weight'",
        ),
        (
            [{0: "batch"}, None, None],
            "dynamic_shapes['point'] has 3 entries, but the Point holds 1 tensors: give one for each, or the axes of "
            "all of them, {0: 'batch'}",
        ),
        (
            {5: "batch"},
            "dynamic_shapes['point'] names 6 axes, but no tensor of the Point has as many: give axes that they have",
        ),
        (
            {"x": {0: "batch"}, "weight": {0: "b"}},
            "dynamic_shapes['point']['weight'] is {0: 'b'}, but the argument has no tensor there: give None",
        ),
    ],
)
def test_shapes_that_do_not_fit_an_object(shapes: Any, message: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(lambda point: point.x, (Point(X),), dynamic_shapes={"point": shapes})
    assert str(caught.value) == message


@dataclass
class Registered:
    a: torch.Tensor
    b: torch.Tensor


def test_axes_go_to_the_argument_that_they_were_given_for() -> None:
    torch.export.register_dataclass(Registered)
    exported = onnx_parity.export(
        lambda state, y: state.a + state.b + y.sum(),
        (Registered(X, X), torch.ones(3)),
        dynamic_shapes={"state": None, "y": {0: "n"}},
    )
    shapes = [[str(size) for size in value.shape or ()] for value in exported.model.graph.inputs]
    assert shapes == [["2", "4"], ["2", "4"], ["n"]]


# --- sizes that depend on each other ----------------------------------------------------------------------------------


def decoder(x: torch.Tensor, mask: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
    whole = torch.cat([past, x], 1)
    return (whole * mask.unsqueeze(-1)).sum(1)


@pytest.mark.parametrize("label", ["past + sequence", "mask"])
def test_a_mask_as_long_as_the_past_and_the_sequence(label: str) -> None:
    exported = onnx_parity.export(
        decoder,
        (new(2), torch.ones(2, 5), new(3)),
        dynamic_shapes={"x": {1: "sequence"}, "mask": {1: label}, "past": {1: "past"}},
        verify=True,
    )
    for past in (0, 1, 7):
        given = (new(1), torch.rand(2, past + 1), new(past))
        torch.testing.assert_close(exported(*given), decoder(*given))


def test_an_example_without_a_past() -> None:
    exported = onnx_parity.export(
        decoder,
        (new(2), torch.ones(2, 2), new(0)),
        dynamic_shapes={"x": {1: "sequence"}, "mask": {1: "past + sequence"}, "past": {1: "past"}},
        verify=True,
    )
    given = (new(1), torch.rand(2, 5), new(4))
    torch.testing.assert_close(exported(*given), decoder(*given))


def test_an_expression_that_the_example_contradicts() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(
            decoder,
            (new(2), torch.ones(2, 5), new(3)),
            dynamic_shapes={"x": {1: "sequence"}, "mask": {1: "2*past + sequence"}, "past": {1: "past"}},
        )
    assert str(caught.value) == (
        "the axis '2*past + sequence' of 'mask' has size 5 in the example, but the axes that it names give 8: give an "
        "example that fits, or another name"
    )


def test_a_function_is_applied_to_each_tensor_at_any_depth() -> None:
    one, two = torch.ones(2), torch.zeros(3)
    mapped = map_tensors(lambda x: x + 1, (one, [two, 3, {"a": one}], None))
    assert mapped[0].tolist() == [2.0, 2.0]
    assert mapped[1][0].tolist() == [1.0, 1.0, 1.0]
    assert (mapped[1][1], mapped[1][2]["a"].tolist(), mapped[2]) == (3, [2.0, 2.0], None)
    assert [each.tolist() for each in map_tensors(lambda x: x * 2, (one, two))] == [[2.0, 2.0], [0.0, 0.0, 0.0]]
    assert type(map_tensors(lambda x: x, [one])) is list
