"""`InputObserver`: arguments and dynamic sizes inferred from calls of a module."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import onnx_parity
from onnx_parity.exporter import InputObserver


class Steps(nn.Module):
    """As a language model's: the first call has no cache."""

    def forward(
        self, x: torch.Tensor, cache: list[torch.Tensor] | None = None, scale: float = 2.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        whole = torch.cat([cache[0], x], 1) if cache is not None else x
        return whole.sum(1) * scale, whole


def random(*shape: int) -> torch.Tensor:
    return torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape)


def observed(*calls: dict[str, Any]) -> InputObserver:
    observer, model = InputObserver(), Steps()
    with observer(model):
        for call in calls:
            model(**call)
    return observer


def test_sizes_that_differ_between_calls_are_dynamic() -> None:
    model, observer = nn.Linear(4, 3), InputObserver()
    with observer(model):
        for rows in (2, 5):
            model(random(rows, 4))
    assert "forward" not in vars(model) and observer.num_obs() == 2
    assert observer.infer_dynamic_shapes() == ({0: Dim.DYNAMIC},)
    program = onnx_parity.export(model, observer.infer_arguments(), dynamic_shapes=observer.infer_dynamic_shapes())
    assert str(program.model.graph.inputs[0].shape) == "[input_dim_0,4]"
    found = observer.check_discrepancies(program)
    assert [(row["index"], row["SUCCESS"], row["n_inputs"]) for row in found] == [(0, True, 1), (1, True, 1)]


def test_an_argument_that_some_calls_lack_is_empty_there() -> None:
    observer = observed(
        {"x": random(2, 3, 4)},
        {"x": random(2, 1, 4), "cache": [random(2, 3, 4)]},
        {"x": random(2, 1, 4), "cache": [random(2, 4, 4)]},
    )
    assert observer.infer_dynamic_shapes() == {"x": {1: Dim.DYNAMIC}, "cache": [{1: Dim.DYNAMIC}]}
    batches = observer.infer_dynamic_shapes(set_batch_dimension_for={"x"})
    assert batches == {"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, "cache": [{1: Dim.DYNAMIC}]}
    first: Any = observer.infer_arguments(0)
    assert [tuple(each.shape) for each in (first["x"], first["cache"][0])] == [(2, 3, 4), (2, 0, 4)]
    arguments: Any = observer.infer_arguments(0)
    program = onnx_parity.export(
        Steps(), kwargs={**arguments, "cache": [random(2, 5, 4)]}, dynamic_shapes=observer.infer_dynamic_shapes()
    )
    rows = observer.check_discrepancies(program)
    assert [(row["SUCCESS"], row["n_empty"]) for row in rows] == [(True, 1), (True, 0), (True, 0)]
    wrong = onnx_parity.export(
        Steps(), kwargs={**arguments, "scale": 3.0}, dynamic_shapes=observer.infer_dynamic_shapes()
    )
    assert not any(row["SUCCESS"] for row in observer.check_discrepancies(wrong))


def test_values_for_what_is_missing() -> None:
    model, observer = Steps(), InputObserver({"cache": [random(2, 0, 4)]})
    with observer(model, store_n_calls=2):
        model(random(2, 3, 4))
        model(random(2, 3, 4), [random(2, 3, 4)])
        model(random(7, 3, 4))
    assert observer.num_obs() == 2
    assert observer.infer_dynamic_shapes() == ({}, [{1: Dim.DYNAMIC}])
    tensors: Any = observer.infer_arguments(flat=True)
    assert [tuple(each.shape) for each in tensors] == [(2, 3, 4), (2, 3, 4)]


def test_arguments_both_ways() -> None:
    model, observer = Steps(), InputObserver()
    with observer(model):
        model(random(2, 3, 4), scale=3.0)
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        observer.infer_arguments()
    assert str(caught.value) == (
        "the calls give arguments by position and by name: call infer_arguments(as_args_kwargs=True), and export with "
        "args and kwargs"
    )
    args, kwargs = observer.infer_arguments(as_args_kwargs=True)
    assert len(args) == 1 and kwargs == {"scale": 3.0}


def test_a_method_of_its_own_is_put_back() -> None:
    model = nn.ReLU()
    own = model.forward = lambda x: x + 1  # type: ignore[method-assign,assignment]
    with pytest.raises(ZeroDivisionError), InputObserver()(model):
        raise ZeroDivisionError
    assert model.forward is own


def test_what_cannot_be_inferred() -> None:
    observer = observed({"x": random(2, 3, 4)}, {"x": random(2, 3, 4), "cache": [random(2, 3, 4)]})
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        observer.infer_arguments(0)
    assert str(caught.value) == (
        "the argument 'cache' is missing in some calls, and all its axes have the same sizes in the others, so none "
        "can be empty: give InputObserver(value_if_missing={'cache': tensor})"
    )
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        observer.infer_arguments(2)
    assert str(caught.value) == (
        "2 is not the index of an observed call: give an int below 2, the number of observed calls"
    )
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        InputObserver().infer_arguments()
    assert str(caught.value) == "no calls were observed: call the module within `with observer(model):`"
    with pytest.raises(onnx_parity.ArgumentError) as caught, InputObserver()(nn.ReLU(), method_name="none"):
        pass
    assert str(caught.value) == ("ReLU has no method 'none' to observe: give the name of a method as method_name")
    mixed = InputObserver()
    model = nn.ReLU()
    with mixed(model):
        model(random(2))
        model(random(2, 2))
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        mixed.infer_dynamic_shapes()
    assert str(caught.value) == (
        "the number or the ranks of the tensors of 'input' differ between calls: an input of a model has one rank, so "
        "observe calls that agree"
    )
