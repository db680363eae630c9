"""Calls of `export` with something else in the place of the program or of its example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import onnx_parity
from onnx_parity.exporter.errors import OnnxExporterWarning

X = (torch.ones(1, 3),)


def refused(model: Any, args: Any = X, **options: Any) -> str:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(model, args, **options)
    return str(caught.value)


def test_a_model_that_is_exported_already() -> None:
    program = onnx_parity.export(torch.nn.Linear(3, 2), X)
    for args in (X, ()):
        assert refused(program, args) == (
            "model is of type ONNXProgram, which is a model in ONNX already: save() writes it to a file. To export it "
            "in another way, give the PyTorch program that it was made from"
        )


@pytest.mark.parametrize("file", ["out.onnx", Path("out.onnx")])
def test_a_file_in_the_place_of_the_example(file: str | Path) -> None:
    module = torch.nn.Linear(3, 2)
    assert refused(module, file) == (
        "args is 'out.onnx', which is the name of a file: give the example arguments before it, export(model, (x,), "
        "'out.onnx')"
    )
    assert refused(torch.export.export(module, X), file) == (
        "args is 'out.onnx', which is the name of a file: an ExportedProgram has its example, export(program, "
        "f='out.onnx')"
    )


def test_a_file_in_the_place_of_the_program() -> None:
    kinds = "give a torch.nn.Module, a function of tensors, or an ExportedProgram"
    assert refused("saved.pt2") == f"model is 'saved.pt2': {kinds}, as torch.export.load('saved.pt2') may return one"
    assert refused("saved.onnx") == f"model is 'saved.onnx': {kinds}"


class Kept:
    """Such as a cache before the first call: it may hold a tensor."""

    keys: torch.Tensor | None = None


@pytest.mark.parametrize("held", [Kept(), None, 3])
def test_axes_of_an_argument_that_holds_no_tensor(held: object) -> None:
    more = ", or an example whose Kept holds tensors, as after a first call" if isinstance(held, Kept) else ""
    shapes = {"x": {0: "n"}, "kept": {0: "past"}}
    assert refused(lambda x, kept: x + 1, (X[0], held), dynamic_shapes=shapes) == (
        f"dynamic_shapes['kept'] is {{0: 'past'}}, but the argument has no tensor there: give None{more}"
    )


@torch.library.custom_op("mistaken::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x * x * x


@cube.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_a_lowering_whose_name_is_misspelt() -> None:
    with pytest.warns(OnnxExporterWarning, match="aten::gelux, so .* did you mean 'aten::gelu'?"):
        onnx_parity.lowering("aten::gelux")(lambda g, x: x)
    onnx_parity.unregister_custom_op_symbolic("aten::gelux", 1)
    onnx_parity.lowering("mistaken::cubed")(lambda g, x: x)
    try:
        with pytest.raises(onnx_parity.UnsupportedOperatorsError, match="one is registered for 'mistaken::cubed', and"):
            onnx_parity.export(torch.ops.mistaken.cube, X)
    finally:
        onnx_parity.unregister_custom_op_symbolic("mistaken::cubed", 1)
    assert "'aten::lineer', which is not an operator: did you mean 'aten::linear'?" in refused(
        torch.nn.Linear(3, 2), custom_translation_table={"aten::lineer": lambda g, x, w, b: x}
    )
