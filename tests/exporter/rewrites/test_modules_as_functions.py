"""`export_modules_as_functions`: modules as functions of the model, shared by equal modules, and nested."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onnx_parity
from tests.exporter.subjects import assert_agrees, images


class Block(nn.Module):
    def __init__(self, channels: int, slope: float = 0.1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.slope = slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + nn.functional.leaky_relu(self.norm(self.conv(x)), self.slope)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Block(3), Block(3), Block(3, 0.5), nn.Flatten(), nn.LazyLinear(2)).eval()


def built() -> nn.Module:
    module = model()
    module(images())
    return module


def test_chosen_modules_become_functions_and_like_ones_are_one() -> None:
    module = built()
    program = onnx_parity.export(module, images(), export_modules_as_functions={Block})
    assert [node.op_type for node in program.model.graph][:3] == ["Block", "Block", "Block_1"]
    assert {name for _, name, _ in program.model.functions} == {"Block", "Block_1"}
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    function = proto.functions[0]
    assert function.input[0] == "input" and "conv.weight" in function.input
    assert_agrees(program, module, images())
    program.verify()


def test_all_modules_nest() -> None:
    module = built()
    program = onnx_parity.export(module, images(), export_modules_as_functions=True, opset_version=17)
    names = {name for _, name, _ in program.model.functions}
    assert names == {"Block", "Block_1", "Conv2d", "BatchNorm2d", "Flatten", "Linear"}
    block = next(function for key, function in program.model.functions.items() if key[1] == "Block")
    assert [node.op_type for node in block] == ["Conv2d", "BatchNorm2d", "LeakyRelu", "Add"]
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert_agrees(program, module, images())


def test_the_same_module_called_twice() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.part(self.part(x).relu())
            return result

    module = Twice()
    program = onnx_parity.export(module, torch.ones(2, 3), export_modules_as_functions={nn.Linear})
    assert [node.op_type for node in program.model.graph] == ["Linear", "Relu", "Linear"]
    assert len(program.model.functions) == 1
    assert_agrees(program, module, torch.ones(2, 3))


def test_dynamic_sizes() -> None:
    class Flat(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(x.shape[0] * 2, -1)

    module = nn.Sequential(nn.ReLU(), Flat())
    program = onnx_parity.export(
        module, torch.ones(3, 4), input_names=["x"], dynamic_axes={"x": [0]}, export_modules_as_functions=True
    )
    program.verify()
    assert program(torch.ones(5, 4)).shape == (10, 2)


def test_what_is_not_possible() -> None:
    with pytest.raises(onnx_parity.OpsetError) as opset:
        onnx_parity.export(built(), images(), export_modules_as_functions=True, opset_version=14)
    assert str(opset.value) == (
        "export_modules_as_functions needs opset 15 or later, but opset_version is 14: give opset_version=15"
    )
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(built(), images(), export_modules_as_functions={nn.LSTM})
    assert str(caught.value) == (
        "export_modules_as_functions is LSTM, but the program has no such module: give the classes of modules that it "
        "has"
    )
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(torch.relu, images(), export_modules_as_functions=True)
    assert str(caught.value) == (
        "export_modules_as_functions needs a torch.nn.Module, but the program is a function: export a module"
    )


@pytest.mark.parametrize("which", [3, [3], torch.ones(2)])
def test_what_is_no_class_of_modules(which: Any) -> None:
    with pytest.raises(onnx_parity.ArgumentError, match="give True, or the classes of modules"):
        onnx_parity.export(nn.ReLU(), (torch.ones(2),), export_modules_as_functions=which, opset_version=18)
